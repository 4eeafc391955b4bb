"""The whole broker in a seeded world: faults on and the laws watched, then off, and it converges.

Everything of production runs as it is but what touches the outside: the event loop's time, the
clusters' processes, the stores' disks. ``play.play`` is one seed; ``python -m tests.simulation``
is many.
"""
