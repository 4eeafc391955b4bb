"""What holds for a region or a team while planning, and what content a run would find where."""

from collections.abc import Callable
from dataclasses import dataclass, field

from broker.model.checkpoint import Checkpoint
from broker.model.policy import RegionPolicy
from broker.model.run import Run

# The checkpoints that a run could resume from, newest first; ``history.lineage.resumable``.
Resumable = Callable[[Run], tuple[Checkpoint, ...]]


BECAUSE_MAX = 200  # characters: it is written down with each wait that it explains


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionStanding:
    """A region as ops set it. ``is_surveyed`` False: not read whole since a restore (R1).

    ``drain_grace_s`` is what a drain of the region gives each gang to save, in seconds, and
    ``message`` what ops said when they closed it.
    """

    region: str
    policy: RegionPolicy = field(default_factory=RegionPolicy)
    is_cordoned: bool = False
    is_draining: bool = False
    drain_grace_s: float = 60.0
    message: str = ""
    is_surveyed: bool = True

    @property
    def because(self) -> str:
        """The end of a sentence that says that it is closed: what ops said, or nothing."""
        if len(self.message) <= BECAUSE_MAX:
            return f": {self.message}" if self.message else ""
        return f": {self.message[: BECAUSE_MAX - 1]}…"
