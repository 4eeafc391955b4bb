"""What our own runs hold and wait for: per flavor the gangs in line, per team the GPUs.

The rule: one run's part is taken out whole before its new part is put in, so the sums are exact
and a change costs the run's own legs, never the fleet.
"""

from dataclasses import dataclass

from broker.model.capacity import FlavorKey
from broker.model.run import Placement, Run
from broker.model.states import PlacementState
from broker.placement.demand import Rank, rank_of

_IN_LINE = frozenset({PlacementState.PREPARING, PlacementState.QUEUED})


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingGang:
    """One of our legs at a flavor that does not stand whole yet. ``is_admitted``: it holds quota.

    ``expected_s`` is when it is forecast to start, on the broker's elapsed axis; None unknown.
    """

    placement: str
    rank: Rank
    gpus: int
    is_admitted: bool
    expected_s: float | None


@dataclass(slots=True, kw_only=True)
class TeamLoad:
    """GPUs of a team: in open epochs, in the largest waiting leg of each run, in all such legs."""

    running_gpus: int = 0
    committed_gpus: int = 0
    waiting_gpus: int = 0


@dataclass(slots=True, kw_only=True)
class LineSum:
    """Our gangs at a flavor that do not stand yet: without quota, and all, with their GPUs."""

    in_line: int = 0
    in_line_gpus: int = 0
    waiting: int = 0
    waiting_gpus: int = 0

    def count(self, gang: WaitingGang, sign: int) -> None:
        """Add a gang, or take one out."""
        self.waiting += sign
        self.waiting_gpus += sign * gang.gpus
        if not gang.is_admitted:
            self.in_line += sign
            self.in_line_gpus += sign * gang.gpus


class Load:
    """The sums over every run that was put in."""

    def __init__(self) -> None:
        self.gangs: dict[FlavorKey, dict[str, WaitingGang]] = {}
        self.sums: dict[FlavorKey, LineSum] = {}
        self.teams: dict[str, TeamLoad] = {}

    def put(self, run: Run, sign: int) -> None:
        """Add a run's part (``sign`` 1), or take out the part of this very value (-1)."""
        live = run.live_placements
        if not live:
            return
        team = self.teams.setdefault(run.intent.team, TeamLoad())
        waiting = [leg for leg in live if leg.is_waiting]
        epoch = run.open_epoch
        granted = "" if epoch is None else epoch.placement
        team.running_gpus += sign * sum(
            p.site.gpus for p in live if p.state is PlacementState.RUNNING or p.id == granted
        )
        if epoch is None:
            team.committed_gpus += sign * max((leg.site.gpus for leg in waiting), default=0)
        team.waiting_gpus += sign * sum(leg.site.gpus for leg in waiting)
        for leg in live:
            if leg.withdraw is None and leg.state not in _STANDING:
                self._put_gang(run, leg, sign)

    def _put_gang(self, run: Run, leg: Placement, sign: int) -> None:
        gangs = self.gangs.setdefault(leg.site.key, {})
        total = self.sums.setdefault(leg.site.key, LineSum())
        if sign < 0:
            total.count(gangs.pop(leg.id), -1)
            return
        p50_s = leg.site.forecast_p50_s
        gang = gangs[leg.id] = WaitingGang(
            placement=leg.id,
            rank=rank_of(run),
            gpus=leg.site.gpus,
            is_admitted=leg.state not in _IN_LINE,
            expected_s=None if p50_s is None else leg.added_s + p50_s,
        )
        total.count(gang, 1)

    def in_line(self, key: FlavorKey) -> list[WaitingGang]:
        """Return our gangs at a flavor that hold no quota yet."""
        return [gang for gang in self.gangs.get(key, {}).values() if not gang.is_admitted]

    def held(self, team: str) -> int:
        """Return the GPUs that a team's cap on running ones is held against."""
        load = self.teams.get(team)
        return 0 if load is None else load.running_gpus + load.committed_gpus

    def team(self, team: str) -> TeamLoad:
        """Return a team's load; zero when it has no run."""
        return self.teams.get(team) or TeamLoad()


_STANDING = frozenset({PlacementState.AT_GATE, PlacementState.RUNNING, PlacementState.ENDED})
