"""What Google tells of a project reaches the ports of its clusters: each thing with its age."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import grpc
import pytest

from regions.capacity import KnownSeen
from regions.gcp.advice import Advice
from regions.gcp.errors import AccessError
from regions.gcp.fleet.clusters import ClusterKey
from regions.gcp.fleet.hearing import SOURCE
from regions.gcp.fleet.listing import FleetLister
from regions.gcp.quota import PREEMPTIBLE, Quota, Quotas
from regions.gcp.survey import ADVICE_EVERY_S, FLEET_EVERY_S, Survey
from regions.gcp.watch import (
    ADVICE_SOURCE,
    ADVISED,
    ADVISED_AGAIN_S,
    AGAIN_S,
    LOOK_S,
    WANTED_S,
    ClusterScout,
    ProjectWatch,
)
from regions.kueue.scout import Asked, Bounds, News, Report, Spot
from tests.fakes.google import FakeGoogle, google
from tests.unit.regions.gcp.making import make_cluster, make_listing, make_pool

KEY = ClusterKey(project="p", location="us-central1", name="one")
SPOT = Spot(queue="ours", flavor="h100-spot")
LABELS = {"cloud.google.com/gke-spot": "true"}
POOL = {"name": "h100", "config": {"spot": True}, "autoscaling": {"enabled": True}}


def make_asked(**changes: Any) -> Asked:
    fields: dict[str, Any] = {"capacity_type": "SPOT", "accelerator": "H100", "node_labels": LABELS}
    return Asked(spot=SPOT, **({"nodes": 2} | fields | changes))


def pool(*conditions: dict[str, Any], most: int = 4, **changes: Any) -> Any:
    scaling = {"enabled": True, "total_max_node_count": most}
    return make_pool(**{**POOL, "autoscaling": scaling, "conditions": conditions, **changes})


class Clock:
    """A clock in a test's hand: a pause is written down, and ends when the test says so."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.pauses: asyncio.Queue[float] = asyncio.Queue()
        self.goes_on = asyncio.Semaphore(0)

    def monotonic_s(self) -> float:
        return self.now_s

    async def pause(self, seconds: float) -> None:
        self.pauses.put_nowait(seconds)
        await self.goes_on.acquire()
        self.now_s += seconds


class Adviser:
    """What Compute would say."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, int, str]] = []
        self.obtainability = {"a": 0.4, "c": 0.9}

    async def quotas(self, regions: tuple[str, ...]) -> Quotas:
        quota = Quota(limit=64, used=16, source="Compute Engine")
        return Quotas(by_key={("us-central1", "H100", PREEMPTIBLE): quota}, overall=None)

    async def advice(self, region: str, machine: str, count: int, model: str) -> tuple[Advice, ...]:
        self.asked.append((region, machine, count, model))
        return tuple(
            Advice(zone=zone, machine=machine, model=model, obtainability=chance, count=count)
            for zone, chance in self.obtainability.items()
        )


class Stage:
    """One project with one cluster, watched."""

    def __init__(self, fake: FakeGoogle) -> None:
        self.google = fake
        self.clock = Clock()
        self.adviser = Adviser()
        self.survey = Survey(FleetLister(fake.fleet, "p"), self.adviser, lambda: self.clock.now_s)
        self.watch = ProjectWatch(lambda: contextlib.nullcontext(self.survey), self.clock)
        self.scout = self.watch.scout(KEY)
        self.scout.connected(self.survey, "")
        self.pools(pool())

    def pools(self, *pools: Any, **listing: Any) -> None:
        self.google.listings[:] = [make_listing(make_cluster(node_pools=list(pools)), **listing)]

    async def report(self, *asked: Asked, later_s: float = 0.0) -> Report:
        self.clock.now_s += later_s
        before = self.scout.report(asked or (make_asked(),))
        # The first look finds the clusters, and with them whose machines are wanted.
        for _ in range(2):
            await self.watch.look(self.survey)
        told = self.scout.report(asked or (make_asked(),))
        return replace(told, news=(*before.news, *told.news))


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with google() as fake:
        yield Stage(fake)


async def test_what_is_known_is_told_with_its_source_and_its_age(stage: Stage) -> None:
    await stage.report()
    stage.clock.now_s += 10.0
    told = stage.scout.report((make_asked(),))
    of_it: dict[str, Any] = {"queue": "ours", "flavor": "h100-spot", "age_s": 10.0}
    assert told.known == (
        KnownSeen(what="GPU quota", words="48 of 64 free", source="Compute Engine", **of_it),
        KnownSeen(what="capacity advice", words="a 0.40, c 0.90", source=ADVICE_SOURCE, **of_it),
        KnownSeen(
            what="node pool h100", words="running; 4 machines at most", source="GKE", **of_it
        ),
    )
    assert told.bounds == {SPOT: Bounds(max_nodes=4, gpus=64)}
    assert told.notes == ()


async def test_a_pool_without_machines_is_news_once_and_told_as_it_stands(stage: Stage) -> None:
    stage.pools(pool({"code": 1, "message": "none left"}))
    told = await stage.report(make_asked(nodes=0))
    assert told.news == (
        News(spot=SPOT, kind="STOCKOUT", age_s=0.0, source=SOURCE, detail="h100: none left"),
    )
    assert told.known[-1].words == "running; 4 machines at most; STOCKOUT: none left"
    assert (await stage.report(make_asked(nodes=0), later_s=FLEET_EVERY_S)).news == ()


async def test_what_a_pool_says_that_nobody_knows_is_shown_as_it_is(stage: Stage) -> None:
    stage.pools(pool({"code": 77, "message": "the moon"}))
    told = await stage.report(make_asked(nodes=0))
    assert told.news == ()
    assert told.known[-1].words == "running; 4 machines at most; UNKNOWN_77: the moon"


async def test_advice_is_asked_for_what_gangs_wait_for_and_for_an_hour_after(stage: Stage) -> None:
    await stage.report(make_asked(nodes=0))
    assert stage.adviser.asked == []
    await stage.report(make_asked(nodes=2))
    assert stage.adviser.asked == [("us-central1", "a3-highgpu-8g", 2, "SPOT")]
    await stage.report(make_asked(nodes=0), later_s=ADVICE_EVERY_S)
    assert len(stage.adviser.asked) == 2
    await stage.report(make_asked(nodes=0), later_s=WANTED_S)
    assert len(stage.adviser.asked) == 2


async def test_advice_is_news_when_it_moved_or_has_grown_old(stage: Stage) -> None:
    (first,) = (await stage.report()).news
    assert (first.kind, first.chance, first.source) == (ADVISED, 0.9, ADVICE_SOURCE)
    assert first.detail == "0.90 for 2 of a3-highgpu-8g in c"
    stage.adviser.obtainability = {"a": 0.8}
    assert (await stage.report(later_s=ADVICE_EVERY_S)).news == ()
    stage.adviser.obtainability = {"a": 0.3}
    (moved,) = (await stage.report(later_s=ADVICE_EVERY_S)).news
    assert moved.chance == 0.3
    told = [await stage.report(later_s=ADVICE_EVERY_S) for _ in range(6)]
    assert [each.news[0].chance for each in told if each.news] == [0.3]
    assert ADVISED_AGAIN_S == 6 * ADVICE_EVERY_S


async def test_a_flavor_of_no_pool_is_told_nothing_of_pools(stage: Stage) -> None:
    told = await stage.report(make_asked(node_labels={"team": "nobody"}))
    assert [each.what for each in told.known] == ["GPU quota"]
    assert told.bounds == {SPOT: Bounds(gpus=64)}


async def test_how_long_machines_stay_is_told_of_the_pool_that_keeps_them_shortest(
    stage: Stage,
) -> None:
    config: dict[str, Any] = {"spot": True, "max_run_duration": {"seconds": 86_400}}
    config["kubelet_config"] = {"shutdown_grace_period_seconds": 120}
    stage.pools(pool(config=config), pool(name="more"))
    told = (await stage.report()).bounds
    assert told == {SPOT: Bounds(max_nodes=8, max_run_s=86_400.0, window_s=105.0, gpus=64)}


async def test_what_is_not_told_is_said(stage: Stage) -> None:
    fresh = ClusterScout(KEY, stage.clock.monotonic_s)
    assert fresh.report((make_asked(),)) == Report(notes=("Google was not asked yet",))
    stage.google.listings[:] = [grpc.StatusCode.PERMISSION_DENIED]
    (note,) = (await stage.report()).notes
    assert note.startswith("clusters could not be read")
    stage.google.listings[:] = [make_listing()]
    told = await stage.report(later_s=FLEET_EVERY_S)
    assert told.notes == ("Google lists no cluster one in us-central1",)


async def test_zones_that_are_silent_keep_what_was_known_and_say_so(stage: Stage) -> None:
    await stage.report()
    stage.google.listings[:] = [make_listing(missing=["us-central1-a"])]
    told = await stage.report(later_s=FLEET_EVERY_S)
    assert told.bounds == {SPOT: Bounds(max_nodes=4, gpus=64)}
    assert told.notes == ("the zones that tell of its node pools have not answered",)


async def test_who_cannot_reach_google_says_so_and_tries_again(stage: Stage) -> None:
    tries: list[int] = []

    @contextlib.asynccontextmanager
    async def connect() -> AsyncIterator[Survey]:
        tries.append(1)
        if len(tries) == 1:
            raise AccessError("no credentials here")
        yield stage.survey

    clock = Clock()
    watch = ProjectWatch(connect, clock)
    scout = watch.scout(KEY)
    running = asyncio.create_task(watch.run())
    try:
        assert await clock.pauses.get() == AGAIN_S
        assert scout.report(()).notes == ("Google tells nothing of it: no credentials here",)
        clock.goes_on.release()
        assert await clock.pauses.get() == LOOK_S
        told = scout.report((make_asked(),))
        assert (told.bounds, told.notes) == ({SPOT: Bounds(max_nodes=4, gpus=64)}, ())
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
