"""A region's machines, as one process: what kubelets do for pods, and what a cloud does for nodes.

kwok keeps the nodes alive and pretends nothing else. Pods are real processes of this machine
(``kubelet``, ``pod``, ``containers``); nodes come, stay away and go as a test says (``cloud``,
``flex``). What differs from a real node is written in the rig's README and nowhere hidden.
"""
