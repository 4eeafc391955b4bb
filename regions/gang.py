"""What a cluster is told of a gang: its shape, and the seals that its grant rests on.

The rule: plain numbers and words; what they mean in a cluster is the cluster's business.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """The processes to start: ``ranks`` members with ``accelerators_per_node`` GPUs each."""

    ranks: int
    accelerator: str
    accelerators_per_node: int
    cpu_millis: int = 0
    memory_bytes: int = 0
    topology: str = "NONE"


@dataclass(frozen=True, slots=True, kw_only=True)
class SealRecord:
    """A closed epoch and the (step, manifest digest) pairs of it that count."""

    number: int
    nonce: str
    checkpoints: tuple[tuple[int, str], ...]
