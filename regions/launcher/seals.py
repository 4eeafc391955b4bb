"""What counts of a closed epoch, and where a run may resume from.

The rule: a run resumes from what a seal counts, or from nothing. Read ``seal`` first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import FrozenSet, Iterable, Mapping, Optional, Tuple

from regions.launcher.layout import EpochId, Seal, checkpoint_of


def seal(
    epoch: EpochId,
    known: Iterable[Tuple[int, str]],
    scan: Optional[Iterable[Tuple[int, str]]],
) -> Seal:
    """Say which checkpoints of an epoch count, once and for all, as it is closed (B3).

    ``known`` are (step, manifest digest) pairs known complete by now, ``scan`` what a look at the
    epoch's store finds complete, None if it cannot be read. A sealed epoch is never scanned again:
    after (d) a zombie goes on writing, and its newer, perfectly complete checkpoint would undo what
    the run has done since, in another region.
    """
    pairs = dict(scan or ())
    # What was known first stays: a step that reads differently now was overwritten.
    pairs.update(dict(known))
    return Seal(epoch=epoch, steps=tuple(sorted(pairs.items())))


@dataclass(frozen=True)
class ResumePoint:
    """One checkpoint that a run may resume from."""

    epoch: EpochId
    step: int
    digest: str


def resume_points(
    seals: Iterable[Seal],
    resumed_from: Mapping[EpochId, Optional[str]],
    bad: FrozenSet[Tuple[EpochId, int]],
) -> Tuple[ResumePoint, ...]:
    """List what a run may resume from, newest first, along its lineage.

    ``seals`` are those of its *started* epochs, in the order they were opened; ``resumed_from`` is
    what each resumed from. The lineage goes from the last started epoch back through what it
    resumed from, and takes of each ancestor only the steps up to there: a rollback is not undone
    by the newer steps that it rolled back. ``bad`` steps are left out.
    """
    by_epoch = {one.epoch: one for one in seals}
    found = []
    epoch: Optional[EpochId] = next(reversed(list(by_epoch)), None)
    up_to: Optional[int] = None
    # Each epoch is visited once: it is taken out, so that not even a forged lineage goes in rounds.
    while epoch is not None and epoch in by_epoch:
        for step, digest in reversed(by_epoch.pop(epoch).steps):
            if (up_to is None or step <= up_to) and (epoch, step) not in bad:
                found.append(ResumePoint(epoch=epoch, step=step, digest=digest))
        origin = checkpoint_of(resumed_from.get(epoch) or "")
        epoch, up_to = origin if origin is not None else (None, None)
    return tuple(found)
