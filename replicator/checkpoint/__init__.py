"""Checkpoints: found, described, copied, verified, and removed in the right order.

A checkpoint is a directory of immutable files under its epoch, complete when its marker is there
(``formats``). A region has it when its manifest is there too and every object still matches
(``manifest``, ``verify``). An origin's checkpoints get their manifest by ``describe.attest``;
``copy.copy`` brings them elsewhere; ``removal`` takes them away. Deciding is pure: ``plan``,
``lag``, ``retention``.
"""
