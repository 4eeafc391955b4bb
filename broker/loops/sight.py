"""What the clusters showed last: in memory, rebuilt by looking again.

The rule: silence changes nothing of what was seen; it is only said since when. Whoever wants to
know what changed subscribes: run names, and ``clusters/<name>`` for a cluster that turned.
Read ``Sight.saw`` first.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from broker.history.regional import StoreDoubt
from broker.loops.translate import facts_of, signal_of
from broker.model.capacity import ClusterFacts, Signal
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.replacing import replace
from broker.model.run import Epoch, Progress, Run
from broker.store.feed import Changes
from regions.cluster import (
    ClusterObservation,
    EpochKey,
    EpochSeen,
    PlacementSeen,
    RankReport,
)

SIGNALS_KEPT = 1_000  # of all clusters, until the placer takes them


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stepped:
    """The highest step that an epoch was seen at, and when it was first seen there."""

    step: int
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSight:
    """One cluster as last seen.

    ``observation`` None: not once yet. ``seen_s`` is when it last answered, ``silent_since_s``
    since when it or its store does not (broker seconds). ``epochs`` are from the last look at the
    store, which may be younger than the observation, ``is_store_readable`` whether that was read,
    ``store_looked_s`` when the last look began that did, None when the last one did not.
    """

    facts: ClusterFacts
    observation: ClusterObservation | None = None
    seen_s: float | None = None
    silent_since_s: float | None = None
    stepped: Mapping[EpochKey, _Stepped] = field(default_factory=dict)
    epochs: Mapping[EpochKey, EpochSeen] = field(default_factory=dict)
    is_store_readable: bool = False
    last_serial: int = 0
    store_looked_s: float | None = None

    @property
    def is_reachable(self) -> bool:
        """Whether the cluster answered the last time it was asked."""
        return self.facts.is_reachable

    @property
    def is_silent(self) -> bool:
        """Whether the cluster or its store could not be read at the last look."""
        return not self.facts.is_reachable or not self.is_store_readable

    @property
    def is_whole(self) -> bool:
        """Whether the last look saw all: what is missing in it is not there."""
        return self.is_reachable and self.observation is not None and self.observation.is_whole

    def placement(self, placement: str) -> PlacementSeen | None:
        """Return a placement as last seen, None when the cluster did not show it."""
        return None if self.observation is None else self.observation.placements.get(placement)

    def epoch(self, run: Run, epoch: Epoch) -> EpochSeen | None:
        """Return what the store said of an epoch, None when it said nothing.

        One that was revoked before its grant was written left only its owner, which is kept by
        number and names no nonce.
        """
        key = epoch_key(run, epoch)
        return self.epochs.get(key) or self.epochs.get(replace(key, nonce=""))


class Sight:
    """All clusters as last seen, and the signals that the placer has not taken yet."""

    def __init__(self, clusters: Iterable[tuple[str, str]]) -> None:
        self._sights = {
            cluster: ClusterSight(facts=_never_seen(cluster, region))
            for cluster, region in clusters
        }
        self._signals: deque[Signal] = deque(maxlen=SIGNALS_KEPT)
        self._subscribers: dict[Changes, None] = {}

    def cluster(self, cluster: str) -> ClusterSight:
        """Return a cluster as last seen; one that the broker was not told of is never seen."""
        known = self._sights.get(cluster)
        return known or ClusterSight(facts=_never_seen(cluster, ""))

    def clusters(self) -> tuple[ClusterSight, ...]:
        """Return every cluster as last seen."""
        return tuple(self._sights.values())

    def subscribe(self, changes: Changes) -> None:
        """Add what is seen to change from now on to a taker's collection, and every cluster now."""
        changes.add({f"clusters/{cluster}" for cluster in self._sights})
        self._subscribers[changes] = None

    def has_looked_everywhere(self) -> bool:
        """Return whether each cluster was asked once, whether it answered or not."""
        return all(
            sight.seen_s is not None or sight.silent_since_s is not None
            for sight in self._sights.values()
        )

    def take_signals(self) -> tuple[Signal, ...]:
        """Return the signals that came since the last call."""
        taken = tuple(self._signals)
        self._signals.clear()
        return taken

    def saw(
        self,
        observation: ClusterObservation,
        now: Moment,
        names: Iterable[str],
        doubt: StoreDoubt | None = None,
        *,
        began_s: float | None = None,
    ) -> None:
        """Take in an answer; ``names`` are the runs that it shows changed.

        ``doubt`` is why the store that answered is not believed, None when it is. ``began_s`` is
        when the look began, None for just now.
        """
        cluster, now_s = observation.cluster, now.elapsed_s
        before = self.cluster(cluster)
        fresh = [s for s in observation.signals if s.serial > before.last_serial]
        found = (signal_of(cluster, seen, now_s) for seen in fresh)
        self._signals.extend(signal for signal in found if signal is not None)
        facts = _facts(before, observation, now_s)
        silent_s = None if observation.is_store_readable else before.silent_since_s or now_s
        self._put(
            cluster,
            ClusterSight(
                facts=replace(facts, silent_since_elapsed_s=silent_s, doubt=_said(doubt)),
                observation=observation,
                seen_s=now_s,
                silent_since_s=silent_s,
                stepped=_stepped(before, observation, now_s),
                epochs=observation.epochs if observation.is_store_readable else before.epochs,
                is_store_readable=observation.is_store_readable,
                last_serial=max((s.serial for s in observation.signals), default=0),
                store_looked_s=_looked_s(observation.is_store_readable, began_s, now),
            ),
            names,
        )

    def heard_nothing(
        self,
        cluster: str,
        store: ClusterObservation | None,
        now: Moment,
        names: Iterable[str],
        doubt: StoreDoubt | None = None,
        *,
        began_s: float | None = None,
        why: str = "",
    ) -> None:
        """Take in a silence; ``store`` is what the region's store alone still tells, or None.

        ``names`` are the runs that it shows changed, ``doubt`` is why that store is not believed,
        ``began_s`` as in ``saw``, ``why`` the words of whoever asked.
        """
        before = self.cluster(cluster)
        silent_s = now.elapsed_s if before.silent_since_s is None else before.silent_since_s
        is_readable = store is not None and store.is_store_readable
        facts = replace(
            before.facts,
            is_reachable=False,
            is_store_reachable=is_readable,
            silent_since_elapsed_s=silent_s,
            doubt=_said(doubt),
            silence=why,
        )
        sight = replace(
            before,
            facts=facts,
            silent_since_s=silent_s,
            stepped=_stepped(before, store, now.elapsed_s),
            epochs=store.epochs if store is not None and is_readable else before.epochs,
            is_store_readable=is_readable,
            store_looked_s=_looked_s(is_readable, began_s, now),
        )
        self._put(cluster, sight, names)

    def store_looked_s(self, region: str) -> float | None:
        """Return when the last look began that read the region's store and believed it.

        None: no last look at it did, by whichever of its clusters.
        """
        looks = (s.store_looked_s for s in self._sights.values() if s.facts.region == region)
        return max((at_s for at_s in looks if at_s is not None), default=None)

    def progress(self, run: Run) -> Progress | None:
        """Return the last believed report of a run's open epoch, logged or not.

        Its time is when its step was first seen, however often it is seen again: a gang that hangs
        repeats its last one, and so does the last look at a store that has fallen silent.
        """
        epoch = run.open_epoch
        if epoch is None:
            return None
        sight = self.cluster(epoch.cluster)
        seen = sight.epoch(run, epoch)
        report = None if seen is None else furthest(seen.reports)
        stepped, logged = sight.stepped.get(epoch_key(run, epoch)), run.progress
        if report is None or report.step is None or stepped is None:
            return logged
        if logged and logged.epoch == epoch.id.number and logged.step >= report.step:
            return logged
        return Progress(
            epoch=epoch.id.number,
            step=report.step,
            loss=report.loss,
            at_s=stepped.at_s,
            at_wall_s=run.updated.wall_s + stepped.at_s - run.updated.elapsed_s,
        )

    def _put(self, cluster: str, sight: ClusterSight, names: Iterable[str]) -> None:
        before = self._sights.get(cluster)
        self._sights[cluster] = sight
        changed = set(names)
        if before is None or _differs(before.facts, sight.facts):
            changed.add(f"clusters/{cluster}")
        for subscriber in self._subscribers:
            subscriber.add(changed)


def epoch_key(run: Run, epoch: Epoch) -> EpochKey:
    """Return an epoch as a store names it."""
    return EpochKey(run_key=run.uid, number=epoch.id.number, nonce=epoch.id.nonce)


def _stepped(
    before: ClusterSight, looked: ClusterObservation | None, now_s: float
) -> Mapping[EpochKey, _Stepped]:
    """Return when each epoch came to its step; what was not read now is as it was."""
    if looked is None or not looked.is_store_readable:
        return before.stepped
    found = {}
    for key, seen in looked.epochs.items():
        former, report = before.stepped.get(key), furthest(seen.reports)
        if former is not None and (report is None or (report.step or 0) <= former.step):
            found[key] = former
        elif report is not None and report.step is not None:
            found[key] = _Stepped(step=report.step, at_s=now_s)
    return found


def furthest(reports: Iterable[RankReport]) -> RankReport | None:
    """Return the report of the highest step, of the lowest rank among equals; None without one."""
    with_step = [report for report in reports if report.step is not None]
    return max(with_step, key=lambda r: (r.step or 0, -r.rank), default=None)


def _looked_s(is_readable: bool, began_s: float | None, now: Moment) -> float | None:
    if not is_readable:
        return None
    return now.elapsed_s if began_s is None else began_s


def _facts(before: ClusterSight, observation: ClusterObservation, now_s: float) -> ClusterFacts:
    """Translate an answer; most show the same queues as the last one, and those are known."""
    last = before.observation
    is_known = (
        last is not None
        and last.queues == observation.queues
        and last.region == observation.region
        and last.keeps_secrets == observation.keeps_secrets
    )
    if not is_known:
        return facts_of(observation, now_s)
    return replace(
        before.facts,
        is_reachable=True,
        is_store_reachable=observation.is_store_readable,
        seen_elapsed_s=now_s,
        silent_since_elapsed_s=None,
        blind=observation.blind,
        doubt=None,
        silence="",
    )


def _said(doubt: StoreDoubt | None) -> tuple[Reason, str] | None:
    return None if doubt is None else (doubt.reason, doubt.message)


def _differs(before: ClusterFacts, after: ClusterFacts) -> bool:
    # When it was seen is no difference by itself.
    return before != replace(after, seen_elapsed_s=before.seen_elapsed_s)


def not_configured(cluster: str, region: str, now: Moment) -> ClusterFacts:
    """Return what is known of a cluster that the broker is told of no more: nothing, from now."""
    return replace(
        _never_seen(cluster, region), silent_since_elapsed_s=now.elapsed_s, is_configured=False
    )


def _never_seen(cluster: str, region: str) -> ClusterFacts:
    return ClusterFacts(
        cluster=cluster,
        region=region,
        is_reachable=False,
        is_store_reachable=False,
        seen_elapsed_s=None,
        silent_since_elapsed_s=None,
        flavors=(),
        stopped_queues=frozenset(),
        blind=(),
    )
