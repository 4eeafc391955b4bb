"""A corner of a region in which something goes wrong, and the port that looks at it.

The rule: each corner has a queue, a flavor, checks and machines of its own, under its own name, so
that what a test breaks is broken for nobody else; what is done to it is done by the tests' own
client, behind the port's back; and hours pass by handing the port other clocks. Read ``Corner``.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from regions.cluster import ClusterUnreachableError, Queue
from regions.kueue import names
from regions.kueue.access import Api, Deadlines
from regions.kueue.clock import SystemClock
from regions.kueue.cluster import KueueCluster
from regions.kueue.credentials import Kubeconfig
from regions.kueue.flavors import FlavorSettings
from regions.kueue.profile_rules import read_profiles
from regions.kueue.queue_view import QueueSettings
from regions.kueue.scene import JOB_UID
from regions.kueue.sites import KueueSettings
from regions.launcher.store import DirectoryStore
from tests.cluster.conftest import NUMBERS
from tests.cluster.ground import MOUNT, QUICK, ZONE, pool_of
from tests.cluster.rig import fleet
from tests.cluster.rig.api import APPLY
from tests.cluster.rig.machines.pools import GPU, POOL
from tests.cluster.rig.manifests import namespace
from tests.cluster.rig.region import Region
from tests.cluster.rig.waiting import wait_until
from tests.contract.cluster.world import World, make_queue, script

Object = dict[str, Any]
IMAGE = "registry.invalid/trainer@sha256:" + "0" * 64
JOBSET = "jobset.x-k8s.io/v1alpha2"
REQUESTS = "autoscaling.x-k8s.io/v1"
UNTIL_ASKED = 'while [ ! -e "$BROKER_DIR/drain.json" ]; do sleep 0.1; done; exit {code}'
"""Trains until it is asked to save, and then has nothing more to do."""
LOWEST, OURS = fleet.PRIORITIES["waiting"], fleet.PRIORITIES["normal"]
IDLE_S = 3.0
"""How long a machine of a corner stands empty before its cloud takes it back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What is special about a corner.

    ``nominal`` is its quota in GPUs, one of which each of its machines has. ``checks`` are those
    of others, whom a test answers for. ``pool`` are fields of the rig's ``Pool``. ``levels`` are
    those of its Topology above the host, none without one, and ``level`` is what its profile names.
    """

    nominal: int = 4
    capacity_type: str = "SPOT"
    checks: tuple[str, ...] = ()
    pool: Mapping[str, Any] = field(default_factory=dict)
    levels: tuple[str, ...] = ()
    level: str = ""


class Later(SystemClock):
    """The machine's clocks, and what has passed on them in a test's mind alone: on that of the
    wall, by which a cluster's own times are judged, and on that by which it is heard of."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self.unheard_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.unheard_s

    def wall_s(self) -> float:
        return time.time() + self.ahead_s


class Corner:
    """One corner. ``cluster`` is the port, which goes by ``clock``."""

    def __init__(self, region: Region, root: Path, terms: Terms) -> None:
        self.region = region
        self.terms = terms
        self.name = f"fault-{next(NUMBERS)}"
        self.store = root / self.name / "store"
        self.trace = root / self.name / "trace"
        self.clock = Later()
        self._following: asyncio.Task[None] | None = None
        DirectoryStore.create(str(self.store))

    async def start(self) -> None:
        """Set up what a platform team would, and follow it."""
        await asyncio.to_thread(self._set_up)
        self.cluster = self.connect()
        self._following = asyncio.create_task(self.cluster.run())
        await self.seen()

    async def seen(self) -> None:
        """Wait until the port sees all that there is to see."""
        for _ in range(600):
            with contextlib.suppress(ClusterUnreachableError):
                if not (await self.cluster.observe()).blind:
                    return
            await asyncio.sleep(0.1)
        raise AssertionError("the cluster is not seen")

    def connect(self) -> KueueCluster:
        """Return the port, as a broker that starts would hold it; its ``run`` is the caller's."""
        kubeconfig = Kubeconfig(path=str(self.region.kubeconfig()))
        mount = {"name": "store", "mount_path": MOUNT, "host_path": str(self.store)}
        laid = {"store": MOUNT, "volumes": [mount], "topology_level": self.terms.level}
        profiles = read_profiles({"default": laid}, allows_host_paths=True)
        known = FlavorSettings(
            capacity_type=self.terms.capacity_type,
            accelerator="H100",
            accelerators_per_node=1,
            zones=(ZONE,),
        )
        settings = KueueSettings(
            cluster="west",
            region="eu-west4",
            queues=QueueSettings(
                namespace=self.name, queues=frozenset({"ours"}), flavors={self.name: known}
            ),
            priority_classes=frozenset(fleet.PRIORITIES),
            profiles=profiles,
            pace=QUICK,
            gate_fresh_s=4.0,
        )
        return KueueCluster(
            Api(kubeconfig, self.clock, Deadlines(call_s=3.0)),
            DirectoryStore(str(self.store)),
            settings,
            clock=self.clock,
            chance=random.Random(1),
            store_s=10.0,
            wall_s=self.clock.wall_s,
        )

    async def end(self) -> None:
        """Leave nothing behind, whatever the test has done."""
        if self._following is not None:
            self._following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._following
        await asyncio.to_thread(self._leave)

    def order(self, then: str = UNTIL_ASKED.format(code=0), **changes: Any) -> Queue:
        """Return the order for a gang of two ranks, which waits with the lowest priority."""
        wanted: dict[str, Any] = {
            "flavor": self.name,
            "image": IMAGE,
            "capacity_type": self.terms.capacity_type,
            "priority": LOWEST,
            "granted_priority": OURS,
        }
        return make_queue(script(cast(World, self), then), **(wanted | changes))

    # ---- what is seen of it behind the port's back ----

    def gang(self, placement: str = "p1") -> Object | None:
        """Return a placement's JobSet, None when there is none."""
        return self.region.api.find(JOBSET, "JobSet", names.jobset_name(placement), self.name)

    def workload(self, owner: str = "") -> Object | None:
        """Return the Workload of a JobSet (of placement p1 when none is named), None: no such."""
        wanted = owner or names.jobset_name("p1")
        for found in self.region.api.all(fleet.KUEUE, "Workload", self.name):
            if any(one["name"] == wanted for one in found["metadata"].get("ownerReferences", [])):
                return found
        return None

    def conditions(self, owner: str = "") -> dict[str, str]:
        """Return the reasons of a Workload's conditions that hold."""
        return {name: one["reason"] for name, one in holding(self.workload(owner)).items()}

    def pods(self) -> list[Object]:
        """Return all pods of the corner."""
        return self.region.api.all("v1", "Pod", self.name)

    def nodes(self) -> list[str]:
        """Return the names of its machines."""
        label = f"{POOL}={self.name}"
        found = self.region.api.all("v1", "Node", labelSelector=label)
        return [node["metadata"]["name"] for node in found]

    def requests(self) -> list[Object]:
        """Return its requests for flex capacity."""
        return self.region.api.all(REQUESTS, "ProvisioningRequest", self.name)

    def reserved(self) -> int | None:
        """Return how many GPUs Kueue counts as held, None while it has counted nothing."""
        found = self.region.api.find(fleet.KUEUE, "ClusterQueue", self.name) or {}
        told = found.get("status", {}).get("flavorsReservation", [])
        totals = [int(one["total"]) for each in told for one in each["resources"]]
        return sum(totals) if totals else None

    async def until(self, is_so: Callable[[], object], what: str, within_s: float = 60.0) -> None:
        """Wait until something is so, while the port looks at nothing."""
        await asyncio.to_thread(wait_until, is_so, within_s, what)

    async def nothing_is_left(self) -> None:
        """Wait until nothing of any gang is held, by Kueue's own count and in its cluster."""

        def is_so() -> bool:
            api = self.region.api
            is_gone = not self.pods() and not api.all(fleet.KUEUE, "Workload", self.name)
            return is_gone and not api.all(JOBSET, "JobSet", self.name) and self.reserved() == 0

        await self.until(is_so, "that nothing is held")
        await self.until(lambda: not self.nodes(), "the machines' end")

    # ---- what is done to it ----

    async def others(self, name: str, ranks: int, priority: str = "") -> None:
        """Have others run a gang in the same quota, and wait until it was let in."""
        labels = {"kueue.x-k8s.io/priority-class": priority} if priority else {}
        sleep = ["sleep", "600"]
        body = fleet.gang(name, self.name, "theirs", sleep, ranks=ranks, gpus=1, labels=labels)
        await asyncio.to_thread(self.region.api.create, body)
        await self.until(lambda: "Admitted" in self.conditions(name), f"that {name} is let in")

    async def write_over(self, *conditions: Object, **status: Any) -> None:
        """Give the Workload of placement p1 other conditions, with Kueue stopped."""
        found = self.workload() or {}
        kept = {one["type"]: one for one in found["status"].get("conditions", [])}
        kept |= {one["type"]: one for one in conditions}
        told = {"conditions": list(kept.values()), **status}
        name = found["metadata"]["name"]
        await asyncio.to_thread(self.write_status, "Workload", name, told)

    def check(self, name: str) -> str:
        """Return the full name of one of its checks."""
        return f"{self.name}-{name}"

    def answer(self, name: str, state: str, *, again_s: int = 0, workload: str = "") -> None:
        """Say a check's word on a Workload (that of p1 when none is named), as its controller."""
        found = self.workload() or {} if not workload else {"metadata": {"name": workload}}
        told: Object = {
            "name": self.check(name),
            "state": state,
            "lastTransitionTime": now(),
            "message": f"{name} says {state}",
        }
        if again_s:
            told["requeueAfterSeconds"] = again_s
        body: Object = {
            "apiVersion": fleet.KUEUE,
            "kind": "Workload",
            "metadata": {"name": found["metadata"]["name"], "namespace": self.name},
            "status": {"admissionChecks": [told]},
        }
        path = self.region.api.path(fleet.KUEUE, "Workload", self.name, body["metadata"]["name"])
        asked = {"fieldManager": "inspector", "force": "true"}
        self.region.api.call("PATCH", f"{path}/status", body, kind=APPLY, query=asked)

    def annotate(self, changes: Mapping[str, str | None]) -> None:
        """Change annotations of placement p1's JobSet, as somebody else in the cluster may."""
        name = names.jobset_name("p1")
        self.region.api.patch(
            JOBSET, "JobSet", name, {"metadata": {"annotations": changes}}, self.name
        )

    def make_workload(self) -> None:
        """Make the Workload that Kueue would make of placement p1, with Kueue stopped."""
        gang = self.gang() or {}
        meta, [job] = gang["metadata"], gang["spec"]["replicatedJobs"]
        template = job["template"]["spec"]["template"]
        count = job["template"]["spec"]["parallelism"]
        owner = {"apiVersion": JOBSET, "kind": "JobSet", "name": meta["name"], "uid": meta["uid"]}
        body = {
            "apiVersion": fleet.KUEUE,
            "kind": "Workload",
            "metadata": {
                "name": f"jobset-{meta['name']}",
                "namespace": self.name,
                "labels": {JOB_UID: meta["uid"]},
                "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            },
            "spec": {
                "queueName": "ours",
                "podSets": [{"name": job["name"], "count": count, "template": template}],
            },
        }
        self.region.api.create(body)

    def write_status(self, kind: str, name: str, status: Object) -> None:
        """Write what Kueue alone should write, with Kueue stopped: a state that it got into."""
        space = self.name if kind == "Workload" else ""
        self.region.api.patch(fleet.KUEUE, kind, name, {"status": status}, space, part="status")

    def apply_queue(self, **changes: Any) -> None:
        """Bring the ClusterQueue to its terms, with fields of its spec changed."""
        quota = {"name": GPU, "nominalQuota": str(self.terms.nominal)}
        spec: Object = {
            "namespaceSelector": {},
            "resourceGroups": [
                {
                    "coveredResources": [GPU],
                    "flavors": [{"name": self.name, "resources": [quota]}],
                }
            ],
            "preemption": {"withinClusterQueue": "LowerPriority"},
            "stopPolicy": "None",
        }
        checks = [{"name": self.check(name)} for name in self._checks()]
        if checks:
            spec["admissionChecksStrategy"] = {"admissionChecks": checks}
        self.region.api.apply(fleet.named(fleet.KUEUE, "ClusterQueue", self.name, spec | changes))

    async def change_pool(self, **fields: Any) -> None:
        """Change what its cloud does."""
        await asyncio.to_thread(lambda: self.region.change_pool(self.name, **fields))

    # ---- how it is made ----

    def _checks(self) -> tuple[str, ...]:
        return (*self.terms.checks, *(["flex"] if self.terms.capacity_type == "FLEX" else []))

    def _set_up(self) -> None:
        api, is_flex = self.region.api, self.terms.capacity_type == "FLEX"
        usual = {"is_autoscaled": not is_flex, "is_queued": is_flex}
        fields = {**usual, "backoff_s": 1.0, "idle_s": IDLE_S, **self.terms.pool}
        self.region.set_pool(pool_of(self.name, **fields))
        spec: Object = {"nodeLabels": self._here()}
        if self.terms.levels:
            api.apply(fleet.topology(self.name, self.terms.levels))
            spec |= {"topologyName": self.name}
        flavor = fleet.named(fleet.KUEUE, "ResourceFlavor", self.name, spec)
        api.apply(namespace(self.name), flavor)
        for name in self.terms.checks:
            spec = {"controllerName": f"checks.example.org/{name}"}
            api.apply(fleet.named(fleet.KUEUE, "AdmissionCheck", self.check(name), spec))
            self.write_status(
                "AdmissionCheck", self.check(name), {"conditions": [held("Active", "Active")]}
            )
        if is_flex:
            self._set_up_flex()
        self.apply_queue()
        for queue in ("ours", "theirs"):
            api.apply(fleet.local_queue(queue, self.name, self.name))
        wait_until(lambda: self.is_open("ours"), 30, "the queue")

    def _set_up_flex(self) -> None:
        config, check = fleet.flex_start(attempts=3, backoff_s=60)
        for body in (config, check):
            body["metadata"]["name"] = self.check("flex")
        check["spec"]["parameters"]["name"] = self.check("flex")
        self.region.api.apply(config, check)

    def is_open(self, queue: str) -> bool:
        """Whether a LocalQueue admits."""
        found = self.region.api.find(fleet.KUEUE, "LocalQueue", queue, self.name)
        return "Active" in holding(found)

    def _here(self) -> dict[str, str]:
        return {POOL: self.name}

    def _leave(self) -> None:
        region, api = self.region, self.region.api
        region.mend()
        # The namespace goes by itself, under its own name; what it held must be gone.
        api.delete("v1", "Namespace", self.name)
        region.forget_pods_of_dead_nodes(self.name)
        wait_until(lambda: not self.pods(), 90, "the processes' end")
        for node in self.nodes():
            region.remove_node(node)
        api.delete(fleet.KUEUE, "ClusterQueue", self.name)
        for name in self._checks():
            api.delete(fleet.KUEUE, "AdmissionCheck", self.check(name))
        api.delete(fleet.KUEUE, "ResourceFlavor", self.name)
        if self.terms.levels:
            api.delete(fleet.KUEUE, "Topology", self.name)


def held(kind: str, reason: str, message: str = "it is so", *, status: str = "True") -> Object:
    """Return a condition that holds, or does not, since now."""
    told = {"type": kind, "status": status, "reason": reason, "message": message}
    return {**told, "lastTransitionTime": now()}


def now() -> str:
    """Return the time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def holding(found: Object | None) -> dict[str, Object]:
    """Return an object's conditions that hold, by type."""
    told = (found or {}).get("status", {}).get("conditions", [])
    return {one["type"]: one for one in told if one["status"] == "True"}
