"""Which runs the agents have to do with: the live ones, found by key, placement and cluster.

The rule: it holds names, never runs; the log says what a run is. It is rebuilt from the log at
start and kept up to date by its changes, so that a tick costs what changed. Read ``refresh``.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from broker.loops.desk import Log
from broker.model.run import Run
from broker.model.states import PlacementState, RunState
from broker.store.picture import is_settled


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """What a run is found by."""

    uid: str
    placements: frozenset[str]
    clusters: frozenset[str]
    is_validating: bool
    is_preparing: bool
    is_turning: bool
    has_content: bool


class Roster:
    """An index over the live runs. One subscriber of the log's feed."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._changes = log.feed.subscribe()
        self._entries: dict[str, _Entry] = {}
        self._by_uid: dict[str, str] = {}
        self._by_placement: dict[str, str] = {}
        self._by_cluster: dict[str, set[str]] = defaultdict(set)
        self.validating: set[str] = set()
        self.preparing: set[str] = set()
        self.turning: set[str] = set()  # a gang is about to start, or to stop
        self.with_content: set[str] = set()
        for run in log.live_runs().values():
            self._put(run)

    def refresh(self) -> None:
        """Take in what changed in the log."""
        for stream in self._changes.take():
            if "/runs/" not in stream:
                continue
            run = self._log.run(stream)
            self._drop(stream)
            if run is not None and not is_settled(run):
                self._put(run)

    def names(self) -> tuple[str, ...]:
        """Return every live run."""
        return tuple(self._entries)

    def by_uid(self, uid: str) -> str | None:
        """Return the name of the live run of a key, or None."""
        return self._by_uid.get(uid)

    def by_placement(self, placement: str) -> str | None:
        """Return the name of the live run that has a placement, ended ones included, or None."""
        return self._by_placement.get(placement)

    def owner_of(self, placement: str) -> str | None:
        """Return the key of the live run that has a placement, or None."""
        name = self._by_placement.get(placement)
        return None if name is None else self._entries[name].uid

    def on_cluster(self, cluster: str) -> frozenset[str]:
        """Return the runs that have something on a cluster: a live placement, or a start."""
        return frozenset(self._by_cluster.get(cluster, ()))

    def concerned(self, keys: Iterable[str]) -> set[str]:
        """Return the runs that placements and run keys, mixed, belong to."""
        found = (self._by_placement.get(key) or self._by_uid.get(key) for key in keys)
        return {name for name in found if name is not None}

    def _put(self, run: Run) -> None:
        entry = self._entries[run.name] = _entry(run)
        self._by_uid[entry.uid] = run.name
        for placement in entry.placements:
            self._by_placement[placement] = run.name
        for cluster in entry.clusters:
            self._by_cluster[cluster].add(run.name)
        if entry.is_validating:
            self.validating.add(run.name)
        if entry.is_preparing:
            self.preparing.add(run.name)
        if entry.is_turning:
            self.turning.add(run.name)
        if entry.has_content:
            self.with_content.add(run.name)

    def _drop(self, name: str) -> None:
        entry = self._entries.pop(name, None)
        if entry is None:
            return
        self._by_uid.pop(entry.uid, None)
        for placement in entry.placements:
            self._by_placement.pop(placement, None)
        for cluster in entry.clusters:
            self._by_cluster[cluster].discard(name)
        for index in (self.validating, self.preparing, self.turning, self.with_content):
            index.discard(name)


def _entry(run: Run) -> _Entry:
    live = run.live_placements
    clusters = {placement.site.key.cluster for placement in live}
    clusters |= {epoch.cluster for epoch in run.epochs if epoch.is_open or epoch.is_owed}
    return _Entry(
        uid=run.uid,
        placements=frozenset(run.placements),
        clusters=frozenset(clusters),
        is_validating=run.state is RunState.VALIDATING,
        is_preparing=any(p.state is PlacementState.PREPARING and p.withdraw is None for p in live),
        is_turning=_is_turning(run),
        has_content=bool(run.checkpoints) or run.open_epoch is not None,
    )


def _is_turning(run: Run) -> bool:
    """Whether its machines are there and it does not train yet, or no longer.

    One that was granted before they came starts by itself: to see it sooner gains it nothing.
    """
    epoch = run.open_epoch
    if epoch is not None and epoch.started_s is not None:
        return epoch.running_s is None or epoch.stop is not None
    return any(
        placement.state is PlacementState.AT_GATE
        or (
            placement.state is PlacementState.PROVISIONING
            and placement.arrival.nodes_here is not None
            and placement.arrival.nodes_here == placement.arrival.nodes_wanted
            and placement.epoch is None
        )
        for placement in run.live_placements
    )
