"""Real control planes on one machine: etcd, Kubernetes, Kueue and JobSet, with pods as processes.

``python -m tests.cluster.rig build`` makes the binaries, once. ``up`` and ``down`` start and end
three regions by hand; tests ask for a ``Rig`` (``rig.py``), whose ``Region`` has its faults as
methods. Nothing here is used by the product. Read ``README.md``, then ``region.py``.
"""
