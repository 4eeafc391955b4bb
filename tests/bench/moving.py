"""How long the broker itself takes to move a run, on embedded clusters with their defaults.

From the machines' end, without a notice, until the run stands in another queue; and from the moment
the last rank of a gang stands at its gate until the command runs, once with a grant that waited
there (a run with one leg), once with a grant that must be decided (a run with two legs).
Read ``measure`` first.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from broker.sdk import AsyncClient
from broker.sdk.intent import parse_intent
from broker.v1 import placement_pb2, run_pb2
from regions.cluster import Stage
from regions.local.faults import Partial, Preempt, Restore
from tests.bench.figure import Figure, Size, median
from tests.bench.household import TEAM, Household

T = TypeVar("T")
FLAVOR = "h100-spot"
FIRST, SECOND = "us-east4", "europe-west1"
WITHIN_S = 60.0
LOOK_S = 0.005
GANG = Path(__file__).with_name("gang.py")


async def measure(size: Size, brokerd: Household) -> list[Figure]:
    async with brokerd.client() as client:
        mover = Mover(brokerd, client)
        await mover.be_impatient()
        requeued, waited, decided = [], [], []
        for _ in range(size.moves):
            started_s, requeued_s = await mover.preempt()
            waited.append(started_s)
            requeued.append(requeued_s)
            decided.append(await mover.hedge())
    return [
        Figure(
            name="preempted, to queued elsewhere",
            value=median(requeued),
            aim="< 1",
            unit="s",
            anchor="from the machines' end without notice, one run",
        ),
        Figure(
            name="whole at the gate, to training: one leg",
            value=median(waited),
            aim="< 1",
            unit="s",
            anchor="until the command runs; its grant was there before it",
        ),
        Figure(
            name="whole at the gate, to training: two legs",
            value=median(decided),
            aim="< 1",
            unit="s",
            anchor="until the command runs; granted once it was whole",
        ),
    ]


class Mover:
    """Makes runs and moves them."""

    def __init__(self, brokerd: Household, client: AsyncClient) -> None:
        self._brokerd = brokerd
        self._client = client
        self._clusters = brokerd.clusters()
        self._diary = brokerd.data / "diary"
        self._diary.touch()

    async def be_impatient(self) -> None:
        """Let a gang that came in part be judged stuck soon: it is not what is measured."""
        policy = await self._client.regions.policy(FIRST)
        policy.patience.partial.FromSeconds(1)
        await self._client.regions.set_policy(FIRST, policy)

    async def preempt(self) -> tuple[float, float]:
        """Start a run and take its machines; return the seconds of its start and of its move."""
        run = await self._submit()
        placement, whole_s = await self._whole(run)
        began_s = await self._began(run, epoch=1)
        await self._until(lambda: self._has_saved(run))
        region = placement.place.region
        fault = Preempt(placement=_id(placement), notice_s=0.0)
        assert (await self._clusters[region].inject(fault)).is_done
        taken_s = time.monotonic()
        await self._until(lambda: self._is_queued_but(run, _id(placement)))
        requeued_s = time.monotonic() - taken_s
        await self._end(run)
        return began_s - whole_s, requeued_s

    async def hedge(self) -> float:
        """Let a run wait in two regions, and start in the second; return the seconds of that."""
        cluster = self._clusters[FIRST]
        assert (await cluster.inject(Partial(flavor=FLAVOR, nodes=1))).is_done
        run = await self._submit()
        _, whole_s = await self._whole(run)
        began_s = await self._began(run, epoch=1)
        await self._end(run)
        assert (await cluster.inject(Restore(flavor=FLAVOR))).is_done
        return began_s - whole_s

    async def _submit(self) -> run_pb2.Run:
        text = (
            f"workload:\n  command: {sys.executable} {GANG} {self._diary} 60\n  hardware:\n"
            "    - accelerator: H100\n      accelerators_per_node: 1\n      nodes: 2\n"
            f"terms:\n  capacity_types: [spot]\n  regions: [{FIRST}, {SECOND}]\n"
        )
        intent = parse_intent(text.encode(), "intent.yaml", {}).message
        return await self._client.runs.submit(TEAM, intent)

    async def _whole(self, run: run_pb2.Run) -> tuple[placement_pb2.Placement, float]:
        """Return the first placement with both ranks at its gate, and when the last came."""

        async def find() -> tuple[placement_pb2.Placement, float] | None:
            stores = [self._brokerd.store(region) for region in (FIRST, SECOND)]
            for store in stores:
                for gate in store.glob(f"runs/{run.uid}/placements/*/gate"):
                    if sum(1 for one in gate.iterdir() if not one.name.endswith(".end")) >= 2:
                        at_s = time.monotonic()
                        return await self._placement(run, gate.parent.name), at_s
            return None

        return await self._until(find)

    async def _placement(self, run: run_pb2.Run, found: str) -> placement_pb2.Placement:
        now = await self._client.runs.get(run.name)
        return next(one for one in now.placements if _id(one) == found)

    async def _began(self, run: run_pb2.Run, epoch: int) -> float:
        """Return when the last rank's command began."""

        async def find() -> float | None:
            said = (line.split() for line in self._diary.read_text().splitlines())
            began = [
                float(at) for name, number, at in said if (name, number) == (run.name, f"{epoch}")
            ]
            return max(began) if len(began) == 2 else None

        return await self._until(find)

    async def _has_saved(self, run: run_pb2.Run) -> bool:
        return bool(await self._client.runs.checkpoints(run.name))

    async def _is_queued_but(self, run: run_pb2.Run, placement: str) -> bool:
        """Whether a cluster shows another placement of the run, in its queue or further."""
        for cluster in self._clusters.values():
            for seen in (await cluster.observe()).placements.values():
                is_other = seen.run_key == run.uid and seen.placement != placement
                if is_other and seen.stage is not Stage.ENDED:
                    return True
        return False

    async def _end(self, run: run_pb2.Run) -> None:
        await self._client.runs.cancel(run.name, grace_s=0.0)

        async def is_over() -> bool:
            seen = [await cluster.observe() for cluster in self._clusters.values()]
            return all(p.stage is Stage.ENDED for one in seen for p in one.placements.values())

        await self._until(is_over)

    async def _until(self, look: Callable[[], Awaitable[T | None]]) -> T:
        async with asyncio.timeout(WITHIN_S):
            while not (found := await look()):  # noqa: ASYNC110 - other processes do it
                await asyncio.sleep(LOOK_S)
            return found


def _id(placement: placement_pb2.Placement) -> str:
    name: str = placement.name
    return name.rpartition("/")[2]
