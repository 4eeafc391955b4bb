"""A broker that is away: its gangs train on and save, and the next life finds what they did."""

from __future__ import annotations

from broker.history.events import CheckpointCompleted, GangRunning
from broker.model.run import Run
from broker.model.states import RunState
from tests.scenarios.rig import Rig, directed
from tests.simulation.training import Program

AWAY_S = 40 * 60.0
HOUR = Program(steps=600, step_s=5.0, save_every=60)


def has_come_to(run: Run, step: int) -> bool:
    return run.progress is not None and run.progress.step >= step


@directed("alpha", "beta")
async def test_a_gang_whose_broker_is_away_for_forty_minutes_trains_on_and_saves(
    rig: Rig,
) -> None:
    name = await rig.submit(HOUR)
    await rig.until(name, lambda run: has_come_to(run, 70))
    gang, began_s = rig.gang(name), rig.stage.loop.time()
    await rig.be_away(AWAY_S)
    assert rig.stage.loop.time() - began_s >= AWAY_S
    await rig.until(
        name, lambda run: has_come_to(run, 70 + int(AWAY_S / HOUR.step_s)), within_s=60.0
    )
    assert rig.gang(name) == gang
    run = await rig.until(name, lambda run: run.state is RunState.SUCCEEDED, within_s=1_200.0)
    assert (len(run.epochs), run.infrastructure_losses, run.user_failures) == (1, 0, 0)
    events = await rig.events(name)
    saved = [one.ref.step for one in events if isinstance(one, CheckpointCompleted)]
    assert set(range(60, HOUR.steps, 60)) <= set(saved)
    assert sum(isinstance(one, GangRunning) for one in events) == 1
