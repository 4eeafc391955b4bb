"""What is sent to a cluster for a placement, as people are shown it.

The rule: it is what the cluster's own port builds, untouched; secrets are in it by name alone.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SentObject:
    """One object: its kind and name as the cluster has them, and the whole of it in JSON."""

    kind: str
    name: str
    json: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What is sent, in order of its creation, and what is worth saying of it.

    ``refusal`` is why nothing is: the cluster would refuse the order. Empty when it would not.
    """

    objects: tuple[SentObject, ...]
    notes: tuple[str, ...]
    refusal: str
