"""What is known of a project's surroundings: each thing in its time, with its own age."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.cloud import container_v1

from regions.gcp.advice import Advice
from regions.gcp.errors import BusyError, GoogleError
from regions.gcp.fleet.clusters import Fleet, read_fleet
from regions.gcp.quota import PREEMPTIBLE, UNLIMITED, Quota, Quotas
from regions.gcp.survey import (
    ADVICE_EVERY_S,
    ADVICE_WITHIN_S,
    FLEET_EVERY_S,
    MAX_WISHES,
    QUOTA_EVERY_S,
    Known,
    Survey,
    Wish,
)
from tests.fakes.readings import HandReadings
from tests.unit.regions.gcp.making import make_cluster, make_listing, make_pool

REGION = "us-central1"
WISH = Wish(region=REGION, machine="a3-highgpu-8g", capacity_type="SPOT", nodes=2)
RESERVED = Wish(region="us-east4", machine="a3-highgpu-8g", capacity_type="RESERVED", nodes=2)


class World:
    """What Google would say, and what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.fault: GoogleError | None = None
        self.meanwhile: Callable[[], None] = lambda: None
        self.quota = Quota(limit=64, used=16, source="Compute Engine")
        self.untold: tuple[str, ...] = ()

    async def look(self) -> Fleet:
        self._hear("clusters")
        pool = make_pool(conditions=[{"code": 1, "message": "none left"}])
        listing = make_listing(make_cluster(node_pools=[pool]))
        return read_fleet("p", container_v1.ListClustersResponse.pb(listing))

    async def quotas(self, regions: tuple[str, ...]) -> Quotas:
        self._hear(regions)
        found = {(REGION, "H100", PREEMPTIBLE): self.quota}
        return Quotas(by_key=found, overall=None, untold=self.untold)

    async def advice(self, region: str, machine: str, count: int, model: str) -> tuple[Advice, ...]:
        self._hear((region, machine, count, model))
        return (Advice(zone="a", machine=machine, model=model, obtainability=0.9, count=count),)

    def _hear(self, question: Any) -> None:
        self.asked.append(question)
        self.meanwhile()
        if self.fault is not None:
            raise self.fault


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def clock() -> HandReadings:
    return HandReadings()


@pytest.fixture
def survey(world: World, clock: HandReadings) -> Survey:
    return Survey(world, world, clock.monotonic_s)


async def test_each_thing_is_asked_for_in_its_own_time(
    world: World, clock: HandReadings, survey: Survey
) -> None:
    advised = (REGION, "a3-highgpu-8g", 2, "SPOT")
    signals = await survey.look((WISH,))
    assert [each.kind for each in signals] == ["STOCKOUT"]
    assert world.asked == ["clusters", (REGION,), advised]
    for step_s, asked in (
        (FLEET_EVERY_S - 1, []),
        (1, ["clusters"]),
        (QUOTA_EVERY_S - FLEET_EVERY_S, ["clusters", (REGION,)]),
        (ADVICE_EVERY_S - QUOTA_EVERY_S, ["clusters", (REGION,), advised]),
    ):
        world.asked.clear()
        clock.wait(step_s)
        await survey.look((WISH,))
        assert world.asked == asked


async def test_what_is_known_has_its_source_and_its_age(
    clock: HandReadings, survey: Survey
) -> None:
    await survey.look((WISH,))
    clock.wait(30)
    assert survey.known("H100", WISH) == (
        Known(what="GPU quota", words="48 of 64 free", source="Compute Engine", age_s=30.0),
        Known(what="capacity advice", words="a 0.90", source="Compute Engine's advice", age_s=30.0),
    )
    assert survey.known("L4", RESERVED) == ()


@pytest.mark.parametrize(
    ("limit", "used", "words"),
    [
        (64, None, "64 at most, how many are in use is not told"),
        (UNLIMITED, 3, "no limit"),
        (8, 9, "0 of 8 free"),
    ],
)
async def test_quota_is_said_as_far_as_it_is_told(
    world: World, survey: Survey, limit: int, used: int | None, words: str
) -> None:
    world.quota = Quota(limit=limit, used=used, source="Cloud Quotas")
    await survey.look((WISH,))
    assert survey.known("H100", WISH)[0].words == words


async def test_a_failure_keeps_what_was_known_and_is_said_until_it_is_over(
    world: World, clock: HandReadings, survey: Survey
) -> None:
    await survey.look((WISH,))
    fleet = survey.fleet
    world.fault = BusyError("no room (503)")
    clock.wait(ADVICE_EVERY_S)
    assert await survey.look((WISH,)) == ()
    assert survey.fleet is fleet
    assert [each.age_s for each in survey.known("H100", WISH)] == [ADVICE_EVERY_S] * 2
    assert survey.troubles == (
        "clusters could not be read: no room (503)",
        "quota could not be read: no room (503)",
        "advice on SPOT a3-highgpu-8g in us-central1 could not be read: no room (503)",
    )
    world.fault = None
    clock.wait(ADVICE_EVERY_S)
    await survey.look((WISH,))
    assert list(survey.troubles) == []


async def test_nobody_is_asked_for_what_no_run_wants(
    world: World, clock: HandReadings, survey: Survey
) -> None:
    await survey.look((WISH, RESERVED))
    assert world.asked[1:] == [(REGION, "us-east4"), (REGION, "a3-highgpu-8g", 2, "SPOT")]
    world.asked.clear()
    clock.wait(ADVICE_EVERY_S)
    await survey.look(())
    assert world.asked == ["clusters", (REGION,)]
    assert survey.advice(WISH) is None


def wishes_for(count: int) -> tuple[Wish, ...]:
    return tuple(
        Wish(region=REGION, machine="a3-highgpu-8g", capacity_type="SPOT", nodes=each)
        for each in range(count)
    )


async def test_slow_advice_does_not_hold_up_the_next_look(
    world: World, clock: HandReadings, survey: Survey
) -> None:
    world.meanwhile = lambda: clock.wait(ADVICE_WITHIN_S)
    for at in range(3):
        world.asked.clear()
        await survey.look(wishes_for(3))
        assert [each for each in world.asked if len(each) == 4] == [
            (REGION, "a3-highgpu-8g", at, "SPOT")
        ]


async def test_of_too_many_wishes_all_have_their_turn(
    world: World, clock: HandReadings, survey: Survey
) -> None:
    wishes = wishes_for(MAX_WISHES + 10)
    await survey.look(wishes)
    assert sum(survey.advice(each) is not None for each in wishes) == MAX_WISHES
    clock.wait(1)
    await survey.look(wishes)
    assert all(survey.advice(each) is not None for each in wishes)


async def test_who_does_not_tell_of_quota_is_said_until_it_does(
    world: World, clock: HandReadings, survey: Survey
) -> None:
    world.untold = ("Cloud Quotas (not enabled (403))",)
    await survey.look(())
    assert survey.troubles == ("quota is not told by Cloud Quotas (not enabled (403))",)
    assert survey.quota(REGION, "H100", "SPOT") == world.quota
    world.untold = ()
    clock.wait(QUOTA_EVERY_S)
    await survey.look(())
    assert not survey.troubles
