"""What can be made to go wrong in an embedded cluster, in the words of ``broker local``.

The rule: a fault is asked for by a person, for a region; an empty flavor means all of them.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Stockout:
    """No new machine comes."""

    flavor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialArrival:
    """Only ``nodes`` more machines come, then none."""

    flavor: str
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """Machines are taken back: a placement's, or all that a flavor uses.

    ``notice_s`` None is the flavor's own notice, 0 none at all.
    """

    placement: str
    flavor: str
    notice_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """The cluster stops answering for ``duration_s``; what runs there runs on."""

    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowness:
    """Each answer of the cluster takes ``delay_s`` longer."""

    delay_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoration:
    """All faults end."""


Fault = Stockout | PartialArrival | Preemption | Outage | Slowness | Restoration
