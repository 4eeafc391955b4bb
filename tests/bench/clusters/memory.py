"""What one more watched cluster takes of brokerd's memory, when it has many workloads.

The rule: they are objects as others have them, with what Kueue writes into their status; the
region's Kueue is stopped, for it would end what has no job. Read ``measure``.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.bench.clusters.counting import resident_bytes
from tests.bench.clusters.ground import NEAR, QUEUE, SEEING, ZONES, Ground
from tests.bench.figure import Figure, median
from tests.cluster.rig import fleet
from tests.cluster.rig.brokerd import Brokerd
from tests.cluster.rig.machines.pools import GPU
from tests.cluster.rig.manifests import namespace
from tests.cluster.rig.region import Region
from tests.cluster.rig.waiting import wait_until

OTHERS = "others"
AT_ONCE = 8
WITHIN_S, LOOK_EVERY_S = 180.0, 2.0
QUIET_LOOKS, QUIET_BYTES = 8, 1 << 20
SINCE = "2026-01-01T00:00:00Z"
MIB = 2**20


def measure(ground: Ground) -> list[Figure]:
    """Compare two fresh brokerds: one that watches two regions, and one the third one, too."""
    region, count = ground.regions[NEAR], ground.size.workloads
    ground.leave()
    ground.say(f"making {count} workloads in {region.name}")
    fill(region, count)
    ground.say("waiting for two brokerds that grow no more, one after the other")
    others = [name for name in ZONES if name != NEAR]
    without = settled(ground.brokerd("without", SEEING, others), 0)
    watched = settled(ground.brokerd("with", SEEING, [*others, NEAR]), pending_of(count))
    return [
        Figure(
            name=f"memory of a watched cluster with {count} workloads",
            value=median([(watched - without) / MIB]),
            aim="< 60",
            unit="MiB",
            anchor=f"resident, of two fresh processes: {watched / MIB:.0f} MiB with it,"
            f" {without / MIB:.0f} MiB without",
        )
    ]


def fill(region: Region, count: int) -> None:
    """Have others' workloads stand in a region's queue, as many as are waited for."""
    region.mute_kueue()
    region.api.apply(namespace(OTHERS), fleet.local_queue(QUEUE, OTHERS, QUEUE))

    def make(number: int) -> None:
        made = workload(number)
        region.api.create(made)
        body = {"status": status(number)}
        name = made["metadata"]["name"]
        region.api.patch(fleet.KUEUE, "Workload", name, body, OTHERS, part="status")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(make, range(count)))


def settled(brokerd: Brokerd, pending: int) -> int:
    """Return the bytes that a brokerd holds once it sees so many waiting, and grows no more."""
    wait_until(lambda: waiting(brokerd) == pending, WITHIN_S, f"{pending} workloads that wait")
    sizes: list[int] = []

    def is_quiet() -> bool:
        sizes.append(resident_bytes(brokerd.pid))
        last = sizes[-QUIET_LOOKS:]
        return len(last) == QUIET_LOOKS and max(last) - min(last) < QUIET_BYTES

    wait_until(is_quiet, WITHIN_S, "a brokerd that grows no more", every_s=LOOK_EVERY_S)
    return sizes[-1]


def waiting(brokerd: Brokerd) -> int:
    """Return how many gangs wait in NEAR's queue, as brokerd tells it."""
    with brokerd.client() as client:
        return sum(
            flavor.pending
            for region in client.regions.find().regions
            for cluster in region.clusters
            for flavor in cluster.flavors
        )


def pending_of(count: int) -> int:
    """Return how many of so many workloads wait: every other one."""
    return (count + 1) // 2


def workload(number: int) -> fleet.Object:
    """Return a workload of a gang of four machines, with what a training job's template has."""
    container: dict[str, Any] = {
        "name": "trainer",
        "image": "registry.example.org/research/trainer@sha256:" + "0" * 64,
        "command": ["python", "-m", "train", "--config", f"/config/run-{number}.yaml"],
        "env": [{"name": f"SETTING_{one}", "value": f"value-{one}"} for one in range(20)],
        "resources": {"limits": {GPU: "8"}, "requests": {GPU: "8", "cpu": "96"}},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    spec = {
        "restartPolicy": "Never",
        "containers": [container],
        "nodeSelector": {fleet.PROVISIONING: "spot"},
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
    }
    pods = {"name": "workers", "count": 4, "template": {"spec": spec}}
    made = fleet.named(
        fleet.KUEUE,
        "Workload",
        f"jobset-run-{number}",
        {"queueName": QUEUE, "podSets": [pods]},
        namespace=OTHERS,
    )
    made["metadata"]["labels"] = {"kueue.x-k8s.io/job-uid": f"00000000-0000-0000-0000-{number:012}"}
    return made


def status(number: int) -> fleet.Object:
    """Return what Kueue says of it: of four two wait, one runs, one is over."""
    if number % 2 == 0:
        words = "couldn't assign flavors to pod set workers: insufficient unused quota"
        return {"conditions": [condition("QuotaReserved", "Pending", words, "False")]}
    held = [
        condition("QuotaReserved", "QuotaReserved", f"Quota reserved in ClusterQueue {QUEUE}"),
        condition("Admitted", "Admitted", "The workload is admitted"),
    ]
    if number % 4 == 3:
        return {"conditions": [*held, condition("Finished", "Succeeded", "It is over")]}
    taken = {
        "name": "workers",
        "count": 4,
        "flavors": {GPU: "spot"},
        "resourceUsage": {GPU: "32"},
    }
    return {
        "conditions": held,
        "admission": {"clusterQueue": QUEUE, "podSetAssignments": [taken]},
    }


def condition(kind: str, reason: str, message: str, state: str = "True") -> fleet.Object:
    return {
        "type": kind,
        "status": state,
        "reason": reason,
        "message": message,
        "lastTransitionTime": SINCE,
    }
