"""What happened to a run's checkpoints. Offered by ``history.events`` with all others."""

from dataclasses import dataclass
from decimal import Decimal

from broker.model.checkpoint import CheckpointRef, EpochId


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCompleted:
    """The open epoch completed a checkpoint in its own region's store."""

    ref: CheckpointRef
    size_bytes: int
    region: str
    written_wall_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRefused:
    """A marker stands in the epoch's store and does not hold; should it ever, it is completed."""

    epoch: EpochId
    step: int
    region: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCopied:
    """A verified copy stands in another region.

    It came from ``source``, at ``usd`` US dollars; empty and 0 where it was found there.
    """

    ref: CheckpointRef
    region: str
    source: str = ""
    sent_bytes: int = 0
    usd: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointLost:
    """A copy is not there, or no longer matches its manifest."""

    ref: CheckpointRef
    region: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointMarked:
    """A user marked a checkpoint: bad, pinned, labelled. None leaves a mark as it is.

    ``held_for`` is a fork that begins with it, empty for none.
    """

    ref: CheckpointRef
    is_bad: bool | None = None
    is_pinned: bool | None = None
    label: str | None = None
    held_for: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPruned:
    """Retention removed a checkpoint from every store."""

    ref: CheckpointRef


@dataclass(frozen=True, slots=True, kw_only=True)
class RetirementBegun:
    """All that the ended run left in stores goes from here on; then the run leaves the log."""
