"""What clusters say when they are asked, and what is said of one that says nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from broker.loops import examining
from broker.loops.content import Content
from broker.loops.examining import Examiner
from broker.loops.images import Images
from broker.loops.journeys import Journeys
from broker.loops.off_loop import at_once
from broker.loops.outposts import Outpost, Outposts
from broker.loops.sight import ClusterSight
from broker.model.check import ClusterCheck
from broker.model.reasons import Reason
from broker.runtime.clock import SystemClock
from regions.cluster import StoreClaims
from regions.examined import Finding
from replicator.errors import StoreForbidden
from replicator.stores.checkup import Standing
from replicator.stores.port import ContentStore, Entry
from replicator.transfers import Transfers
from tests.fakes.images import FakeRegistries, make_book
from tests.fakes.object_store import MemoryObjectStore
from tests.fakes.readings import HandReadings
from tests.unit.loops.handheld import ScriptedCluster
from tests.unit.loops.seeing import observation
from tests.unit.placement.pictures import make_cluster, make_flavor

NAMED = StoreClaims(identity="c03c80bc5d163219")
SILENT = "does not answer, so nothing is started or concluded there"
LACKS = Finding(what="rights", is_well=False, said="none is held", mend="grant them")


@dataclass(slots=True)
class Telling(ScriptedCluster):
    """A cluster that can be asked; ``told`` None: it never answers."""

    told: tuple[Finding, ...] | None = None

    async def examine(self) -> tuple[Finding, ...]:
        if self.told is None:
            await asyncio.Event().wait()
        return self.told or ()


@dataclass(frozen=True, slots=True)
class Looked:
    """What was seen last."""

    seen: ClusterSight

    def cluster(self, _: str) -> ClusterSight:
        return self.seen


def looked(claims: StoreClaims | None = NAMED, **changes: Any) -> Looked:
    facts = make_cluster(make_flavor("alpha", region="alpha"))
    shown = observation(cluster="alpha", region="alpha", claims=claims)
    return Looked(ClusterSight(facts=replace(facts, **changes), observation=shown))


def content(**stores: ContentStore) -> Content:
    work = Transfers(max_parallel=1)
    return Content(
        stores=stores,
        uploads=MemoryObjectStore(),
        looks=work,
        copies=work,
        off_loop=at_once,
        clock=SystemClock(None, HandReadings()),
    )


async def checks(port: ScriptedCluster, seen: Looked) -> tuple[ClusterCheck, ...]:
    outpost = Outpost(cluster="alpha", region="alpha", port=port)
    return await Examiner(Outposts([outpost]), seen, content(), None).check("alpha")


def scripted(**fields: Any) -> Telling:
    return Telling(observation(cluster="alpha", region="alpha"), **fields)


async def test_what_a_cluster_finds_is_told_with_its_store() -> None:
    assert await checks(scripted(told=(LACKS,)), looked()) == (
        ClusterCheck(
            cluster="alpha",
            subject="rights",
            is_well=False,
            message="none is held",
            remedy="grant them",
        ),
        ClusterCheck(
            cluster="alpha",
            subject="store",
            is_well=True,
            message="answers, and is called c03c80bc5d163219",
        ),
    )


async def test_one_that_cannot_be_asked_has_a_store_all_the_same() -> None:
    plain = ScriptedCluster(observation(cluster="alpha", region="alpha"))
    (check,) = await checks(plain, looked(claims=None))
    assert (check.subject, check.is_well, check.message) == (
        "store",
        True,
        "answers, and has no name yet",
    )


async def test_one_that_does_not_answer_in_time_is_not_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(examining, "WITHIN_S", 0.01)
    cluster, _ = await checks(scripted(), looked())
    assert (cluster.subject, cluster.is_well) == ("cluster", False)
    assert cluster.message == "did not tell within 0.01 s what it serves and allows"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"is_store_reachable": False},
            "does not answer, so nothing is started or concluded there",
        ),
        ({"doubt": (Reason.STORE_WIPED, "it was wiped")}, "it was wiped"),
    ],
)
async def test_a_store_that_is_silent_or_not_believed_is_not_well(
    changes: dict[str, Any], message: str
) -> None:
    *_, store = await checks(scripted(told=()), looked(**changes))
    assert (store.subject, store.is_well, store.message) == ("store", False, message)
    assert store.remedy


async def test_a_region_that_is_not_there_has_nothing_to_say() -> None:
    assert await Examiner(Outposts([]), looked(), content(), None).check("mars") == ()


async def test_a_region_that_pulls_images_is_asked_for_its_registry() -> None:
    registries = FakeRegistries()
    async with Journeys(max_parallel=1) as trips:
        images = Images(make_book("alpha"), registries, asks=trips, copies=trips)
        examiner = Examiner(Outposts([]), looked(), content(), images)
        (found,) = await examiner.check("alpha")
        assert (found.cluster, found.subject) == ("", "registry alpha.example/team")
        assert await examiner.check("mars") == ()


class Standby(MemoryObjectStore):
    """A store that says where it stands, and takes nothing while it is told to."""

    def __init__(self, location: str, *, is_one_place: bool = True, takes: bool = True) -> None:
        super().__init__()
        self._standing = Standing(location=location, is_one_place=is_one_place)
        self._takes = takes

    def standing(self) -> Standing:
        if not self._standing.location:
            raise StoreForbidden("gs://east", "403 it may not be known")
        return self._standing

    def write_if_absent(self, name: str, chunks: Iterable[bytes]) -> Entry | None:
        if not self._takes:
            raise StoreForbidden(name, "403 denied")
        return super().write_if_absent(name, chunks)


async def tried(region: str, store: ContentStore) -> dict[str, tuple[bool, str]]:
    outposts = [Outpost(cluster=name, region=region, port=scripted(told=())) for name in "ab"]
    examiner = Examiner(Outposts(outposts), looked(), content(**{region: store}), None)
    found = [one for one in await examiner.check(region) if one.subject != "store"]
    assert [one.cluster for one in found] == ["a"] * len(found)
    return {one.subject: (one.is_well, one.message) for one in found}


async def test_a_store_is_tried_once_for_its_region_and_nothing_is_left_there() -> None:
    store = MemoryObjectStore()
    assert await tried("alpha", store) == {
        "store access": (True, "what is written there is listed, read and removed")
    }
    assert store.list("probes/").entries == ()


async def test_a_bucket_beside_its_region_is_well_and_one_elsewhere_is_not() -> None:
    near = await tried("us-east4", Standby("us-east4"))
    assert near["store location"] == (True, "the bucket stands in us-east4")
    far = await tried("us-east4", Standby("europe-west4"))
    assert far["store location"] == (
        *(False, "the bucket stands in europe-west4, and not in us-east4"),
    )
    shared = await tried("us-east4", Standby("us", is_one_place=False))
    assert shared["store location"] == (
        *(True, "the bucket stands in us, which several regions share"),
    )
    # Ops call a region as they like: only Google's own names say where it is.
    assert (await tried("lab", Standby("europe-west4")))["store location"][0]


async def test_what_a_store_refuses_is_said() -> None:
    refused = await tried("us-east4", Standby("", takes=False))
    assert refused["store access"] == (False, "write: 403 denied")
    assert refused["store location"] == (
        *(True, "cannot be seen, so nothing is said of it: 403 it may not be known"),
    )
