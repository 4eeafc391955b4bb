"""What waiting runs are told while a restored broker looks around (R1, law 6)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from broker.history.regional_commands import WaiveRegion
from broker.model.intent import CapacityType, Limits, Terms
from broker.model.reasons import Reason
from broker.model.run import Run
from broker.model.states import PlacementState, RunState
from regions.launcher import layout
from regions.local import faults
from tests.scenarios.rig import FLAVOR, PROGRAM, Rig, directed

SHORT = replace(PROGRAM, steps=10)
SPOT = Terms(capacity_types=(CapacityType.SPOT,), limits=Limits())


def is_current(rig: Rig, run: Run) -> bool:
    """Whether a run is told of the survey, or of its silent cluster, and a time still to come."""
    why = run.why
    is_survey = why.reason is Reason.NOT_SEEN_SINCE_RESTORE and "restored" in why.message
    is_told = is_survey or why.reason is Reason.CLUSTER_SILENT
    is_ahead = why.next_at_s is not None and why.next_at_s > rig.now_s()
    return is_told and "alpha" in why.message and is_ahead


async def restored_beside_a_silence(rig: Rig, *names: str) -> None:
    """Restore a backup while alpha and its store do not answer."""
    await rig.back_up()
    weather = rig.place("alpha").weather
    weather.is_cluster_silent = weather.is_store_cut = True
    await rig.restore()
    for name in names:
        await rig.until(name, lambda run: is_current(rig, run), within_s=20.0)
    # It stays so, however long that takes.
    for _ in range(100):
        await asyncio.sleep(10.0)
        for name in names:
            await rig.until(name, lambda run: is_current(rig, run), within_s=20.0)


def heal(rig: Rig) -> None:
    weather = rig.place("alpha").weather
    weather.is_cluster_silent = weather.is_store_cut = False
    for region in ("alpha", "beta"):
        rig.place(region).inject(faults.Restore())


async def stuck(rig: Rig, *regions: str) -> str:
    """Submit a run whose leg waits for machines that do not come."""
    for region in ("alpha", "beta"):
        rig.place(region).inject(faults.Stockout(flavor=FLAVOR))
    name = await rig.submit(SHORT, ranks=5, terms=replace(SPOT, regions=regions))
    await rig.until(
        name,
        lambda run: any(
            leg.state is PlacementState.PROVISIONING for leg in run.placements.values()
        ),
    )
    return name


@directed("alpha", "beta")
async def test_every_wait_says_which_region_a_restored_broker_still_looks_for(rig: Rig) -> None:
    there, elsewhere = await stuck(rig, "alpha"), await stuck(rig, "beta")
    unplaced = await rig.submit(SHORT, ranks=6, terms=replace(SPOT, regions=("alpha",)))
    await rig.until(unplaced, lambda run: run.state is RunState.QUEUED)
    await restored_beside_a_silence(rig, there, elsewhere, unplaced)
    heal(rig)
    for name in (there, elsewhere, unplaced):
        run = await rig.until(name, lambda run: run.is_ended, within_s=1_200.0)
        assert run.state is RunState.SUCCEEDED


@directed("alpha", "beta")
async def test_a_waived_region_is_no_longer_named_as_what_is_waited_for(rig: Rig) -> None:
    elsewhere = await stuck(rig, "beta")
    await restored_beside_a_silence(rig, elsewhere)
    await rig.order("alpha", WaiveRegion())
    run = await rig.until(
        elsewhere, lambda run: run.why.reason is not Reason.NOT_SEEN_SINCE_RESTORE, within_s=30.0
    )
    assert "beta" in run.why.message
    assert "alpha" not in run.why.message


@directed("alpha", "beta")
async def test_a_record_that_cannot_be_read_is_named_as_long_as_it_keeps_all_waiting(
    rig: Rig,
) -> None:
    name, elsewhere = await stuck(rig, "alpha"), await stuck(rig, "beta")
    await rig.back_up()
    owner = layout.RunKeys(rig.run(name).uid).owner(1)
    rig.place("alpha").objects.put(owner, b"garbage")
    await rig.restore()

    def warned() -> list[str]:
        run = rig.log.run(name)  # None until the log is read
        warnings = () if run is None else run.warnings
        return [w.message for w in warnings if w.reason is Reason.NOT_SEEN_SINCE_RESTORE]

    await rig.meanwhile(lambda: bool(warned()), within_s=60.0)
    assert "nothing starts anywhere" in warned()[0]
    assert "alpha epoch 1" in warned()[0]
    await asyncio.sleep(60.0)
    assert len(warned()) == 1
    await rig.order("alpha", WaiveRegion())
    await rig.until(
        elsewhere, lambda run: run.why.reason is not Reason.NOT_SEEN_SINCE_RESTORE, within_s=30.0
    )
