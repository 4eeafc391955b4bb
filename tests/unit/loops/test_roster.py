"""Which runs are at a turn: their clusters are looked at more often, so that it is seen at once."""

from pathlib import Path

from broker.history.commands import (
    CloseEpoch,
    GrantPlacement,
    RecordRunning,
    RecordStart,
    ReportPlacement,
    RunCommand,
    StopEpoch,
)
from broker.model.reasons import Reason
from broker.model.run import Arrival, CloseRule, Epoch, RankEnd
from broker.model.states import PlacementState
from tests.unit.loops.handheld import Handheld, handheld

NONCES = ("00000000aa", "11111111bb")


async def turns(broker: Handheld, name: str, *commands: RunCommand) -> bool:
    """Tell the log, and return whether the run is at a turn then."""
    await broker.tell(name, *commands)
    broker.agents.roster.refresh()
    return name in broker.agents.roster.turning


def reported(broker: Handheld, name: str, here: int, *, is_whole: bool = False) -> RunCommand:
    return ReportPlacement(
        placement=broker.leg(name).id,
        state=PlacementState.AT_GATE if is_whole else PlacementState.PROVISIONING,
        reason=Reason.AT_GATE if is_whole else Reason.NODES_COMING,
        message="",
        arrival=Arrival(nodes_here=here, nodes_wanted=2),
        cluster_uid="uid",
    )


def open_epoch(broker: Handheld, name: str) -> Epoch:
    epoch = broker.run(name).open_epoch
    assert epoch is not None
    return epoch


async def test_a_run_is_at_a_turn_from_its_last_machine_to_its_first_step_and_at_its_stop(
    tmp_path: Path,
) -> None:
    async with handheld(tmp_path, "alpha", "beta", nodes_free=0) as broker:
        name = await broker.submit()
        await broker.settle()
        assert not await turns(broker, name)
        assert not await turns(broker, name, reported(broker, name, 1))
        assert await turns(broker, name, reported(broker, name, 2))
        assert await turns(broker, name, reported(broker, name, 2, is_whole=True))
        if broker.run(name).open_epoch is None:
            grant = GrantPlacement(placement=broker.leg(name).id, nonce="a" * 12)
            assert await turns(broker, name, grant)
        epoch = open_epoch(broker, name).id
        assert await turns(broker, name, RecordStart(epoch=epoch, nonces=NONCES))
        assert broker.agents.roster.on_cluster("alpha") == {name}
        assert not await turns(broker, name, RecordRunning(epoch=epoch))
        stop = StopEpoch(reason=Reason.REGION_DRAINING, message="drained")
        assert await turns(broker, name, stop)
        ends = tuple(RankEnd(rank=rank, exit_code=143) for rank in range(2))
        close = CloseEpoch(
            epoch=epoch, rule=CloseRule.FENCE_HEARD, ends=ends, found=(), cause=None, message=""
        )
        assert not await turns(broker, name, close)


async def test_a_gang_that_was_granted_before_its_machines_came_starts_by_itself(
    tmp_path: Path,
) -> None:
    async with handheld(tmp_path, "alpha") as broker:
        name = await broker.submit()
        await broker.settle()
        assert open_epoch(broker, name).started_s is None
        assert not await turns(broker, name, reported(broker, name, 2))
        assert await turns(broker, name, reported(broker, name, 2, is_whole=True))
