"""What clusters say when they are asked, and what is said of one that says nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

import pytest

from broker.loops import examining
from broker.loops.examining import Examiner
from broker.loops.images import Images
from broker.loops.journeys import Journeys
from broker.loops.outposts import Outpost, Outposts
from broker.loops.sight import ClusterSight
from broker.model.check import ClusterCheck
from broker.model.reasons import Reason
from regions.cluster import StoreClaims
from regions.examined import Finding
from tests.fakes.images import FakeRegistries, make_book
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


async def checks(port: ScriptedCluster, seen: Looked) -> tuple[ClusterCheck, ...]:
    outpost = Outpost(cluster="alpha", region="alpha", port=port)
    return await Examiner(Outposts([outpost]), seen, None).check("alpha")


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
    assert await Examiner(Outposts([]), looked(), None).check("mars") == ()


async def test_a_region_that_pulls_images_is_asked_for_its_registry() -> None:
    registries = FakeRegistries()
    async with Journeys(max_parallel=1) as trips:
        images = Images(make_book("alpha"), registries, asks=trips, copies=trips)
        examiner = Examiner(Outposts([]), looked(), images)
        (found,) = await examiner.check("alpha")
        assert (found.cluster, found.subject) == ("", "registry alpha.example/team")
        assert await examiner.check("mars") == ()
