"""How far behind a region is: pure.

Behind what? Behind the newest complete checkpoint of the run, wherever it lies: the training that
would be lost by starting here. Read ``lag`` first.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from replicator.checkpoint.paths import CheckpointPath


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCheckpoint:
    """A complete checkpoint that counts. ``completed_s`` is wall time, seconds since 1970."""

    path: CheckpointPath
    size_bytes: int
    completed_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCopies:
    """One run's checkpoints and where they are.

    ``checkpoints`` are newest first as the lineage counts. ``present`` has every region to report
    on, with the checkpoints it has a verified replica of. ``copied_bytes`` are those of the newest
    checkpoint that a copy in flight has already brought to a region. ``started_s`` is when the
    run first started, wall time in seconds.
    """

    started_s: float
    checkpoints: Sequence[KnownCheckpoint]
    present: Mapping[str, AbstractSet[CheckpointPath]]
    copied_bytes: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """One region's state. ``newest`` is None when it has nothing to resume from.

    Steps and seconds are of training that a start here would repeat; bytes are what has yet to be
    copied to catch up. All are 0 when it has the newest, or when there is no checkpoint at all.
    """

    newest: CheckpointPath | None
    steps_behind: int
    bytes_behind: int
    seconds_behind: float


def lag(run: RunCopies) -> dict[str, Lag]:
    """Return how far behind each region of ``run.present`` is."""
    return {region: _lag_of(run, region) for region in run.present}


def _lag_of(run: RunCopies, region: str) -> Lag:
    here = next((one for one in run.checkpoints if one.path in run.present[region]), None)
    newest = run.checkpoints[0] if run.checkpoints else None
    if newest is None or here == newest:
        return Lag(
            newest=here.path if here else None, steps_behind=0, bytes_behind=0, seconds_behind=0.0
        )
    missing_bytes = newest.size_bytes - run.copied_bytes.get(region, 0)
    since_s = run.started_s if here is None else here.completed_s
    return Lag(
        newest=here.path if here else None,
        # After a rollback an older checkpoint can have the higher step: that is not behind.
        steps_behind=max(0, newest.path.step - (here.path.step if here else 0)),
        bytes_behind=max(0, missing_bytes),
        seconds_behind=max(0.0, newest.completed_s - since_s),
    )
