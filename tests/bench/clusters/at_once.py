"""Many runs at once over three regions: started per second, and what that took of ours.

Read ``measure``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.bench.clusters.counting import OTHERS, cpu_s, requests
from tests.bench.clusters.ground import SEEING, ZONES, Ground
from tests.bench.clusters.racing import Taken, ratio, said
from tests.bench.clusters.sides import MultiKueue, Ours, Side, Straight
from tests.bench.figure import Figure, median


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What was seen, round by round: the starts in a second and a run's CPU seconds, by side, and
    brokerd's requests for a run."""

    rates: Taken
    used: Taken
    calls: list[float] = field(default_factory=list)


def measure(ground: Ground) -> list[Figure]:
    """Straight, by MultiKueue and by brokerd in turn, round by round.

    All regions cost the same, as they do to the other sides: for a cheaper one a run would wait its
    turn, and what is measured would be how long that is worth it.
    """
    manager, brokerd = ground.manager(), ground.brokerd("crowd", SEEING, dearer_by=0.0)
    ours = Ours("ours", brokerd, ground, SEEING.namespace)
    sides: tuple[Side, ...] = (
        Straight(ground, list(ZONES)),
        MultiKueue(manager, ground),
        ours,
    )
    pids = {ours.name: brokerd.pid, MultiKueue.name: manager.kueue}
    tally = Tally(rates={one.name: [] for one in sides}, used={name: [] for name in pids})
    for number in range(ground.size.rounds):
        for side in sides:
            once(ground, side, pids.get(side.name), number, tally)
    ours.close()
    return figures(tally, ours.name, ground.size.runs)


def once(ground: Ground, side: Side, pid: int | None, number: int, tally: Tally) -> None:
    """Ask one side for all starts at once; ``pid`` is the program whose CPU seconds count."""
    regions, runs = ground.regions.values(), ground.size.runs
    names = [f"{side.name}-many-{number}-{run}" for run in range(runs)]
    asked, used_s = requests(regions)[OTHERS], cpu_s(pid) if pid else 0.0
    seconds = ground.diary.race(side, names)
    if pid:
        tally.used[side.name].append((cpu_s(pid) - used_s) / runs)
    calls = (requests(regions)[OTHERS] - asked) / runs
    if isinstance(side, Ours):
        tally.calls.append(calls)
    tally.rates[side.name].append(runs / seconds)
    ground.say(f"{runs} at once, round {number + 1}, {side.name}: {runs / seconds:.2f} a second")
    side.clear()


def figures(tally: Tally, ours: str, runs: int) -> list[Figure]:
    """Return our rate over the others', and what a run took of brokerd and of API servers."""
    rates, managed = tally.rates, MultiKueue.name
    until = "from the first submit to the last start"
    return [
        Figure(
            name=f"{runs} runs at once over three regions",
            value=ratio(rates, ours, Straight.name),
            aim=">= 0.85",
            unit="ratio",
            anchor=f"{said(rates, ours)} a second over {said(rates, Straight.name)} of JobSets",
        ),
        Figure(
            name=f"{runs} runs at once, over MultiKueue",
            value=ratio(rates, ours, managed),
            aim=">= 1",
            unit="ratio",
            anchor=f"{said(rates, ours)} a second over {said(rates, managed)}, same three workers",
        ),
        Figure(
            name="brokerd's CPU for a run, of these",
            value=median(tally.used[ours]),
            aim="< 1",
            unit="s",
            anchor=f"user and system, {until}; the manager's Kueue {said(tally.used, managed)} s",
        ),
        Figure(
            name="API requests for a run, of these",
            value=median(tally.calls),
            aim="<= 12",
            unit="requests",
            anchor=f"counted by the API servers, {until}, no watch",
        ),
    ]
