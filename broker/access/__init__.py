"""Who may call from another machine: tokens in a file, certificates, and tries that are counted.

Nothing of the broker is known here but the nouns, and no gRPC: the edge asks, ``serving`` and
``daemon`` put it together. Read ``tokens`` first.
"""
