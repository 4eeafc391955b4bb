"""Images: looked up, checked for a platform, and copied between registries by digest.

What an image is made of is judged by pure code (``reference``, ``manifest``, ``plan``,
``challenge``, ``headers``, ``locations``, ``answers``); what a registry is asked is ``registry``,
``download`` and ``upload``, over ``wire`` and with ``login``. Registries are hostile until their
bytes had the digest that was asked for. Begin with ``copying.Copier.copy`` and
``resolving.resolve``.
"""
