"""What must hold of a diary and of the log beside it, whatever was killed.

The rule: every checker returns sentences, none when all is well, and believes nothing but the lines
that the gangs wrote themselves and the events. Read ``gangs_at_once`` first.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from broker.history.events import Granted, Recorded, Sealed
from broker.model.checkpoint import CheckpointRef, EpochId
from tests.killed.gang import first_state, next_state


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """The checkpoint that a process read: its epoch's folder, and the digest of its files."""

    epoch: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the diary: what one process of one epoch did."""

    run: str
    epoch: str
    rank: int
    what: str
    step: int
    state: str
    resumed: Resumed | None = None
    pid: int = 0


def read_diary(path: Path) -> list[Line]:
    """Read a diary. A line that was not written whole raises."""
    lines = []
    for text in path.read_text().splitlines():
        said = json.loads(text)
        resumed = said.pop("resumed", None)
        lines.append(Line(**said, resumed=Resumed(**resumed) if resumed else None))
    return lines


def gangs_at_once(lines: Sequence[Line]) -> list[str]:
    """Law 1: once a run's next epoch has begun, nothing of a former one is heard."""
    broken: list[str] = []
    present: dict[str, str] = {}
    over: dict[str, set[str]] = defaultdict(set)
    for line in lines:
        if line.epoch in over[line.run]:
            broken.append(f"{line.run}: {line.epoch} went on beside {present[line.run]}")
        elif present.setdefault(line.run, line.epoch) != line.epoch:
            over[line.run].add(present[line.run])
            present[line.run] = line.epoch
    return list(dict.fromkeys(broken))


def started_twice(lines: Iterable[Line]) -> list[str]:
    """Law 1, within an epoch: each rank of it is one process."""
    pids: dict[tuple[str, str, int], set[int]] = defaultdict(set)
    for line in lines:
        if line.what == "start":
            pids[line.run, line.epoch, line.rank].add(line.pid)
    return [f"{who} started as {sorted(found)}" for who, found in pids.items() if len(found) > 1]


def epochs_at_once(events: Iterable[Recorded]) -> list[str]:
    """Law 1, in the log: an epoch is granted only when the former one was sealed."""
    broken: list[str] = []
    opened: dict[str, EpochId] = {}
    for recorded in events:
        match recorded.event:
            case Granted(epoch=epoch):
                if recorded.stream in opened:
                    broken.append(f"{recorded.stream}: {epoch} beside {opened[recorded.stream]}")
                opened[recorded.stream] = epoch
            case Sealed(epoch=epoch):
                if opened.pop(recorded.stream, None) != epoch:
                    broken.append(f"{recorded.stream}: {epoch} was sealed and not open")
            case _:
                pass
    return broken


def unsealed_resumes(lines: Iterable[Line], events: Iterable[Recorded]) -> list[str]:
    """Law 4: every process began from what its grant names, sealed before, file by file."""
    granted: dict[tuple[str, str], CheckpointRef | None] = {}
    sealed: dict[str, set[CheckpointRef]] = defaultdict(set)
    broken: list[str] = []
    for recorded in events:
        match recorded.event:
            case Sealed(checkpoints=checkpoints):
                sealed[recorded.stream].update(checkpoints)
            case Granted(epoch=epoch, resume_from=ref):
                granted[recorded.stream, epoch.folder] = ref
                if ref is not None and ref not in sealed[recorded.stream]:
                    broken.append(f"{recorded.stream}: {epoch} was granted from {ref}, not sealed")
            case _:
                pass
    for line in lines:
        if line.what != "start":
            continue
        if (line.run, line.epoch) not in granted:
            broken.append(f"{line.run}: {line.epoch} was never granted")
            continue
        ref = granted[line.run, line.epoch]
        wanted = (
            (Resumed(epoch=ref.epoch.folder, digest=ref.digest), ref.step) if ref else (None, 0)
        )
        if (line.resumed, line.step) != wanted:
            broken.append(f"{line.run}: {line.epoch} began from {line.resumed}, not from {ref}")
    return broken


def wrong_states(lines: Iterable[Line]) -> list[str]:
    """What a step made is what the same step of an undisturbed run makes."""
    known: dict[int, list[str]] = {}
    broken = []
    for line in lines:
        states = known.setdefault(line.rank, [first_state(line.rank)])
        while len(states) <= line.step:
            states.append(next_state(states[-1], len(states)))
        if line.state != states[line.step]:
            broken.append(f"{line.run}: rank {line.rank} is wrong at step {line.step}")
    return broken


def finished(lines: Iterable[Line]) -> dict[str, set[int]]:
    """Return the ranks of each run that came to their last step."""
    ended: dict[str, set[int]] = defaultdict(set)
    for line in lines:
        if line.what == "end":
            ended[line.run].add(line.rank)
    return dict(ended)
