"""What is ordered of a cluster for a run, however long its life was."""

from dataclasses import replace
from pathlib import Path

from broker.history.commands import AcceptRun
from broker.loops import orders
from broker.model.checkpoint import CheckpointRef, EpochId
from broker.model.image import PinnedImage
from broker.model.intent import ProgressSpec, SecretRef
from broker.model.policy import RegionPolicy
from broker.model.run import Epoch
from regions.cluster import Cause, Outcome
from regions.launcher import codec, layout
from regions.launcher.reading import read_record
from regions.launcher.store import DirectoryStore
from regions.local import wire
from regions.local.orders import Orders
from tests.builders import Story, make_checkpoint, make_intent, make_workload

EPOCHS, STEPS = 1_200, 12_000


async def silent(_: wire.Request) -> wire.Reply:
    raise AssertionError("nothing here is a matter of the daemon")


def of_number(epoch: Epoch, number: int) -> Epoch:
    return replace(epoch, id=EpochId(number=number, nonce=f"{number:012x}"))


def test_a_gang_is_told_what_its_training_calls_its_loss() -> None:
    workload = make_workload(env=(("A", "b"),), progress=ProgressSpec(loss_field="train/loss"))
    story = Story(intent=make_intent(workload=workload)).accepted().placed()
    (placement,) = story.run.placements.values()
    order = orders.queue(story.run, placement, RegionPolicy(), "mark", None)
    assert order.env == {
        "A": "b",
        "BROKER_CAPACITY_TYPE": placement.site.capacity_type.value,
        "BROKER_LOSS_FIELD": "train/loss",
    }


def test_a_gang_runs_what_its_image_was_found_to_be() -> None:
    story = Story(intent=make_intent(workload=make_workload(image="registry.example/llm:v1")))
    image = PinnedImage(name=f"registry.example/llm@sha256:{'a' * 64}", size_bytes=1)
    story.do(story.submit, AcceptRun(image=image)).placed()
    (placement,) = story.run.placements.values()
    assert orders.queue(story.run, placement, RegionPolicy(), "mark", None).image == image.name


def test_a_gang_gets_the_way_out_and_a_token_only_if_its_run_asks() -> None:
    for asked in (False, True):
        workload = make_workload(internet=asked, service_account_token=asked)
        story = Story(intent=make_intent(workload=workload)).accepted().placed()
        (placement,) = story.run.placements.values()
        order = orders.queue(story.run, placement, RegionPolicy(), "mark", None)
        assert (order.internet, order.service_account_token) == (asked, asked)


async def test_the_grant_of_a_long_life_can_be_read_and_carries_the_newest(tmp_path: Path) -> None:
    story = Story().accepted().training().saved(10, "beta").preempted()
    (former,) = story.run.epochs
    story.placed("beta").prepared("beta").at_gate("beta").granted("beta")
    opened = replace(of_number(story.epoch, EPOCHS + 1), resume_from=None)
    closed = tuple(of_number(former, number) for number in range(1, EPOCHS + 1))
    saved = tuple(
        replace(
            make_checkpoint(step),
            ref=CheckpointRef(epoch=closed[-1].id, step=step, digest=f"{step:064x}"),
            is_sealed=True,
        )
        for step in range(STEPS)
    )
    run = replace(story.run, epochs=(*closed, opened), checkpoints=saved)
    store = DirectoryStore.create(str(tmp_path))
    order = orders.grant(run, opened, incarnation=1)
    assert await Orders(silent, store, store_s=30.0).carry_out(order) == Outcome(is_done=True)
    key = layout.RunKeys(run.uid).grant(opened.placement)
    grant = read_record(store, key, codec.read_grant)
    assert isinstance(grant, layout.Grant)
    assert [seal.epoch.number for seal in grant.seals] == list(range(201, EPOCHS + 1))
    assert grant.seals[-1].steps == tuple(
        (step, f"{step:064x}") for step in range(STEPS - 8_000, STEPS)
    )
    assert grant.seals[0].steps == ()


async def test_an_embedded_cluster_takes_no_gang_that_needs_a_secret(tmp_path: Path) -> None:
    workload = make_workload(secrets=(SecretRef(name="hub", env="HUB_TOKEN"),))
    story = Story(intent=make_intent(workload=workload)).accepted().placed()
    (placement,) = story.run.placements.values()
    order = orders.queue(story.run, placement, RegionPolicy(), "mark", None)
    carried = Orders(silent, DirectoryStore.create(str(tmp_path)), store_s=30.0)
    assert await carried.carry_out(order) == Outcome(
        is_done=False, cause=Cause.REFUSED, message="an embedded cluster keeps no secrets"
    )
