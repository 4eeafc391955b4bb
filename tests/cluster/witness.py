"""What the testimonies of all processes say together: whether each run trained exactly once.

The rule: only what the processes themselves wrote is believed, and what holds of one run is judged
over all regions, since all of them testify by one clock. Each law returns sentences, none when it
is kept. Read ``broken``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Testimony:
    """What one process said: when it began, when it was last there, and how it ended.

    ``end`` is "end" for one that came to its end, "stopped" for one that was asked to, and empty
    for one that was killed, or runs still.
    """

    __test__ = False

    run: str
    epoch: str
    region: str
    rank: int
    process: str
    began_s: float
    last_s: float
    end: str

    @property
    def has_finished(self) -> bool:
        """Whether it came to its end by itself."""
        return self.end == "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """What the processes of one epoch did together."""

    run: str
    epoch: str
    members: tuple[Testimony, ...]

    @property
    def began_s(self) -> float:
        """When the first of them began."""
        return min(each.began_s for each in self.members)

    @property
    def last_s(self) -> float:
        """When the last of them was still there."""
        return max(each.last_s for each in self.members)


def read(folder: Path) -> list[Testimony]:
    """Read a folder of testimonies. One that cannot be read raises; an empty one began nothing."""
    return [read_one(path) for path in sorted(folder.iterdir()) if path.stat().st_size]


def read_one(path: Path) -> Testimony:
    """Read what one process said. A last line that its death cut off is left out."""
    lines = [json.loads(line) for line in path.read_text().rpartition("\n")[0].splitlines()]
    first, last = lines[0], lines[-1]
    who = {key: first[key] for key in ("run", "epoch", "region", "rank")}
    return Testimony(
        **who,
        process=path.stem,
        began_s=first["at_s"],
        last_s=last["at_s"],
        end=last["what"] if last["what"] in ("end", "stopped") else "",
    )


def gangs(found: Iterable[Testimony]) -> list[Gang]:
    """Return the gangs, by run and by the time at which they began."""
    members: dict[tuple[str, str], list[Testimony]] = defaultdict(list)
    for each in found:
        members[each.run, each.epoch].append(each)
    made = [
        Gang(run=run, epoch=epoch, members=tuple(each)) for (run, epoch), each in members.items()
    ]
    return sorted(made, key=lambda gang: (gang.run, gang.began_s))


def broken(found: Sequence[Testimony], wanted: Mapping[str, int]) -> list[str]:
    """Return what is wrong with what runs did that had to end well, each with so many ranks."""
    made = gangs(found)
    return [*at_once(made), *twofold(made), *not_ended_once(made, wanted)]


def at_once(made: Iterable[Gang]) -> list[str]:
    """Law 1: no two gangs of one run train at the same time, wherever they are."""
    by_run: dict[str, list[Gang]] = defaultdict(list)
    for gang in made:
        by_run[gang.run].append(gang)
    wrong = []
    for run, of_it in by_run.items():
        for former, later in pairwise(sorted(of_it, key=lambda gang: gang.began_s)):
            if later.began_s <= former.last_s:
                wrong.append(f"{run}: {later.epoch} began while {former.epoch} trained")
    return wrong


def twofold(made: Iterable[Gang]) -> list[str]:
    """Within one epoch each rank is one process, and all are in one region."""
    wrong = []
    for gang in made:
        ranks = sorted(each.rank for each in gang.members)
        if len(ranks) != len(set(ranks)):
            wrong.append(f"{gang.run}: {gang.epoch} has ranks {ranks}")
        regions = sorted({each.region for each in gang.members})
        if len(regions) > 1:
            wrong.append(f"{gang.run}: {gang.epoch} is in {' and '.join(regions)}")
    return wrong


def not_ended_once(made: Iterable[Gang], wanted: Mapping[str, int]) -> list[str]:
    """A run that ended well came to its end in one epoch, with all of its ranks."""
    ends: dict[str, list[str]] = {run: [] for run in wanted}
    for gang in made:
        finished = {each.rank for each in gang.members if each.has_finished}
        if gang.run not in wanted:
            ends[gang.run] = [f"{gang.epoch}, which nobody asked for"]
        elif finished == set(range(wanted[gang.run])):
            ends[gang.run].append(gang.epoch)
        elif finished:
            ends[gang.run].append(f"{gang.epoch} with ranks {sorted(finished)} alone")
    return [
        f"{run}: it came to its end in {each or 'no epoch'}"
        for run, each in ends.items()
        if len(each) != 1 or " " in each[0]
    ]
