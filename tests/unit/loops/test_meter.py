"""The meter tells money by the same sum as everybody else."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from broker import serving
from broker.history.events import Recorded
from broker.loops import meter as meter_module
from broker.loops.answers import Strangers
from broker.loops.desk import Counts
from broker.loops.meter import Meter
from broker.loops.sight import Sight
from broker.model.billing import live_cost
from broker.model.checkpoint import Checkpoint
from broker.model.moment import Moment
from broker.model.run import Run
from broker.model.sightings import Orphan, Replica
from broker.runtime.metrics import Metrics
from regions.cluster import WordSeen
from tests.builders import Story, make_checkpoint
from tests.unit.loops.seeing import observation, placement_seen

SAID = "Container.waiting:Frobnicating"


@dataclass(slots=True)
class Book:
    """A log of one run."""

    story: Story
    said: str = ""
    saved: tuple[Checkpoint, ...] | None = None

    def run(self, name: str) -> Run | None:
        return self.story.run

    def live_runs(self) -> Mapping[str, Run]:
        run = self.story.run
        return {run.name: run if self.saved is None else replace(run, checkpoints=self.saved)}

    def take_latencies(self) -> tuple[float, ...]:
        return (0.003, 0.004)

    def trouble(self) -> str:
        return self.said

    async def head(self) -> int:
        return 0

    async def follow_all(self, after_position: int) -> AsyncIterator[Recorded]:
        for recorded in self.story.recorded[after_position:]:
            yield recorded


@dataclass(slots=True)
class Copied:
    """How far one region is behind whatever run."""

    behind_s: float = 0.0
    asked: int = 0

    def replicas(self, run: Run) -> tuple[Replica, ...]:
        self.asked += 1
        behind = Replica(
            region="beta", step=1, behind_steps=1, behind_bytes=1, behind_s=self.behind_s
        )
        return (behind,)


@dataclass(slots=True)
class Watched:
    answers: Copied = field(default_factory=Copied)
    sight: Sight = field(default_factory=lambda: Sight([("alpha", "alpha")]))
    counts: Counts = field(default_factory=Counts)
    strangers: Strangers = field(default_factory=Strangers)


@dataclass(slots=True)
class StoryClock:
    story: Story

    def now(self) -> Moment:
        return self.story.now


async def test_idle_machines_and_spent_money_are_gauges() -> None:
    story = Story().accepted().placed().prepared().reported().provisioned(1)
    metrics = Metrics()
    meter = Meter(Book(story), Watched(), metrics, StoryClock(story))

    def told(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(name, labels)

    story.wait(3600.0)
    await meter.tick()
    assert told("broker_live_runs_cost_dollars", doing="idle") == 2.5
    assert live_cost(story.run, story.now) == Decimal("2.5")
    paid = [told("broker_paid_gpus", doing=doing) for doing in ("idle", "training")]
    assert paid == [1.0, 0.0]
    story.provisioned(2).granted().started()
    await meter.tick()
    paid = [told("broker_paid_gpus", doing=doing) for doing in ("idle", "training")]
    assert paid == [0.0, 2.0]


async def test_a_log_that_cannot_be_written_is_a_gauge() -> None:
    metrics, book = Metrics(), Book(Story().accepted())
    meter = Meter(book, Watched(), metrics, StoryClock(book.story))
    for said, writable in (("", 1.0), ("the disk is full", 0.0), ("", 1.0)):
        book.said = said
        await meter.tick()
        assert metrics.registry.get_sample_value("broker_log_writable") == writable


async def test_what_the_log_and_the_agents_took_is_told_once() -> None:
    watched, metrics = Watched(), Metrics()
    stranger = Orphan(cluster="alpha", object="x", message="", since_wall_s=0.0, is_ours=False)
    watched.strangers.by_cluster["alpha"] = (stranger,)
    watched.counts.ticks += [("placer", 0.01), ("placer", 0.03)]
    story = Story().accepted()
    meter = Meter(Book(story), watched, metrics, StoryClock(story))
    await meter.tick()
    assert metrics.registry.get_sample_value("broker_orphans", {"cluster": "alpha"}) == 1.0
    assert metrics.registry.get_sample_value("broker_log_commit_seconds_count") == 2.0
    placer = {"loop": "placer"}
    assert metrics.registry.get_sample_value("broker_tick_seconds_count", placer) == 2.0
    assert not watched.counts.ticks
    watched.strangers.by_cluster["alpha"] = ()
    await meter.tick()
    assert metrics.registry.get_sample_value("broker_orphans", {"cluster": "alpha"}) == 0.0
    assert metrics.registry.get_sample_value("broker_tick_seconds_count", placer) == 2.0


def test_every_metric_is_told_by_the_meter_or_the_door() -> None:
    """One that is offered and never told shows a nought for ever, which reads as good news."""
    told = inspect.getsource(meter_module) + inspect.getsource(serving)
    names = [name for name in vars(Metrics()) if name != "registry"]
    assert [name for name in names if f"etrics.{name}" not in told] == []


async def test_what_nobody_has_a_word_for_is_counted_once_while_it_lasts() -> None:
    story, metrics, watched = Story().accepted().placed(), Metrics(), Watched()
    meter = Meter(Book(story), watched, metrics, StoryClock(story))
    (placement,) = story.run.placements.values()
    strange = WordSeen(
        word="UNKNOWN",
        sentence="The cluster says: x",
        fault="ORCHESTRATION",
        deed="",
        advice="",
        look_at="",
        raw="x",
        unknown=SAID,
    )

    def counted() -> float | None:
        labels = {"cluster": "alpha", "where": "Container.waiting"}
        return metrics.registry.get_sample_value("broker_unknown_words_total", labels)

    async def see(said: WordSeen | None) -> float | None:
        shown = observation([placement_seen(placement, story.run, said=said)])
        watched.sight.saw(shown, story.now, ())
        await meter.tick()
        return counted()

    assert [await see(said) for said in (None, strange, strange, None, strange)] == [
        *(None, 1.0, 1.0, 1.0, 2.0),
    ]


async def test_how_far_regions_are_behind_is_a_gauge_while_the_run_lives() -> None:
    story = Story().accepted().placed().prepared().reported().provisioned(1)
    metrics, watched, book = Metrics(), Watched(), Book(story)
    meter = Meter(book, watched, metrics, StoryClock(story))
    label = {"run": story.name, "region": "beta"}

    def told() -> float | None:
        return metrics.registry.get_sample_value("broker_checkpoint_behind_seconds", label)

    await meter.tick()
    assert told() is None  # it has saved nothing yet
    book.saved = (make_checkpoint(),)
    watched.answers.behind_s = 42.0
    await meter.tick()
    assert told() == 42.0
    book.saved = ()
    await meter.tick()
    assert told() is None


async def test_how_far_regions_are_behind_is_asked_again_of_what_has_changed() -> None:
    story = Story().accepted().training().saved(100)
    watched = Watched()
    meter = Meter(Book(story), watched, Metrics(), StoryClock(story))
    asked = []
    for step in (200, 300):
        for _ in range(2):
            await meter.tick()
            asked.append(watched.answers.asked)
        story.saved(step)
    assert asked == [1, 1, 2, 2]
