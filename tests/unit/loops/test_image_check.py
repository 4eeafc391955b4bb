"""What a new run's image is: kept by digest, or refused in words that tell the ways apart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from broker.history.commands import ExplainWait
from broker.loops.image_check import AGAIN_S, WITHIN_S, ImageCheck
from broker.loops.images import Images
from broker.loops.journeys import Journeys
from broker.model.image import PinnedImage
from broker.model.problem import Problem
from broker.model.reasons import Reason
from broker.model.run import Run
from broker.runtime.clock import SystemClock
from replicator.errors import (
    Corrupt,
    ImageMissing,
    ImageRefused,
    LoginRefused,
    PlatformMissing,
    RegistryBusy,
    RegistryRefused,
    RegistryUnreachable,
    ReplicatorError,
)
from tests.builders import Story, make_intent, make_workload
from tests.fakes.images import DIGEST, SOURCE, FakeRegistries, make_book
from tests.fakes.readings import HandReadings

TAG = f"{SOURCE}/llm:v1"
FOUND = PinnedImage(name=f"{SOURCE}/llm@{DIGEST}", size_bytes=1_000)


@dataclass(slots=True)
class Desk:
    """A check, the registries that it asks, and the clock in a test's hand."""

    check: ImageCheck
    registries: FakeRegistries
    readings: HandReadings

    async def look(self) -> PinnedImage | Problem | ExplainWait | None:
        """Ask until something is said, or nothing is under way."""
        for _ in range(3):
            said = self.check.look(RUN)
            if said is not None:
                return said
            for _ in range(5):
                await asyncio.sleep(0)
        return None


def submitted() -> Run:
    story = Story(intent=make_intent(workload=make_workload(image=TAG)))
    return story.do(story.submit).run


RUN = submitted()


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    registries, readings = FakeRegistries(), HandReadings()
    clock = SystemClock(None, readings)
    async with Journeys(max_parallel=2) as asks, Journeys(max_parallel=2) as copies:
        images = Images(make_book(), registries, asks=asks, copies=copies)
        yield Desk(check=ImageCheck(images, clock), registries=registries, readings=readings)


async def test_a_tag_is_what_it_means_now(desk: Desk) -> None:
    desk.registries.known[TAG] = FOUND
    assert await desk.look() == FOUND
    assert desk.registries.heard == [("resolve", TAG)]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ImageMissing(TAG, "the registry has no such thing (404)"), Reason.IMAGE_MISSING),
        (PlatformMissing(TAG, "it is not for linux/amd64"), Reason.IMAGE_NOT_FOR_PLATFORM),
        (LoginRefused(TAG, "the registry wants a login"), Reason.REGISTRY_LOGIN_REFUSED),
        (ImageRefused(TAG, "its manifest is no JSON"), Reason.IMAGE_REFUSED),
        (Corrupt(TAG, "its digest is another"), Reason.IMAGE_REFUSED),
        (RegistryRefused(TAG, "the registry will not do it"), Reason.IMAGE_REFUSED),
    ],
)
async def test_each_way_not_to_run_has_its_reason_and_the_field(
    desk: Desk, error: ReplicatorError, reason: Reason
) -> None:
    desk.registries.known[TAG] = error
    assert await desk.look() == Problem(
        field="intent.workload.image", reason=reason, message=f"{error}"
    )


async def test_a_silent_registry_is_asked_again_and_then_believed(desk: Desk) -> None:
    desk.registries.known[TAG] = RegistryUnreachable(TAG, "the registry fell silent")
    said = await desk.look()
    assert isinstance(said, ExplainWait)
    assert (said.reason, said.message) == (
        Reason.REGISTRY_UNREACHABLE,
        f"{TAG}: the registry fell silent",
    )
    assert await desk.look() is None
    assert len(desk.registries.heard) == 1
    desk.readings.wait(AGAIN_S)
    desk.registries.known[TAG] = FOUND
    assert await desk.look() == FOUND


async def test_a_registry_is_not_asked_for_ever(desk: Desk) -> None:
    desk.registries.known[TAG] = RegistryUnreachable(TAG, "the registry fell silent")
    waited_s, said = 0.0, await desk.look()
    while isinstance(said, ExplainWait):
        desk.readings.wait(AGAIN_S)
        waited_s += AGAIN_S
        said = await desk.look()
    assert isinstance(said, Problem)
    assert (said.reason, said.field) == (Reason.REGISTRY_UNREACHABLE, "intent.workload.image")
    assert "submit it again" in said.message
    assert waited_s == WITHIN_S


async def test_a_registry_that_asks_for_patience_gets_it(desk: Desk) -> None:
    desk.registries.known[TAG] = RegistryBusy(TAG, "leave me alone", retry_after_s=30.0)
    assert isinstance(await desk.look(), ExplainWait)
    desk.readings.wait(29.0)
    assert await desk.look() is None
    desk.readings.wait(1.0)
    assert isinstance(await desk.look(), ExplainWait)
    assert len(desk.registries.heard) == 2
