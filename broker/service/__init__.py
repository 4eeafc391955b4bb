"""The gRPC edge: translates and refuses, decides nothing.

The rule: a handler turns the wire into a command or a question, asks the ledger or a port of
``ports.py``, and turns the answer back. Whatever goes wrong leaves as one status with a reason;
no stack trace does. Read ``server.py`` first, then ``edge.py``.
"""
