"""The state in memory: every run with something left to do, the small streams, what teams hold.

The rule: only the writer changes it, after a commit, by publishing a ``Draft``; a batch that fails
drops its draft and nothing is to be undone. Settled runs are loaded from their snapshots when
asked for, and kept in a bounded cache. Read ``Draft`` first.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator

from broker.history.regional import BrokerState, RegionState, TeamState
from broker.model.moment import Moment
from broker.model.policy import TeamCaps, TeamStanding
from broker.model.run import Run
from broker.store import standing
from broker.store.standing import Holding

SETTLED_CACHE = 2_000  # about 10 kB each: a page of history browsed again costs no disk
SmallState = RegionState | TeamState | BrokerState
State = Run | SmallState
_NOTHING_HELD = Holding()
_NO_CAPS = TeamCaps()


class Picture:
    """What the broker knows, as of the last commit."""

    def __init__(self, load: Callable[[str], Run | None]) -> None:
        self.live: dict[str, Run] = {}
        self.small: dict[str, SmallState] = {}
        self.holdings: dict[str, Holding] = {}
        self.trouble = ""  # why the log could not be written the last time, in words
        self._settled: OrderedDict[str, Run] = OrderedDict()
        self._lock = threading.Lock()  # the writer settles runs while the event loop browses them
        self._load = load

    def begin_with(self, live: dict[str, Run], holdings: dict[str, Holding]) -> None:
        """Take over the live runs and what teams hold, as the log has them."""
        self.holdings = holdings
        self.live = live

    def run(self, name: str) -> Run | None:
        """Return a run, live or settled, or None when there is none of this name."""
        found = self.live.get(name)
        if found is not None:
            return found
        with self._lock:
            found = self._settled.get(name)
            if found is None:
                found = self._load(name)
                # A live one is read anew until all of them are in: only what stays is kept.
                if found is not None and is_settled(found):
                    self._keep_settled(found)
        return found

    def holding(self, team: str) -> Holding:
        """Return what a team holds."""
        return self.holdings.get(team, _NOTHING_HELD)

    def standing(self, team: str, now: Moment) -> TeamStanding:
        """Return what a team holds now, beside its caps."""
        return standing.standing(self.holding(team), caps_of(self.small.get(f"teams/{team}")), now)

    def put(self, stream: str, state: State) -> None:
        """Publish a stream's new state."""
        if not isinstance(state, Run):
            self.small[stream] = state
        elif is_settled(state):
            with self._lock:
                self._keep_settled(state)
            self.live.pop(stream, None)
        else:
            self.live[stream] = state
            with self._lock:
                self._settled.pop(stream, None)

    def forget(self, names: Iterable[str]) -> None:
        """Drop settled runs that retention removed."""
        with self._lock:
            for name in names:
                self._settled.pop(name, None)

    def _keep_settled(self, run: Run) -> None:
        self._settled[run.name] = run
        self._settled.move_to_end(run.name)
        while len(self._settled) > SETTLED_CACHE:
            self._settled.popitem(last=False)


class Draft:
    """One batch's view of the picture: its own changes over what is published.

    ``load`` reads a settled run through the writer's own connection, ``now`` is the moment of all
    that the batch does, ``known_regions`` are those that the broker was told of.
    """

    def __init__(
        self,
        picture: Picture,
        *,
        load: Callable[[str], Run | None],
        now: Moment,
        known_regions: frozenset[str],
    ) -> None:
        self._picture = picture
        self._load = load
        self.now = now
        self.known_regions = known_regions
        self.before: dict[str, State | None] = {}
        self.after: dict[str, State] = {}
        self.holdings: dict[str, Holding] = {}
        self._standings: dict[str, tuple[Holding, TeamCaps, TeamStanding]] = {}

    def run(self, name: str) -> Run | None:
        """Return a run as this batch sees it."""
        state = self.after.get(name) or self._picture.live.get(name)
        if state is None:
            return self._load(name)
        return state if isinstance(state, Run) else None

    def live_runs(self) -> Iterator[Run]:
        """Yield the live runs as this batch sees them."""
        for name in {*self._picture.live, *self.after}:
            state = self.after.get(name) or self._picture.live.get(name)
            if isinstance(state, Run):
                yield state

    def small(self, stream: str) -> SmallState | None:
        """Return a small stream's state as this batch sees it."""
        state = self.after.get(stream) or self._picture.small.get(stream)
        return None if isinstance(state, Run) else state

    def put(self, stream: str, before: State | None, after: State) -> None:
        """Take a stream's new state into the batch; its team's sums follow at once."""
        self.before.setdefault(stream, before)
        self.after[stream] = after
        if isinstance(after, Run):
            was = before if isinstance(before, Run) else None
            self._account(after.intent.team, was, after)

    def standing(self, team: str) -> TeamStanding:
        """Return what a team holds as this batch sees it, beside its caps."""
        caps, holding = caps_of(self.small(f"teams/{team}")), self._holding(team)
        known = self._standings.get(team)
        if known is not None and known[0] is holding and known[1] is caps:
            return known[2]
        stands = standing.standing(holding, caps, self.now)
        self._standings[team] = (holding, caps, stands)
        return stands

    def publish(self) -> None:
        """Make the batch visible, after its commit."""
        self._picture.holdings.update(self.holdings)
        for stream, state in self.after.items():
            self._picture.put(stream, state)

    def _account(self, team: str, before: Run | None, after: Run) -> None:
        holding = self._holding(team)
        changed = standing.account(holding, before, after, self.now)
        if changed is not holding:
            self.holdings[team] = changed

    def _holding(self, team: str) -> Holding:
        return self.holdings.get(team) or self._picture.holding(team)


def caps_of(state: State | None) -> TeamCaps:
    """Return a team's caps, none when nothing was set."""
    return state.caps if isinstance(state, TeamState) else _NO_CAPS


def is_settled(run: Run) -> bool:
    """Whether nothing of an ended run is left to do: it may leave the memory."""
    return run.is_ended and not run.live_placements and not any(e.is_owed for e in run.epochs)
