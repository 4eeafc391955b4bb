"""The nouns of the broker: frozen values, standard library only.

Every other package speaks in these words. Nothing here reads a clock, draws a random number or
does I/O; construction checks only what a value needs to be itself (see ``intent.problems`` for
what a user may ask). Read ``intent.py`` first, then ``run.py``.
"""
