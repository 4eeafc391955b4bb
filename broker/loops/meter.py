"""The meter: what the log says and what was last seen, as metrics.

The rule: it reads and counts, and nothing depends on it. Events are counted from the log, each
once in a daemon's life, so that a slow meter loses none. Read ``Meter.count`` first.
"""

import logging
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from itertools import islice
from typing import Protocol

from broker.history.events import (
    EpochStarted,
    Granted,
    Progressed,
    Recorded,
    Sealed,
    WithdrawalOrdered,
)
from broker.loops.answers import Strangers
from broker.loops.desk import Clock, Counts
from broker.loops.sight import ClusterSight, Sight
from broker.loops.telling import unknown_words
from broker.model.bill import PhaseCost
from broker.model.billing import gpus_here, run_bill
from broker.model.moment import Moment
from broker.model.run import Placement, Run
from broker.model.sightings import Replica
from broker.model.states import PlacementState
from broker.runtime.metrics import Metrics

BEHIND_RUNS_MAX = 1_000  # series for Prometheus: as many as there are regions, for each run
UNKNOWN_MAX = 1_000  # of one cluster: beyond that it is known that much is amiss

_log = logging.getLogger(__name__)


class Log(Protocol):
    """What the meter reads of the ledger."""

    def run(self, name: str) -> Run | None:
        """Return a run as of the last commit."""
        ...

    def live_runs(self) -> Mapping[str, Run]:
        """Return the runs for which something is left to do."""
        ...

    def take_latencies(self) -> tuple[float, ...]:
        """Return how long each change since the last call took to be durable, in seconds."""
        ...

    def trouble(self) -> str:
        """Return why the log cannot be written, empty when it can."""
        ...

    async def head(self) -> int:
        """Return the position of the last event, 0 before the first."""
        ...

    def follow_all(self, after_position: int) -> AsyncIterator[Recorded]:
        """Yield every event after a position, for ever."""
        ...


class Copies(Protocol):
    """Who knows how far regions are behind runs."""

    def replicas(self, run: Run) -> tuple[Replica, ...]:
        """Return how far each region is behind the run's newest complete checkpoint."""
        ...


class Watched(Protocol):
    """What the meter reads of the agents."""

    @property
    def sight(self) -> Sight:
        """The clusters as last seen."""
        ...

    @property
    def strangers(self) -> Strangers:
        """What was last seen in clusters that is of no run."""
        ...

    @property
    def counts(self) -> Counts:
        """What the agents counted."""
        ...

    @property
    def answers(self) -> Copies:
        """What is known of runs' copies."""
        ...


class Meter:
    """Counts for one daemon."""

    def __init__(self, log: Log, agents: Watched, metrics: Metrics, clock: Clock) -> None:
        self._log = log
        self._agents = agents
        self._metrics = metrics
        self._clock = clock
        self._position: int | None = None
        self._told: Counter[tuple[str, str]] = Counter()
        self._labels: set[tuple[str, str]] = set()
        self._behind: dict[str, tuple[Run, tuple[str, ...]]] = {}
        self._unknown: dict[str, frozenset[tuple[str, str]]] = {}

    async def count(self) -> None:
        """Count events for ever."""
        if self._position is None:
            self._position = await self._log.head()
        async for recorded in self._log.follow_all(self._position):
            self._position = recorded.position
            self._metrics.events.labels(type(recorded.event).__name__).inc()
            self._count(recorded)

    async def tick(self) -> None:
        """Bring the gauges, and what agents counted, up to date."""
        now = self._clock.now()
        metrics = self._metrics
        for sight in self._agents.sight.clusters():
            since_s = sight.silent_since_s
            silent_s = 0.0 if since_s is None else now.since(since_s)
            metrics.cluster_silent_seconds.labels(sight.facts.cluster).set(silent_s)
            orphans = self._agents.strangers.by_cluster.get(sight.facts.cluster, ())
            metrics.orphans.labels(sight.facts.cluster).set(len(orphans))
            self._count_unknown(sight)
        metrics.log_writable.set(not self._log.trouble())
        for seconds in self._log.take_latencies():
            metrics.commit_seconds.observe(seconds)
        by_label = Counter(
            (run.state.value, run.why.reason.value) for run in self._log.live_runs().values()
        )
        for label in self._labels - by_label.keys():
            metrics.runs.labels(*label).set(0)
        for label, count in by_label.items():
            metrics.runs.labels(*label).set(count)
        self._labels |= by_label.keys()
        self._tell_money(now)
        self._tell_behind()
        self._tell_counts()

    def _count_unknown(self, sight: ClusterSight) -> None:
        """Count what a cluster says that nobody has a word for, each thing once while it lasts."""
        cluster, seen = sight.facts.cluster, sight.observation
        if seen is None:
            return
        now = frozenset(islice(unknown_words(seen), UNKNOWN_MAX))
        for about, said in now - self._unknown.get(cluster, frozenset()):
            # Where it was said is a word of ours, and what was said is not: that is for the log.
            where = said.partition(":")[0]
            self._metrics.unknown_words.labels(cluster, where).inc()
            _log.warning("%s says what there is no word for: %s of %s", cluster, said, about)
        self._unknown[cluster] = now

    def _tell_money(self, now: Moment) -> None:
        runs = self._log.live_runs().values()
        cost = sum((run_bill(run, now).cost for run in runs), PhaseCost())
        gpus = {"training": 0, "idle": 0}
        for placement in (p for run in runs for p in run.live_placements):
            is_running = placement.state is PlacementState.RUNNING
            gpus["training" if is_running else "idle"] += gpus_here(placement)
        for doing, dollars in (("training", cost.running), ("idle", cost.idle)):
            self._metrics.live_cost.labels(doing).set(float(dollars))
            self._metrics.paid_gpus.labels(doing).set(gpus[doing])

    def _tell_behind(self) -> None:
        """Tell how far each region is behind each run that has saved, and forget those that end."""
        saved = (run for run in self._log.live_runs().values() if run.checkpoints)
        before, self._behind = self._behind, {}
        for run in islice(saved, BEHIND_RUNS_MAX):
            known = before.get(run.name)
            if known is None or known[0] is not run:
                # It takes a look through all that was saved: for what has changed alone.
                known = (run, self._tell_run(run))
            self._behind[run.name] = known
        for name in before.keys() - self._behind.keys():
            for region in before[name][1]:
                self._metrics.behind_seconds.remove(name, region)

    def _tell_run(self, run: Run) -> tuple[str, ...]:
        """Tell how far each region is behind one run; return which regions those are."""
        replicas = self._agents.answers.replicas(run)
        for one in replicas:
            self._metrics.behind_seconds.labels(run.name, one.region).set(one.behind_s)
        return tuple(one.region for one in replicas)

    def _tell_counts(self) -> None:
        counts = self._agents.counts
        now: Counter[tuple[str, str]] = Counter()
        for (_, reason), count in counts.refusals.items():
            now["refused", reason.value] += count
        now += Counter({("failed", agent): count for agent, count in counts.failures.items()})
        metrics = self._metrics
        series = {"refused": metrics.refused, "failed": metrics.failures}
        for (kind, label), count in now.items():
            series[kind].labels(label).inc(count - self._told[kind, label])
        self._told = now
        while counts.ticks:
            loop, seconds = counts.ticks.popleft()
            metrics.tick_seconds.labels(loop).observe(seconds)

    def _count(self, recorded: Recorded) -> None:
        event = recorded.event
        match event:
            case Granted():
                self._metrics.grants.inc()
            case WithdrawalOrdered():
                self._metrics.withdrawals.labels(event.reason.value).inc()
            case Sealed():
                self._metrics.seals.labels(event.rule.value).inc()
            case EpochStarted():
                run = self._log.run(recorded.stream)
                placement = None if run is None else _placement_of(run, event)
                if placement is not None:
                    self._count_waits(placement)
            case Progressed():
                run = self._log.run(recorded.stream)
                if run is not None and run.first_step_s == recorded.at.elapsed_s:
                    self._metrics.time_to_useful_work_seconds.observe(
                        recorded.at.since(run.created.elapsed_s)
                    )
            case _:
                pass

    def _count_waits(self, placement: Placement) -> None:
        phases = placement.phases
        waits = {
            "preparing": phases.preparing,
            "queued": phases.queued,
            "provisioning": phases.provisioning,
            "at_gate": phases.at_gate,
        }
        for phase, seconds in waits.items():
            self._metrics.wait_seconds.labels(phase).observe(seconds)
        median_s = placement.site.forecast_p50_s
        if median_s:
            taken_s = phases.queued + phases.provisioning
            self._metrics.forecast_ratio.observe(taken_s / median_s)


def _placement_of(run: Run, event: EpochStarted) -> Placement | None:
    epoch = next((e for e in run.epochs if e.id == event.epoch), None)
    return None if epoch is None else run.placements.get(epoch.placement)
