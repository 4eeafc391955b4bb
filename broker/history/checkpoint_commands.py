"""What is told of a run's checkpoints: found complete, copied, lost, marked, removed.

Offered by ``history.commands`` with all others.
"""

from dataclasses import dataclass
from decimal import Decimal

from broker.model.checkpoint import CheckpointRef, EpochId


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCheckpoint:
    """A complete checkpoint of the open epoch was found and described."""

    ref: CheckpointRef
    size_bytes: int
    region: str
    written_wall_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RefuseCheckpoint:
    """A marker of the open epoch stands in its store and does not hold."""

    epoch: EpochId
    step: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCopy:
    """A verified copy was made from ``source`` for ``usd`` US dollars, or found; see the event."""

    ref: CheckpointRef
    region: str
    source: str = ""
    sent_bytes: int = 0
    usd: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLostCopy:
    """A copy is gone or damaged."""

    ref: CheckpointRef
    region: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkCheckpoint:
    """Mark the checkpoint of a step bad, pinned or labelled; None leaves a mark.

    ``hold_for`` is a fork that is to begin with it, empty for none.
    """

    step: int
    is_bad: bool | None = None
    is_pinned: bool | None = None
    label: str | None = None
    hold_for: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPruned:
    """Retention removed a checkpoint everywhere."""

    ref: CheckpointRef


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginRetirement:
    """Say that all that an ended run left in stores is going to be removed, then the run."""
