"""A gang that stood at its gate, was granted, and was removed by somebody while nobody looked."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.model.reasons import Reason
from broker.model.run import CloseRule
from broker.model.states import PlacementEnd
from regions.cluster import Cause, OwnerState, Revoke, Stage
from tests.unit.loops.handheld import Handheld, handheld
from tests.unit.loops.seeing import epoch_seen, placement_seen


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Handheld]:
    async with handheld(tmp_path, "alpha", "beta", nodes_free=0) as made:
        yield made


async def granted(broker: Handheld) -> str:
    """Bring a run to its grant in alpha, whose gang stands whole and has not passed."""
    name = await broker.submit()
    await broker.settle()
    seen = placement_seen(
        broker.leg(name), broker.run(name), stage=Stage.STANDING, cause=Cause.NONE
    )
    broker.clusters["alpha"].show(replace(seen, is_whole_at_gate=True))
    await broker.settle()
    assert broker.run(name).open_epoch is not None
    return name


async def test_it_is_revoked_and_its_run_goes_on_elsewhere(broker: Handheld) -> None:
    name = await granted(broker)
    run, alpha = broker.run(name), broker.clusters["alpha"]
    alpha.show()
    await broker.settle(seconds=1.0)
    assert Revoke(epoch=epoch_seen(run).key) in alpha.heard
    revoked = epoch_seen(run, owner=OwnerState.REVOKED, nonces=())
    alpha.shown = replace(alpha.shown, epochs={revoked.key: revoked})
    await broker.settle(seconds=1.0)
    first = next(iter(broker.run(name).placements.values()))
    assert broker.run(name).epochs[0].close_rule is CloseRule.NEVER_STARTED
    assert (first.end, first.why.reason) == (PlacementEnd.REVOKED, Reason.GANG_NOT_WHOLE)
    assert first.why.message == "alpha: the cluster holds it no longer and does not say why"
    assert broker.run(name).open_epoch is None


async def test_it_is_let_be_while_not_all_of_its_cluster_is_seen(broker: Handheld) -> None:
    name = await granted(broker)
    alpha = broker.clusters["alpha"]
    alpha.show()
    alpha.shown = replace(alpha.shown, is_whole=False)
    await broker.settle(seconds=60.0)
    assert not [each for each in alpha.heard if isinstance(each, Revoke)]
    assert broker.run(name).open_epoch is not None
