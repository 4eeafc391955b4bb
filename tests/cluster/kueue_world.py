"""A region of the rig as a world of the port's contract: real Kueue, real JobSet, real gangs.

The rule: what the embedded cluster is told by a fault is here done to the thing itself: nodes are
taken from the cloud, queues are stopped, the API server is killed. Read ``KueueWorld``.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

from regions.cluster import ClusterUnreachableError
from regions.kueue import names
from regions.kueue.access import Api, Deadlines
from regions.kueue.clock import SystemClock
from regions.kueue.cluster import KueueCluster
from regions.kueue.credentials import Kubeconfig
from regions.kueue.flavors import FlavorSettings
from regions.kueue.members import OUT_OF_SERVICE
from regions.kueue.profile_rules import read_profiles
from regions.kueue.queue_view import QueueSettings
from regions.kueue.sites import KueueSettings
from regions.launcher.store import DirectoryStore
from tests.cluster import leaving
from tests.cluster.conftest import NUMBERS
from tests.cluster.ground import MOUNT, QUICK, ZONE, pool_of
from tests.cluster.pinned import PinnedCluster
from tests.cluster.rig import fleet
from tests.cluster.rig.api import ApiError
from tests.cluster.rig.door import Fault
from tests.cluster.rig.machines.pools import GPU
from tests.cluster.rig.manifests import namespace
from tests.cluster.rig.region import Region
from tests.cluster.rig.waiting import wait_until
from tests.cluster.views import bare_workload
from tests.contract.cluster.world import Knows, Shape

FLAVOR = "h100"
WINDOW_S = 8.0
"""From the word to go until a process is killed. The real one is twice as long, for every case."""
JOBSET = "jobset.x-k8s.io/v1alpha2"
REQUESTS = "autoscaling.x-k8s.io/v1"
PRIORITIES = {"contract-0": 0, "contract-5": 5}


class KueueWorld:
    """One region, with a namespace, two queues and a pool of its own."""

    knows = Knows(most_nodes=False, ordered_nodes=False)

    def __init__(self, region: Region, root: Path, shape: Shape) -> None:
        self.region = region
        self.store = root / "store"
        self.trace = root / "trace"
        self.name = f"contract-{next(NUMBERS)}"
        self.flavor = FLAVOR
        self._shape = shape
        self._looking: asyncio.Task[None] | None = None
        self._running: list[asyncio.Task[None]] = []
        self._fills: list[str] = []
        self._was_killed = False
        self._is_flex = shape.capacity_type == "FLEX"
        DirectoryStore.create(str(self.store))

    async def start(self) -> None:
        """Set up what a platform team would, and follow it."""
        await asyncio.to_thread(self._set_up)
        await self._look()

    def connect(self) -> KueueCluster:
        """The port, as a broker that starts anew would hold it."""
        shape = self._shape
        api = Api(
            Kubeconfig(path=str(self.region.kubeconfig())), SystemClock(), Deadlines(call_s=3.0)
        )
        profile = {
            "store": MOUNT,
            "preemption_window_s": WINDOW_S,
            "volumes": [{"name": "store", "mount_path": MOUNT, "host_path": str(self.store)}],
        }
        known = FlavorSettings(
            capacity_type=shape.capacity_type,
            accelerator="H100",
            accelerators_per_node=1,
            zones=(ZONE,),
            max_nodes=shape.max_nodes,
            startup_s=shape.startup_s,
            preemption_notice_s=shape.preemption_notice_s,
        )
        settings = KueueSettings(
            cluster="west",
            region="eu-west4",
            queues=QueueSettings(
                namespace=self.name,
                queues=frozenset({"ours"}),
                flavors={FLAVOR: known},
                prices={FLAVOR: Decimal("2.50")},
            ),
            priority_classes=frozenset(PRIORITIES),
            profiles=read_profiles({"default": profile}, allows_host_paths=True),
            pace=QUICK,
            gate_fresh_s=4.0,
        )
        return KueueCluster(
            api,
            DirectoryStore(str(self.store)),
            settings,
            clock=SystemClock(),
            chance=random.Random(1),
            store_s=10.0,
        )

    # ---- what happens to it ----

    async def stockout(self) -> None:
        await self._pool(answer="stockout")

    async def partial(self, nodes: int) -> None:
        await self._pool(supply=nodes)

    async def restore(self) -> None:
        await asyncio.to_thread(self.region.mend)
        await self._pool(answer="nodes", supply=None, flex="provision")
        await self._answers()

    async def preempt(self, placement: str, notice_s: float) -> None:
        for pod in await self._pods(placement):
            node = pod["spec"]["nodeName"]
            if notice_s:
                await asyncio.to_thread(self.region.preempt_node, node, notice_s)
            else:
                await asyncio.to_thread(self.region.remove_node, node)

    async def lose_node(self, placement: str, rank: int) -> None:
        for pod in await self._pods(placement):
            if pod["metadata"]["annotations"][names.RANK_ANNOTATION] == str(rank):
                await asyncio.to_thread(self._lose, pod["spec"]["nodeName"])

    async def recreate(self, placement: str) -> None:
        pods = await self._pods(placement)
        await asyncio.to_thread(self._take_away, placement, pods)

    async def fill(self, queue: str, gpus: int, duration_s: float) -> None:
        name = f"fill-{len(self._fills)}"
        body = bare_workload(name, self.name, queue, gpus)
        labels = {"nodeSelector": {"cloud.google.com/gke-nodepool": self.name}}
        body["spec"]["podSets"][0]["template"]["spec"] |= labels
        body["spec"]["podSets"][0]["template"]["spec"]["tolerations"] = [
            {"operator": "Exists"},
        ]
        await asyncio.to_thread(self.region.api.create, body)
        self._fills.append(name)
        await asyncio.sleep(1.0)  # that Kueue has looked at it is what the test is about
        self._running.append(asyncio.create_task(self._empty(name, duration_s)))

    async def _empty(self, name: str, after_s: float) -> None:
        await asyncio.sleep(after_s)
        await asyncio.to_thread(self.region.api.delete, fleet.KUEUE, "Workload", name, self.name)

    async def counted(self, gpus: int) -> None:
        def is_so() -> bool:
            found = self.region.api.find(fleet.KUEUE, "ClusterQueue", f"{self.name}-ours") or {}
            told = found.get("status", {}).get("flavorsReservation", [])
            return [int(one["total"]) for each in told for one in each["resources"]] == [gpus]

        await asyncio.to_thread(wait_until, is_so, 30, f"that {gpus} GPUs are counted")
        await asyncio.sleep(0.3)

    async def hold(self, is_held: bool) -> None:
        body = self._cluster_queue("ours", stop="Hold" if is_held else "None")
        await asyncio.to_thread(self.region.api.apply, body)

        def is_so() -> bool:
            return self._is_active("ours") is not is_held

        await asyncio.to_thread(wait_until, is_so, 30, "the queue's hold")
        await asyncio.sleep(0.5)

    async def book_nothing(self) -> None:
        await self._pool(flex="silent")

    async def fail_booking(self, placement: str) -> None:
        await self._pool(flex="fail", flex_message="")

    async def revoke_booking(self, placement: str) -> None:
        asked = names.jobset_name(placement)
        for request in await asyncio.to_thread(self._requests):
            if asked in request:
                await asyncio.to_thread(self.region.revoke_capacity, self.name, request)

    async def turn_away(self) -> None:
        if self._looking is not None:
            await over(self._looking)

    async def look_anew(self) -> None:
        await asyncio.to_thread(self.region.forget_pods_of_dead_nodes, self.name)

        def is_over() -> bool:
            pods = self.region.api.all("v1", "Pod", self.name)
            return not any(pod["spec"].get("nodeName") for pod in pods)

        await asyncio.to_thread(wait_until, is_over, 60, "the end of pods without a machine")
        await self._look()

    async def silence(self, duration_s: float) -> None:
        await asyncio.to_thread(self.region.cut_off, Fault.SILENT)
        await self._silent()

    async def kill_control_plane(self) -> None:
        self._was_killed = True
        await asyncio.to_thread(self.region.kill_api_server)
        await self._silent()

    async def start_control_plane(self) -> None:
        await asyncio.to_thread(self.region.start_api_server)
        await self._answers()

    async def end(self) -> None:
        """Leave nothing behind, whatever the test has done."""
        await self.turn_away()
        for task in self._running:
            await over(task)
        await asyncio.to_thread(self._leave)

    # ---- how it is done ----

    async def _look(self) -> None:
        self.port = self.connect()
        self.cluster = PinnedCluster(self.port, self._shape.capacity_type, self._settle)
        self._looking = asyncio.create_task(self.port.run())
        await self._answers()

    async def _settle(self, placement: str) -> None:
        """Wait until Kueue has looked at a gang for the first time, and that can be seen."""
        owner = names.jobset_name(placement)

        def is_looked_at() -> bool:
            for found in self.region.api.all(fleet.KUEUE, "Workload", self.name):
                owners = found["metadata"].get("ownerReferences", [])
                if any(one["name"] == owner for one in owners):
                    held = found.get("status", {}).get("conditions", [])
                    return any(one["type"] == "QuotaReserved" for one in held)
            return False

        # Behind the first of a strict queue nobody is looked at.
        with contextlib.suppress(TimeoutError):
            await asyncio.to_thread(wait_until, is_looked_at, 5, f"a look at {placement}")
        await asyncio.sleep(0.3)

    async def _silent(self) -> None:
        with contextlib.suppress(ClusterUnreachableError):
            await self.port.ping()
            raise AssertionError("it answers")

    async def _answers(self) -> None:
        for _ in range(600):
            try:
                seen = await self.port.observe()
                if seen.is_whole and any(queue.flavors for queue in seen.queues):
                    return
            except ClusterUnreachableError:
                pass
            await asyncio.sleep(0.1)
        raise AssertionError("the cluster does not answer")

    def _lose(self, node: str) -> None:
        """Lose a node, and vouch for it as operators do: without that its pods are kept for it."""
        self.region.lose_node(node)
        wait_until(lambda: node not in self.region.ready_nodes(), 60, f"that {node} is missed")
        found = self.region.api.find("v1", "Node", node) or {}
        taint = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}
        body = {"spec": {"taints": [*found.get("spec", {}).get("taints", []), taint]}}
        self.region.api.patch("v1", "Node", node, body)

    def _take_away(self, placement: str, pods: list[dict[str, Any]]) -> None:
        """Remove a gang's Job, which JobSet makes again, and its processes without a word."""
        api = self.region.api
        api.delete("batch/v1", "Job", f"{names.jobset_name(placement)}-{names.GANG}-0", self.name)
        for pod in pods:
            path = api.path("v1", "Pod", self.name, pod["metadata"]["name"])
            with contextlib.suppress(ApiError):
                api.call("DELETE", path, {"gracePeriodSeconds": 0})

    async def _pods(self, placement: str) -> list[dict[str, Any]]:
        selector = f"{names.PLACEMENT}={names.label_value(placement)}"

        def ask() -> list[dict[str, Any]]:
            return self.region.api.all("v1", "Pod", self.name, labelSelector=selector)

        found = await asyncio.to_thread(ask)
        return [pod for pod in found if pod["spec"].get("nodeName")]

    def _requests(self) -> list[str]:
        found = self.region.api.all(REQUESTS, "ProvisioningRequest", self.name)
        return [request["metadata"]["name"] for request in found]

    async def _pool(self, **fields: Any) -> None:
        await asyncio.to_thread(lambda: self.region.change_pool(self.name, **fields))

    def _set_up(self) -> None:
        shape = self._shape
        self.region.set_pool(
            pool_of(
                self.name,
                max_nodes=shape.max_nodes,
                delay_s=shape.flex_wait_s if self._is_flex else shape.startup_s,
                backoff_s=1.0,
                is_autoscaled=True,
                idle_s=20.0,
                is_queued=self._is_flex,
                flex_message=f"waiting for resources; expected in {shape.flex_wait_s:.0f} s",
            )
        )
        spec = {"nodeLabels": {"cloud.google.com/gke-nodepool": self.name}}
        self.region.api.apply(
            namespace(self.name),
            fleet.named(fleet.KUEUE, "ResourceFlavor", FLAVOR, spec),
            *({**priority_of(name), "value": value} for name, value in PRIORITIES.items()),
            self._cluster_queue("ours"),
            self._cluster_queue("theirs"),
            fleet.local_queue("ours", self.name, f"{self.name}-ours"),
            fleet.local_queue("theirs", self.name, f"{self.name}-theirs"),
        )
        wait_until(lambda: self._is_active("ours"), 30, "the queue")

    def _cluster_queue(self, queue: str, stop: str = "None") -> dict[str, Any]:
        shape = self._shape
        nominal = shape.nominal if queue == "ours" else shape.lent
        quota: dict[str, Any] = {"name": GPU, "nominalQuota": str(nominal)}
        if queue == "ours":
            quota["borrowingLimit"] = str(shape.borrowing_limit)
        flavors = [{"name": FLAVOR, "resources": [quota]}]
        spec = {
            "namespaceSelector": {},
            "cohortName": self.name,
            "queueingStrategy": "StrictFIFO" if shape.is_strict else "BestEffortFIFO",
            "resourceGroups": [{"coveredResources": [GPU], "flavors": flavors}],
            "preemption": {"withinClusterQueue": "Never", "reclaimWithinCohort": "Any"},
            "stopPolicy": stop,
        }
        if self._is_flex:
            check = {"name": fleet.FLEX_CHECK, "onFlavors": [FLAVOR]}
            spec["admissionChecksStrategy"] = {"admissionChecks": [check]}
        return fleet.named(fleet.KUEUE, "ClusterQueue", f"{self.name}-{queue}", spec)

    def _is_active(self, queue: str) -> bool:
        found = self.region.api.find(fleet.KUEUE, "LocalQueue", queue, self.name) or {}
        held = found.get("status", {}).get("conditions", [])
        return any(c["type"] == "Active" and c["status"] == "True" for c in held)

    def _leave(self) -> None:
        region, api = self.region, self.region.api
        region.mend()
        if self._was_killed:
            # Its clients wait the longer the longer the server was away.
            region.kueue_down()
            region.kueue_up()
        leaving.leave(region, self.name)
        for queue in ("ours", "theirs"):
            api.delete(fleet.KUEUE, "ClusterQueue", f"{self.name}-{queue}")
        api.delete(fleet.KUEUE, "ResourceFlavor", FLAVOR)
        wait_until(
            lambda: not api.find(fleet.KUEUE, "ResourceFlavor", FLAVOR), 60, "the flavor's end"
        )


async def over(task: asyncio.Task[None]) -> None:
    """End a task, whatever it was about."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task


def priority_of(name: str) -> dict[str, Any]:
    """A WorkloadPriorityClass without its value."""
    return {
        "apiVersion": fleet.KUEUE,
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": name},
    }
