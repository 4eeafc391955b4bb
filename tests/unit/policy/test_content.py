"""Whether a leg waits for a copy of the newest checkpoint, or trains again from an older one."""

from __future__ import annotations

from broker.model.copying import CopyKind
from broker.model.run import Purpose
from tests.unit.policy.scene import Scene
from tests.unit.policy.test_gangs import prepared, training


def copies_take(scene: Scene, seconds: float) -> None:
    """Let copies of the newest checkpoint from alpha into beta take so long."""
    newest = max(scene.run.checkpoints, key=lambda one: one.ref.step)
    rate = newest.size_bytes / seconds
    scene.view.rates.tell(CopyKind.CHECKPOINT, "alpha", "beta", rate)


def test_a_leg_waits_for_no_copy_that_costs_more_than_to_train_again() -> None:
    scene = training()
    scene.story.saved(10, "beta").wait(300.0)
    scene.story.saved(20).preempted().placed("beta", Purpose.REQUEUE)
    copies_take(scene, 500.0)
    assert prepared(scene.told()) == 0
    copies_take(scene, 1500.0)
    assert prepared(scene.told()) == 1
