"""What copies may cost, a run over its life and a team in a day, and what is said beyond that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from broker.history.commands import AmendTerms, SetCaps, SetPolicy
from broker.loops.egress import DAY_S
from broker.loops.later import LONG_AGAIN_S
from broker.model.policy import RegionPolicy, TeamCaps
from broker.model.run import Run
from tests.builders import BROKER, flat_egress
from tests.unit.loops.handheld import Handheld, handheld
from tests.unit.loops.test_by_hand import saved, started

COPY_USD = flat_egress("alpha", "beta").of(300)  # about what one of these checkpoints costs


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Handheld]:
    async with handheld(tmp_path, "alpha", "beta") as broker:
        yield broker


async def amended(broker: Handheld, name: str, copies_budget: Decimal | None) -> None:
    """Change what the copies of a run may cost."""
    run = broker.run(name)
    terms = replace(run.terms, copies_budget=copies_budget)
    command = AmendTerms(terms=terms, expected_generation=run.terms_generation)
    await broker.tell(name, command)


def why_not(broker: Handheld, name: str, region: str = "beta") -> str:
    found = broker.agents.answers.replicas(broker.run(name))
    return next(one.message for one in found if one.region == region)


def copied(run: Run) -> list[int]:
    return sorted(one.ref.step for one in run.checkpoints if "beta" in one.regions)


async def test_a_run_copies_no_more_than_its_budget_allows_and_says_why(two: Handheld) -> None:
    name = await started(two)
    await amended(two, name, Decimal(0))
    saved(two, name, 10)
    await two.settle(seconds=1.0)
    assert copied(two.run(name)) == []
    assert why_not(two, name).startswith("a copy costs about $0.00, and $0.00 of the run's budget")
    await amended(two, name, None)
    await two.settle(seconds=1.0)
    assert (copied(two.run(name)), why_not(two, name)) == ([10], "")


async def test_what_all_copies_of_a_run_cost_stays_within_its_budget(two: Handheld) -> None:
    name = await started(two)
    budget = 3 * COPY_USD
    await amended(two, name, budget)
    steps: tuple[int, ...] = ()
    for step in range(10, 100, 10):
        steps = (*steps, step)
        saved(two, name, *steps)
        await two.settle(seconds=60.0)
    run = two.run(name)
    assert 0 < run.copies_usd <= budget < len(steps) * COPY_USD
    assert run.copies_left == budget - run.copies_usd
    assert "of the run's budget for copies is left" in why_not(two, name)


async def test_a_team_copies_no_more_in_a_day_than_its_cap_allows(two: Handheld) -> None:
    name = await started(two)
    team = two.run(name).intent.team
    caps = TeamCaps(copies_usd_per_day=Decimal("1.5") * COPY_USD)
    await two.ledger.handle(f"teams/{team}", SetCaps(caps=caps, expected_generation=1), BROKER)
    saved(two, name, 10)
    await two.settle(seconds=60.0)
    saved(two, name, 10, 20)
    await two.settle(seconds=60.0)
    assert copied(two.run(name)) == [10]
    assert why_not(two, name).endswith(f"of team {team}'s budget for copies of a day is left")
    await two.settle(seconds=DAY_S)
    assert copied(two.run(name)) == [10, 20]


async def test_what_a_region_lets_out_in_an_hour_is_said_where_it_holds_a_copy_up(
    two: Handheld,
) -> None:
    ruled = SetPolicy(policy=RegionPolicy(egress_budget_bytes_per_hour=10), expected_generation=1)
    await two.ledger.handle("regions/alpha", ruled, BROKER)
    name = await started(two)
    saved(two, name, 10)
    await two.settle(seconds=1.0)
    assert why_not(two, name) == "it is larger than a whole hour's egress budget of alpha"


async def test_a_try_that_failed_is_said(two: Handheld, tmp_path: Path) -> None:
    in_the_way = tmp_path / "beta" / "runs"
    in_the_way.write_bytes(b"no folder")
    name = await started(two)
    saved(two, name, 10)
    await two.settle(seconds=1.0)
    assert why_not(two, name) == "the last try failed, and the next one waits"
    in_the_way.unlink()
    await two.settle(seconds=LONG_AGAIN_S)
    assert (copied(two.run(name)), why_not(two, name)) == ([10], "")
