"""A gang that ends while the broker cannot read its region's store (B3, law 6)."""

from __future__ import annotations

from dataclasses import replace

from broker.history.events import Sealed
from broker.model.reasons import Reason
from broker.model.run import Run
from regions.local import faults
from tests.scenarios.rig import FLAVOR, PATIENCE, PROGRAM, Rig, directed

LONG = replace(PROGRAM, steps=10_000)


async def lost_behind_a_cut(rig: Rig) -> tuple[str, int]:
    """Let a gang save behind a cut store and lose its machines; return the newest step known."""
    name = await rig.submit(LONG)
    run = await rig.until(name, lambda run: len(run.checkpoints) > 1)
    known = max(c.ref.step for c in run.checkpoints)
    rig.place("alpha").weather.is_store_cut = True
    gang = rig.gang(name)[0]
    assert gang.grant is not None
    training = rig.place("alpha").gang_of(gang, gang.grant)
    await rig.meanwhile(lambda: training.step > known + 12)
    rig.place("alpha").inject(faults.Preempt(flavor=FLAVOR, nodes=2, notice_s=0.0))
    await rig.until(name, lambda run: run.why.reason is Reason.STORE_UNREACHABLE, within_s=60.0)
    return name, known


async def sealed(rig: Rig, name: str) -> tuple[Run, int]:
    """Wait for the seal; return the newest step that it names."""
    run = await rig.until(name, lambda run: not run.epochs[0].is_open)
    seal = next(event for event in await rig.events(name) if isinstance(event, Sealed))
    return run, max(ref.step for ref in seal.checkpoints)


@directed("alpha", "beta")
async def test_a_store_that_answers_in_time_loses_no_checkpoint(rig: Rig) -> None:
    name, known = await lost_behind_a_cut(rig)
    run = rig.run(name)
    assert run.epochs[0].is_open
    assert run.why.next_at_s is not None
    assert 0.0 < run.why.next_at_s - rig.now_s() <= PATIENCE.cluster_silent_s
    assert "alpha" in run.why.message
    rig.place("alpha").weather.is_store_cut = False
    _, newest = await sealed(rig, name)
    assert newest >= known + 10


@directed("alpha", "beta")
async def test_a_store_that_stays_silent_holds_a_close_no_longer_than_its_patience(
    rig: Rig,
) -> None:
    name, known = await lost_behind_a_cut(rig)
    at_s = rig.run(name).why.next_at_s
    run, newest = await sealed(rig, name)
    assert newest == known
    assert at_s is not None
    assert 0.0 <= (run.epochs[0].closed_s or 0.0) - at_s < 5.0
    assert run.why.reason is not Reason.STORE_UNREACHABLE
