"""An image's way: from its tag to a digest, to the region's registry, to the gang that runs it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.history.commands import AcceptRun, CancelRun, SetPolicy
from broker.loops import courier
from broker.loops.image_vouching import AGAIN_S
from broker.loops.later import AGAIN_S as COPY_AGAIN_S
from broker.model.image import PinnedImage
from broker.model.policy import RegionPolicy
from broker.model.reasons import Reason
from broker.model.states import PlacementState, RunState
from regions.cluster import Queue
from replicator.errors import Corrupt, RegistryUnreachable
from tests.builders import BROKER, make_workload
from tests.fakes.images import DIGEST, SOURCE, FakeRegistries
from tests.unit.loops.handheld import Handheld, handheld

TAG = f"{SOURCE}/llm:v1"
PINNED = PinnedImage(name=f"{SOURCE}/llm@{DIGEST}", size_bytes=1_000)
THERE = f"alpha.example/team/llm@{DIGEST}"


@pytest.fixture
def registries() -> FakeRegistries:
    return FakeRegistries(known={TAG: PINNED}, there={"": {DIGEST}})


@pytest.fixture
async def town(tmp_path: Path, registries: FakeRegistries) -> AsyncIterator[Handheld]:
    async with handheld(tmp_path, "alpha", "beta", registries=registries) as made:
        yield made


async def submitted(town: Handheld) -> str:
    name = await town.submit(workload=make_workload(image=TAG))
    await town.settle()
    return name


def queued(town: Handheld, region: str) -> list[str]:
    """Return the images of the gangs that a cluster was told to queue."""
    heard = town.clusters[region].heard
    return list(dict.fromkeys(one.image for one in heard if isinstance(one, Queue)))


async def test_a_tag_is_kept_by_digest_and_copied_and_run_by_the_regions_name(
    town: Handheld, registries: FakeRegistries
) -> None:
    name = await submitted(town)
    await town.settle(1.0)
    await town.settle(1.0)
    run = town.run(name)
    assert (run.image, run.intent.workload.image) == (PINNED, TAG)
    assert ("bring", "", "alpha") in registries.heard
    assert queued(town, "alpha") == [THERE]
    assert registries.heard.count(("resolve", TAG)) == 1


async def test_no_gang_is_queued_or_granted_before_its_image_answers(
    town: Handheld, registries: FakeRegistries
) -> None:
    registries.troubles = [RegistryUnreachable(TAG, "cut off")] * 3
    name = await submitted(town)
    for _ in range(3):
        await town.settle(1.0)
        run = town.run(name)
        assert queued(town, "alpha") == []
        assert [leg.state for leg in run.live_placements] == [PlacementState.PREPARING]
        assert (run.state, run.epochs) == (RunState.QUEUED, ())
    assert run.why.reason is Reason.IMAGE_NOT_THERE
    assert "could not be copied to alpha" in run.why.message
    registries.troubles = []
    await town.settle(COPY_AGAIN_S)
    await town.settle(1.0)
    assert queued(town, "alpha") == [THERE]
    assert town.run(name).epochs != ()


async def test_a_silent_registry_is_waited_for_with_its_reason(
    town: Handheld, registries: FakeRegistries
) -> None:
    registries.silent = {"alpha"}
    name = await submitted(town)
    await town.settle(1.0)
    run = town.run(name)
    assert (queued(town, "alpha"), run.why.reason) == ([], Reason.REGISTRY_UNREACHABLE)
    assert ("bring", "", "alpha") not in registries.heard
    registries.silent = set()
    await town.settle(AGAIN_S)
    await town.settle(1.0)
    assert queued(town, "alpha") == [THERE]


async def test_a_registry_that_falls_silent_holds_up_what_it_had(
    town: Handheld, registries: FakeRegistries
) -> None:
    registries.there["alpha"] = {DIGEST}
    town.agents.view.apply_image(PINNED.name, "alpha", is_there=True)
    registries.silent = {"alpha"}
    name = await submitted(town)
    await town.settle(1.0)
    run = town.run(name)
    assert (queued(town, "alpha"), run.why.reason) == ([], Reason.REGISTRY_UNREACHABLE)
    assert run.why.next_at_s is not None


async def test_what_is_looked_for_in_a_tick_is_bounded_and_all_is_found_in_time(
    town: Handheld, registries: FakeRegistries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier, "LOOKED_FOR_PER_TICK", 1)
    await submitted(town)
    for _ in range(3):
        await town.settle(1.0)
    assert {one[2] for one in registries.heard if one[0] == "bring"} == {"alpha", "beta"}


async def test_a_registry_is_not_asked_at_every_tick_for_what_waits_its_turn(
    town: Handheld, registries: FakeRegistries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier, "COPIES_AT_ONCE", 0)
    await submitted(town)
    for _ in range(4):
        await town.settle(courier.LOOK_AGAIN_S / 4)
    assert registries.heard.count(("is_there", "alpha")) <= 3


async def test_an_answer_for_a_run_that_is_over_hurries_nobody(
    town: Handheld, registries: FakeRegistries
) -> None:
    agents = town.agents
    assert agents.courier is not None
    name = await town.submit(workload=make_workload(image=TAG))
    agents.roster.refresh()
    await agents.validator.tick()
    await town.tell(name, CancelRun(grace_s=0.0, message="enough"))
    await town.settle(1.0)
    assert registries.heard == [("resolve", TAG)]
    assert not agents.courier.is_busy


async def test_an_answer_on_its_way_is_collected_soon(
    town: Handheld, registries: FakeRegistries
) -> None:
    agents = town.agents
    assert agents.courier is not None
    await town.submit(workload=make_workload(image=TAG))
    await town.decide()
    assert (registries.heard, agents.courier.is_busy) == ([("resolve", TAG)], False)
    await town.decide()
    assert (registries.heard[1:2], agents.courier.is_busy) == ([("is_there", "alpha")], True)


async def test_what_may_not_leave_a_region_is_waited_for_with_its_reason(
    town: Handheld, registries: FakeRegistries
) -> None:
    tag = "beta.example/team/llm:v1"
    registries.known[tag] = PinnedImage(name=f"beta.example/team/llm@{DIGEST}", size_bytes=1_000)
    registries.there["beta"] = {DIGEST}
    closed = RegionPolicy(is_allowed=False, egress_budget_bytes_per_hour=0)
    command = SetPolicy(policy=closed, expected_generation=1)
    await town.ledger.handle("regions/beta", command, BROKER)
    name = await town.submit(workload=make_workload(image=tag))
    for _ in range(3):
        await town.settle(1.0)
    why = town.run(name).why
    assert (why.reason, why.message) == (
        Reason.IMAGE_NOT_THERE,
        "the hourly egress budget of beta is spent",
    )
    assert not [one for one in registries.heard if one[0] == "bring"]


async def test_a_copy_that_failed_before_it_sent_anything_leaves_the_budget_for_the_next(
    town: Handheld, registries: FakeRegistries
) -> None:
    tag = "beta.example/team/llm:v1"
    registries.known[tag] = PinnedImage(name=f"beta.example/team/llm@{DIGEST}", size_bytes=1_000)
    registries.there["beta"] = {DIGEST}
    registries.troubles = [RegistryUnreachable(TAG, "cut off")] * 3
    tight = RegionPolicy(is_allowed=False, egress_budget_bytes_per_hour=1_500)
    command = SetPolicy(policy=tight, expected_generation=1)
    await town.ledger.handle("regions/beta", command, BROKER)
    await town.submit(workload=make_workload(image=tag))
    for _ in range(5):
        await town.settle(COPY_AGAIN_S)
    assert registries.troubles == []
    assert queued(town, "alpha") == [THERE]


async def test_an_image_that_was_taken_since_is_not_believed_to_be_there(
    town: Handheld, registries: FakeRegistries
) -> None:
    registries.there["alpha"] = {DIGEST}
    town.agents.view.apply_image(PINNED.name, "alpha", is_there=True)
    registries.there["alpha"] = set()
    registries.troubles = [Corrupt(TAG, "its digest is another")] * 2
    name = await submitted(town)
    await town.settle(1.0)
    assert queued(town, "alpha") == []
    warned = {w.reason for w in town.run(name).warnings}
    assert warned == {Reason.COPY_NOT_VERIFIED}


async def test_images_of_waiting_runs_go_ahead_to_where_they_may_start(
    tmp_path: Path, registries: FakeRegistries
) -> None:
    async with handheld(tmp_path, "alpha", "beta", registries=registries, nodes_free=0) as town:
        name = await submitted(town)
        for _ in range(3):
            await town.settle(1.0)
        legs = {leg.site.region for leg in town.run(name).live_placements}
        brought = {one[2] for one in registries.heard if one[0] == "bring"}
        assert legs == {"alpha"}
        assert brought == {"alpha", "beta"}
        assert registries.heard.count(("bring", "", "beta")) == 1


async def test_one_copy_serves_all_runs_of_an_image(
    town: Handheld, registries: FakeRegistries
) -> None:
    for name in ("one", "two", "three"):
        await town.submit(name, workload=make_workload(image=TAG))
    for _ in range(4):
        await town.settle(1.0)
    assert registries.heard.count(("bring", "", "alpha")) == 1


async def test_a_region_that_has_it_serves_when_its_own_registry_lost_it(
    town: Handheld, registries: FakeRegistries
) -> None:
    registries.there["beta"] = {DIGEST}
    town.agents.view.apply_image(PINNED.name, "beta", is_there=True)
    registries.troubles = [Corrupt(TAG, "its digest is another")]
    name = await submitted(town)
    await town.settle(1.0)
    await town.settle(600.0)
    assert ("bring", "beta", "alpha") in registries.heard
    assert town.run(name).live_placements != ()


async def test_a_run_without_a_registry_of_ours_is_left_alone(
    town: Handheld, registries: FakeRegistries
) -> None:
    image = f"other.example/llm@{DIGEST}"
    name = await town.submit(workload=make_workload(image=image))
    await town.settle()
    await town.settle(1.0)
    assert (town.run(name).image, queued(town, "alpha")) == (None, [image])
    assert registries.heard == []


async def test_an_image_of_a_registry_that_is_configured_no_more_is_run_by_its_name(
    town: Handheld, registries: FakeRegistries
) -> None:
    image = PinnedImage(name=f"former.example/llm@{DIGEST}", size_bytes=1_000)
    name = await town.submit(workload=make_workload(image="former.example/llm:v1"))
    await town.tell(name, AcceptRun(image=image))
    for _ in range(3):
        await town.settle(1.0)
    assert (queued(town, "alpha"), registries.heard) == ([image.name], [])
