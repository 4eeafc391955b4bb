"""Agents whose ticks are called by hand: time, refusals, copies and strangers."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.history.commands import RecordRunning, RecordStart, SetPolicy, WithdrawPlacement
from broker.history.events import CheckpointCopied, CheckpointLost, Granted
from broker.loops.content import path_of
from broker.loops.reaper import LEFTOVER_S
from broker.model.copying import CopySpend
from broker.model.intent import CheckpointFormat, CheckpointSpec
from broker.model.policy import RegionPolicy
from broker.model.reasons import Reason
from broker.model.states import PlacementEnd
from regions.cluster import Cause, Grant, Outcome, Queue, Stage, Withdraw
from replicator.checkpoint.paths import CheckpointPath
from tests.builders import BROKER, flat_egress, make_workload
from tests.fakes.checkpoints import marker_of, save
from tests.unit.loops.handheld import Handheld, handheld
from tests.unit.loops.seeing import epoch_seen, placement_seen, report

NONCES = ("00000000aa", "11111111bb")


@pytest.fixture
async def one(tmp_path: Path) -> AsyncIterator[Handheld]:
    async with handheld(tmp_path, "alpha") as broker:
        yield broker


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Handheld]:
    async with handheld(tmp_path, "alpha", "beta") as broker:
        yield broker


@pytest.fixture
async def patient(tmp_path: Path) -> AsyncIterator[Handheld]:
    """Two regions without a free machine, so that a gang is granted only when it stands whole."""
    async with handheld(tmp_path, "alpha", "beta", nodes_free=0) as broker:
        yield broker


async def started(broker: Handheld, keep_last: int = 3) -> str:
    """Bring a run to training in alpha, its records shown by the store."""
    spec = CheckpointSpec(keep_last=keep_last)
    name = await broker.submit(workload=make_workload(checkpoint=spec))
    await broker.settle()
    run, leg = broker.run(name), broker.leg(name)
    alpha = broker.clusters["alpha"]
    seen = placement_seen(leg, run, stage=Stage.STANDING, cause=Cause.NONE, is_granted=True)
    alpha.show(seen)
    epoch = run.open_epoch
    if epoch is None:
        alpha.show(replace(seen, is_whole_at_gate=True, is_granted=False))
        await broker.settle()
        epoch = broker.run(name).open_epoch
        alpha.show(seen)
    assert epoch is not None
    await broker.tell(
        name, RecordStart(epoch=epoch.id, nonces=NONCES), RecordRunning(epoch=epoch.id)
    )
    show_epoch(broker, name)
    await broker.settle()
    return name


def show_epoch(broker: Handheld, name: str, *steps: int) -> None:
    """Show the open epoch's records in alpha's store, with these checkpoints' markers."""
    run, alpha = broker.run(name), broker.clusters["alpha"]
    seen = epoch_seen(run, reports=(report(0), report(1)), checkpoints=steps)
    alpha.shown = replace(alpha.shown, epochs={seen.key: seen})


def saved(broker: Handheld, name: str, *steps: int) -> None:
    """Write complete checkpoints of the open epoch into alpha's store."""
    run = broker.run(name)
    epoch = run.open_epoch
    assert epoch is not None
    for step in steps:
        path = CheckpointPath(run_key=run.uid, epoch=epoch.id.folder, step=step)
        save(broker.stores["alpha"], path, {"weights": b"w" * step})
    show_epoch(broker, name, *steps)


async def test_a_submitted_run_is_queued_where_it_is_cheapest_and_granted(two: Handheld) -> None:
    name = await two.submit()
    await two.settle()
    assert two.leg(name).site.region == "alpha"
    assert [type(action) for action in two.clusters["alpha"].heard] == [Queue, Grant]
    assert two.clusters["beta"].heard == []


async def test_a_rank_whose_count_stands_still_is_said_and_one_behind_a_silence_is_not(
    one: Handheld,
) -> None:
    name, alpha = await started(one), one.clusters["alpha"]
    seen = epoch_seen(one.run(name))

    async def hears(first: int, second: int, seconds: float) -> list[str]:
        """Let time pass with these counts of the two ranks shown in between."""
        reports = (
            report(0, nonce=NONCES[0], beat=first),
            report(1, nonce=NONCES[1], beat=second),
        )
        alpha.shown = replace(alpha.shown, epochs={seen.key: replace(seen, reports=reports)})
        await one.settle(seconds)
        said = one.run(name).warnings
        return [warning.message for warning in said if warning.reason is Reason.RANK_UNHEARD]

    for count in range(2, 7):
        assert await hears(count, count, 60.0) == []
    alpha.is_silent = True
    assert await hears(6, 6, 600.0) == []
    alpha.is_silent = False
    assert await hears(6, 6, 31.0) == []
    assert await hears(7, 6, 60.0) == []
    assert await hears(8, 6, 60.0) == ["rank 1 has not reported for 2 min"]


async def test_an_order_is_sent_again_only_when_its_effect_does_not_show(one: Handheld) -> None:
    await one.submit()
    await one.settle()
    await one.settle()
    heard = one.clusters["alpha"].heard
    assert [type(action) for action in heard] == [Queue, Grant]
    await one.settle(seconds=5.0)
    assert [type(action) for action in heard] == [Queue, Grant, Queue, Grant]


async def test_a_failed_order_waits_as_long_as_the_cluster_asks(one: Handheld) -> None:
    alpha = one.clusters["alpha"]
    alpha.answer = Outcome(is_done=False, cause=Cause.UNKNOWN, message="full", retry_after_s=30.0)
    await one.submit()
    await one.settle()
    sent = len(alpha.heard)
    await one.settle(seconds=20.0)
    assert len(alpha.heard) == sent
    await one.settle(seconds=11.0)
    assert len(alpha.heard) > sent


async def test_what_a_cluster_refuses_for_good_ends_the_placement(patient: Handheld) -> None:
    alpha = patient.clusters["alpha"]
    alpha.answer = Outcome(is_done=False, cause=Cause.REFUSED, message="no such queue")
    name = await patient.submit()
    await patient.settle(seconds=1.0)
    first, second = patient.run(name).placements.values()
    assert (first.site.region, second.site.region) == ("alpha", "beta")
    assert (first.end, first.why.reason) == (PlacementEnd.FAILED, Reason.REFUSED_BY_CLUSTER)


async def test_a_waiting_run_is_told_of_a_silent_cluster_and_moved(two: Handheld) -> None:
    name = await two.submit()
    await two.settle()
    alpha = two.clusters["alpha"]
    alpha.show(placement_seen(two.leg(name), two.run(name)))
    await two.settle()
    alpha.is_silent = True
    await two.settle(seconds=1.0)
    assert two.leg(name).site.region == "alpha"
    await two.settle(seconds=90.0)
    first = next(iter(two.run(name).placements.values()))
    assert first.stuck is not None
    assert first.stuck.reason is Reason.CLUSTER_SILENT


async def test_checkpoints_are_written_down_and_copied_ahead(two: Handheld) -> None:
    name = await started(two)
    saved(two, name, 10, 20)
    await two.settle(seconds=1.0)
    run = two.run(name)
    assert sorted(c.ref.step for c in run.checkpoints) == [10, 20]
    newest = max(run.checkpoints, key=lambda c: c.ref.step)
    assert newest.regions == {"alpha", "beta"}


async def test_a_copy_that_was_made_is_charged_and_shown_with_what_it_cost(two: Handheld) -> None:
    name = await started(two)
    saved(two, name, 10)
    await two.settle(seconds=1.0)
    run = two.run(name)
    size_bytes = run.checkpoints[0].size_bytes
    usd = flat_egress("alpha", "beta").of(size_bytes)
    spend = CopySpend(region="beta", copies=1, sent_bytes=size_bytes, usd=usd)
    assert (run.copy_spends, usd > 0) == ((spend,), True)
    assert {one.region: one.spend for one in two.agents.answers.replicas(run)} == {
        "alpha": None,
        "beta": spend,
    }


async def test_copies_keep_the_budget_of_the_region_that_they_leave(two: Handheld) -> None:
    policy = RegionPolicy(egress_budget_bytes_per_hour=400)
    ruled = SetPolicy(policy=policy, expected_generation=1)
    await two.ledger.handle("regions/alpha", ruled, BROKER)
    name = await started(two)
    for steps in ((10,), (10, 20), (10, 20, 30)):
        saved(two, name, *steps)
        await two.settle(seconds=60.0)
    checkpoints = two.run(name).checkpoints
    assert sum(c.size_bytes for c in checkpoints) > 400
    copied = [c for c in checkpoints if "beta" in c.regions]
    assert 0 < sum(c.size_bytes for c in copied) <= 400
    await two.settle(seconds=3600.0)
    newest = max(two.run(name).checkpoints, key=lambda c: c.ref.step)
    assert newest.regions == {"alpha", "beta"}


async def test_what_is_not_what_the_log_holds_is_no_copy_of_it(two: Handheld) -> None:
    beta = two.clusters["beta"]
    beta.shown = replace(beta.shown, is_store_readable=False)
    name = await started(two)
    saved(two, name, 10)
    await two.settle(seconds=1.0)
    run = two.run(name)
    ref = run.checkpoints[0].ref
    assert run.checkpoints[0].regions == {"alpha"}
    # Somebody saves the step once more, whole, while beta cannot be written.
    path, alpha = path_of(run.uid, ref), two.stores["alpha"]
    for entry in alpha.list(path.prefix).entries:
        alpha.delete(entry.name)
    save(alpha, path, {"weights": b"x" * 10})
    beta.shown = replace(beta.shown, is_store_readable=True)
    for _ in range(3):
        await two.settle(seconds=60.0)
    events = [recorded.event for recorded in await two.ledger.read(name, 0, 1_000)]
    assert not any(isinstance(event, CheckpointCopied) for event in events)
    lost = [event for event in events if isinstance(event, CheckpointLost)]
    assert [(event.ref, event.region) for event in lost] == [(ref, "alpha")]
    assert any(w.reason is Reason.COPY_NOT_VERIFIED for w in two.run(name).warnings)


async def test_what_retention_lets_go_is_removed_from_every_region(two: Handheld) -> None:
    name = await started(two, keep_last=1)
    saved(two, name, 10)
    await two.settle(seconds=1.0)
    first = two.run(name).checkpoints[0]
    assert first.regions == {"alpha", "beta"}
    saved(two, name, 10, 20)
    await two.settle(seconds=1.0)
    assert [c.ref.step for c in two.run(name).checkpoints] == [20]
    path = path_of(two.run(name).uid, first.ref)
    assert [list(store.list(path.prefix).entries) for store in two.stores.values()] == [[], []]


async def test_a_damaged_copy_is_said_and_not_resumed_from(two: Handheld) -> None:
    name = await started(two)
    saved(two, name, 10)
    await two.settle(seconds=1.0)
    run = two.run(name)
    path = path_of(run.uid, run.checkpoints[0].ref)
    two.stores["beta"].put(f"{path.prefix}weights", [b"other"])
    # Alpha falls away: the cluster says that the gang is gone.
    alpha = two.clusters["alpha"]
    alpha.show(placement_seen(two.leg(name), run, stage=Stage.ENDED, cause=Cause.NODE_PREEMPTED))
    gone = epoch_seen(run, gone=frozenset({0, 1}), checkpoints=(10,))
    alpha.shown = replace(alpha.shown, epochs={gone.key: gone}, queues=())
    for _ in range(3):
        await two.settle(seconds=1.0)
    events = [recorded.event for recorded in await two.ledger.read(name, 0, 1_000)]
    lost = [event for event in events if isinstance(event, CheckpointLost)]
    assert [(event.ref.step, event.region) for event in lost] == [(10, "beta")]
    run = two.run(name)
    assert any(w.reason is Reason.COPY_NOT_VERIFIED for w in run.warnings)
    # It was made again from what alpha still holds before anything started from it.
    granted = events.index(next(e for e in reversed(events) if isinstance(e, Granted)))
    copied = max(i for i, event in enumerate(events) if isinstance(event, CheckpointCopied))
    assert events.index(lost[0]) < copied < granted
    assert run.epochs[-1].region == "beta"
    assert run.epochs[-1].resume_from == run.checkpoints[0].ref
    assert await two.agents.content.is_sound_now(
        "beta", path, run.checkpoints[0].ref.digest, CheckpointFormat.FILES
    )


async def test_a_withdrawn_placement_ends_when_its_name_is_occupied(patient: Handheld) -> None:
    name = await patient.submit()
    await patient.settle()
    leg = patient.leg(name)
    order = WithdrawPlacement(placement=leg.id, reason=Reason.STOCKOUT, message="given back")
    await patient.tell(name, order)
    await patient.settle()
    assert Withdraw in {type(action) for action in patient.clusters["alpha"].heard}
    await patient.settle(seconds=1.0)
    assert patient.run(name).placements[leg.id].end is PlacementEnd.WITHDRAWN


async def test_a_stranger_is_shown_and_left(one: Handheld) -> None:
    name = await one.submit()
    run = one.run(name)
    await one.settle()
    stranger = replace(
        placement_seen(one.leg(name), run), placement="stranger0001", run_key="x" * 20, labels={}
    )
    one.clusters["alpha"].show(stranger)
    await one.settle(seconds=600.0)
    (orphan,) = one.agents.strangers.by_cluster["alpha"]
    assert orphan.object == "stranger0001"
    assert not any(
        isinstance(action, Withdraw) and action.placement == "stranger0001"
        for action in one.clusters["alpha"].heard
    )


async def test_what_is_over_in_the_log_and_still_there_is_given_back(one: Handheld) -> None:
    name = await started(one)
    run, leg = one.run(name), one.leg(name)
    alpha = one.clusters["alpha"]
    recreated = placement_seen(leg, run, stage=Stage.STANDING, cause=Cause.NONE)
    gone = epoch_seen(run, gone=frozenset({0, 1}))
    alpha.show(recreated)
    alpha.shown = replace(alpha.shown, epochs={gone.key: gone})
    await one.settle(seconds=30.0)
    await one.settle(seconds=30.0)
    assert not one.run(name).placements[leg.id].is_live
    alpha.heard.clear()
    await one.settle(seconds=LEFTOVER_S + 1.0)
    withdrawals = [action for action in alpha.heard if isinstance(action, Withdraw)]
    assert [(w.placement, w.uid, w.is_closed) for w in withdrawals][:1] == [
        (leg.id, recreated.uid, True)
    ]


async def test_a_restored_broker_moves_nothing_before_its_survey(tmp_path: Path) -> None:
    async with handheld(tmp_path, "alpha", is_restored=True) as broker:
        name = await broker.submit()
        await broker.settle()
        await broker.settle(seconds=60.0)
        assert broker.clusters["alpha"].heard == []
        assert broker.run(name).epochs == ()
        await broker.agents.restorer.tick()
        await broker.settle(seconds=60.0)
        assert Queue in {type(action) for action in broker.clusters["alpha"].heard}


async def test_a_save_that_does_not_fit_together_is_looked_at_again_without_haste(
    one: Handheld,
) -> None:
    name = await started(one)
    run = one.run(name)
    epoch = run.open_epoch
    assert epoch is not None
    path = CheckpointPath(run_key=run.uid, epoch=epoch.id.folder, step=100)
    store = one.stores["alpha"]
    store.put(f"{path.prefix}model", [b"87654321"])
    store.put(f"{path.prefix}.complete", [marker_of({"model": b"12345678"})])
    show_epoch(one, name, 100)
    await one.settle()
    one.agents.carrier.changes.take()
    one.agents.carrier.changes.add({name})
    await one.agents.carrier.tick()
    # Its own tick is no news: else it would tick as fast as it can until the save is whole.
    assert one.agents.carrier.changes.take() == frozenset()
    store.put(f"{path.prefix}model", [b"12345678"])
    await one.settle(60.0)
    assert [c.ref.step for c in one.run(name).checkpoints] == [100]


async def test_the_orders_of_several_runs_wait_for_their_cluster_together(tmp_path: Path) -> None:
    async with handheld(tmp_path, "alpha", runs_at_once=8) as broker:
        both, met = asyncio.Barrier(2), set[int]()

        async def meet() -> None:
            if not met:
                async with asyncio.timeout(10.0):
                    met.add(await both.wait())

        for name in ("one", "two"):
            await broker.submit(name)
        broker.clusters["alpha"].before_answer = meet
        await broker.settle()
        assert met == {0, 1}


async def test_a_cluster_that_is_slow_to_answer_for_one_run_is_sent_those_of_others(
    tmp_path: Path,
) -> None:
    async with handheld(tmp_path, "alpha", runs_at_once=8) as broker:
        alpha, [converger] = broker.clusters["alpha"], broker.agents.convergers
        answered = asyncio.Event()

        async def wait() -> None:
            await answered.wait()

        alpha.before_answer = wait
        async with converger.acting():
            for name in ("slow", "next"):
                await broker.submit(name)
                for _ in range(6):
                    await broker.decide()
                    await converger.tick()
                    await asyncio.sleep(0)
            orders = [one.run_key for one in alpha.heard if isinstance(one, Queue)]
            answered.set()
        assert orders == [broker.run(f"teams/vision/runs/{one}").uid for one in ("slow", "next")]
