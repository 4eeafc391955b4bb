"""What the contract of the port needs of a cluster: a driver of the world that it stands in.

Each kind of cluster brings one ``World``. The suite acts through the port, and uses the driver only
for what no port offers: scarcity, faults, and a look at the store's directory.
"""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar

from regions.cluster import (
    Action,
    Cluster,
    ClusterObservation,
    EpochKey,
    EpochSeen,
    Fence,
    Grant,
    Outcome,
    OwnerState,
    PlacementSeen,
    Queue,
    Stage,
    Withdraw,
)
from regions.gang import Gang

T = TypeVar("T")

PATIENCE_S = 40.0
"""When a condition that should come within a second or two is given up: the machine may be busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The one flavor ``h100`` of the world, one GPU a node, and the quota of queue ``ours`` in it.

    ``lent`` is the quota of others, from which ``ours`` may borrow ``borrowing_limit``.
    ``is_strict``: who would fit waits behind who does not, where a queue can be told to let pass.
    """

    nominal: int = 4
    lent: int = 0
    borrowing_limit: int = 0
    max_nodes: int = 8
    startup_s: float = 0.05
    capacity_type: str = "SPOT"
    preemption_notice_s: float = 0.0
    flex_wait_s: float = 0.0
    is_strict: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Knows:
    """What a kind of cluster can know of its machines; quota is known to all.

    ``most_nodes``: that a gang is for ever larger than what can be bought. ``ordered_nodes``: which
    machines are on their way, from when they were ordered on and not only since they came up.
    """

    most_nodes: bool
    ordered_nodes: bool


class World(Protocol):
    """A cluster and what can happen to it."""

    store: Path
    trace: Path
    knows: Knows

    @property
    def cluster(self) -> Cluster:
        """The port."""
        ...

    async def stockout(self) -> None:
        """No further node can be bought."""
        ...

    async def partial(self, nodes: int) -> None:
        """Only so many more nodes can be bought."""
        ...

    async def restore(self) -> None:
        """End stockouts and outages."""
        ...

    async def preempt(self, placement: str, notice_s: float) -> None:
        """Take the nodes of a placement away."""
        ...

    async def lose_node(self, placement: str, rank: int) -> None:
        """Let the node of one rank die."""
        ...

    async def recreate(self, placement: str) -> None:
        """Evict a gang and create it again, as the cluster itself would."""
        ...

    async def fill(self, queue: str, gpus: int, duration_s: float) -> None:
        """Let others queue a job."""
        ...

    async def counted(self, gpus: int) -> None:
        """Let the cluster count what its queue ``ours`` holds; nothing where it counts at once."""
        ...

    async def hold(self, is_held: bool) -> None:
        """Stop the queue from admitting, or let it go on."""
        ...

    async def turn_away(self) -> None:
        """Let the broker that looked be gone, with all that it had seen."""
        ...

    async def look_anew(self) -> None:
        """Let another one come, once what was done meanwhile is over in the cluster."""
        ...

    async def silence(self, duration_s: float) -> None:
        """Let the cluster's control plane not answer."""
        ...

    async def book_nothing(self) -> None:
        """Let the cloud answer no request for flex capacity."""
        ...

    async def fail_booking(self, placement: str) -> None:
        """Let the cloud refuse a placement the flex capacity that it asked for."""
        ...

    async def revoke_booking(self, placement: str) -> None:
        """Let the cloud take back the flex capacity that it gave a placement."""
        ...

    async def kill_control_plane(self) -> None:
        """Kill the control plane's process at once."""
        ...

    async def start_control_plane(self) -> None:
        """Start it again, with the state it left."""
        ...


@dataclass(slots=True)
class Stagehand:
    """Does what the tests of the contract do again and again, in words.

    ``patience_s`` is how long it looks for what should come within a moment of its kind of cluster.
    """

    world: World
    patience_s: float = PATIENCE_S

    async def apply(self, *actions: Action) -> tuple[Outcome, ...]:
        return await self.world.cluster.apply(actions)

    async def done(self, *actions: Action) -> None:
        outcomes = await self.apply(*actions)
        assert all(outcome.is_done for outcome in outcomes), outcomes

    async def see(self) -> ClusterObservation:
        return await self.world.cluster.observe()

    async def until(self, find: Callable[[ClusterObservation], T | None]) -> T:
        """Look until something is found, and return it."""
        give_up_s = time.monotonic() + self.patience_s
        while True:
            seen = await self.see()
            found = find(seen)
            if found:
                return found
            assert time.monotonic() < give_up_s, (seen.placements, seen.epochs, seen.blind)
            await asyncio.sleep(0.05)

    async def placed(self, placement: str, is_so: Callable[[PlacementSeen], bool]) -> PlacementSeen:
        def find(seen: ClusterObservation) -> PlacementSeen | None:
            found = seen.placements.get(placement)
            return found if found is not None and is_so(found) else None

        return await self.until(find)

    async def ended(self, placement: str) -> PlacementSeen:
        return await self.placed(placement, lambda seen: seen.stage is Stage.ENDED)

    async def whole(self, placement: str) -> PlacementSeen:
        return await self.placed(placement, lambda seen: seen.is_whole_at_gate)

    async def epoch(self, key: EpochKey, is_so: Callable[[EpochSeen], bool]) -> EpochSeen:
        def find(seen: ClusterObservation) -> EpochSeen | None:
            found = seen.epochs.get(key)
            return found if found is not None and is_so(found) else None

        return await self.until(find)

    async def running(self, key: EpochKey) -> EpochSeen:
        """Wait until every rank of an epoch reports that it runs."""
        return await self.epoch(
            key,
            lambda seen: (
                seen.owner is OwnerState.STARTED
                and len([report for report in seen.reports if report.is_running])
                == len(seen.nonces)
            ),
        )

    async def start(self, queue: Queue) -> EpochKey:
        """Queue a placement with an early grant, and wait until all of it trains."""
        grant = make_grant(queue)
        await self.done(queue, grant)
        await self.running(grant.epoch)
        return grant.epoch

    async def close_by_force(self, queue: Queue, key: EpochKey) -> PlacementSeen:
        """Fence, and withdraw as closed: how a test leaves nothing behind."""
        await self.apply(Fence(epoch=key, reason="over"))
        await self.apply(make_withdraw(queue, epoch=key, is_closed=True))
        return await self.ended(queue.placement)

    def lines(self) -> list[dict[str, str]]:
        """What the processes of gangs wrote down of themselves."""
        if not self.world.trace.exists():
            return []
        return [json.loads(line) for line in self.world.trace.read_text().splitlines()]


def script(world: World, then: str) -> tuple[str, ...]:
    """A training command: writes down where it is, then does as told, in shell."""
    names = "RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT BROKER_RUN BROKER_EPOCH"
    pairs = ",".join(f'\\"{name}\\":\\"${name}\\"' for name in names.split())
    return ("/bin/sh", "-c", f'echo "{{{pairs}}}" >> {world.trace}; {then}')


SAVE_WHEN_ASKED = """
trap '' TERM
while [ ! -e "$BROKER_DIR/drain.json" ]; do sleep 0.05; done
echo '{"step": 7}' > "$BROKER_DIR/.new"; mv "$BROKER_DIR/.new" "$BROKER_DIR/drained.json"
exit 0
"""
"""Trains until it is asked to save; says so and goes."""


def make_queue(command: tuple[str, ...], **changes: object) -> Queue:
    """A placement of two ranks."""
    ranks = changes.pop("ranks", 2)
    assert isinstance(ranks, int)
    queue = Queue(
        placement="p1",
        run_key="run1",
        run_name="teams/vision/runs/one",
        queue="ours",
        flavor="h100",
        gang=Gang(ranks=ranks, accelerator="H100", accelerators_per_node=1),
        command=command,
        env={},
        image="",
        bundle_digest="",
        secrets=(),
        service_account="",
        priority=0,
        granted_priority=0,
        gate_timeout_s=120.0,
        stop_grace_s=1.0,
        labels={"team": "vision"},
    )
    return replace(queue, **changes)  # type: ignore[arg-type]


def make_grant(queue: Queue, number: int = 1, nonce: str = "0123456789ab") -> Grant:
    """The grant of a placement."""
    return Grant(
        placement=queue.placement,
        epoch=EpochKey(run_key=queue.run_key, number=number, nonce=nonce),
        incarnation=1,
        world_size=queue.gang.ranks,
        resume_path=None,
        bundle_digest="",
        seals=(),
    )


def make_withdraw(
    queue: Queue, *, uid: str = "", epoch: EpochKey | None = None, is_closed: bool = False
) -> Withdraw:
    """The withdrawal of a placement."""
    return Withdraw(
        placement=queue.placement,
        run_key=queue.run_key,
        uid=uid,
        epoch=epoch,
        is_closed=is_closed,
    )


def ranks_of(lines: Sequence[dict[str, str]]) -> list[str]:
    """The ranks that wrote something down, sorted."""
    return sorted(line["RANK"] for line in lines)
