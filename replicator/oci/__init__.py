"""Images: what a registry says of them is judged here, before any of it is fetched.

All of it is pure: ``reference``, ``manifest``, ``plan``, ``challenge``, ``headers``, ``locations``,
``answers``. Registries are hostile until their bytes had the digest that was asked for. Begin with
``plan.plan``.
"""
