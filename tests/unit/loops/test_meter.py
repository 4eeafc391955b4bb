"""The meter tells money by the same sum as everybody else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from broker.history.events import Recorded
from broker.loops.desk import Counts
from broker.loops.meter import Meter
from broker.loops.sight import Sight
from broker.model.billing import live_cost
from broker.model.moment import Moment
from broker.model.run import Run
from broker.runtime.metrics import Metrics
from tests.builders import Story


@dataclass(slots=True)
class Book:
    """A log of one run."""

    story: Story

    def run(self, name: str) -> Run | None:
        return self.story.run

    def live_runs(self) -> Mapping[str, Run]:
        return {self.story.name: self.story.run}

    async def head(self) -> int:
        return 0

    async def follow_all(self, after_position: int) -> AsyncIterator[Recorded]:
        for recorded in self.story.recorded[after_position:]:
            yield recorded


@dataclass(slots=True)
class Watched:
    sight: Sight = field(default_factory=lambda: Sight([("alpha", "alpha")]))
    counts: Counts = field(default_factory=Counts)


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
