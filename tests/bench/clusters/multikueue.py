"""MultiKueue from the modules of the rig: a control plane of its own over the three workers.

The rule: it is set up as its own pages say, with what it takes when nothing is said: all workers
are asked at once, and the first that admits gets the JobSet. Read ``Manager``.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

from tests.cluster.rig import fleet
from tests.cluster.rig.manifests import SYSTEM, namespace
from tests.cluster.rig.region import Region
from tests.cluster.rig.waiting import wait_until

CONTROLLER = "kueue.x-k8s.io/multikueue"
CHECK, CONFIG = "multikueue", "workers"
READY_S = 120.0


class Manager:
    """The manager's control plane, once its queue admits. The workers have its queues already."""

    def __init__(
        self, region: Region, workers: Mapping[str, Region], queue: str, team: str, gpus: int
    ) -> None:
        self.region = region
        share = fleet.Share(capacity_type="SPOT", nominal=gpus)
        region.api.apply(
            namespace(team),
            *fleet.everything(),
            *(part for name, worker in workers.items() for part in joined(name, worker)),
            fleet.named(fleet.KUEUE, "MultiKueueConfig", CONFIG, {"clusters": list(workers)}),
            check(),
            fleet.cluster_queue(queue, (share,), checks={CHECK: ()}),
            fleet.local_queue(queue, team, queue),
        )
        for kind, name in (
            *(("MultiKueueCluster", name) for name in workers),
            ("AdmissionCheck", CHECK),
            ("ClusterQueue", queue),
        ):
            self._wait_active(kind, name)

    @property
    def kueue(self) -> int:
        """The process of its Kueue."""
        pid = self.region.pid_of("kueue")
        assert pid is not None, "the manager's Kueue ended"
        return pid

    def _wait_active(self, kind: str, name: str) -> None:
        def is_active() -> bool:
            found = self.region.api.find(fleet.KUEUE, kind, name) or {}
            held = found.get("status", {}).get("conditions", [])
            return any(c["type"] == "Active" and c["status"] == "True" for c in held)

        wait_until(is_active, READY_S, f"{kind} {name} to be active")


def handed_on(jobset: fleet.Object) -> fleet.Object:
    """Return a JobSet as it is created at the manager."""
    return {**jobset, "spec": {**jobset["spec"], "managedBy": CONTROLLER}}


def joined(name: str, worker: Region) -> list[fleet.Object]:
    """Return what makes a region a worker: how it is reached, and its name at the manager."""
    text = worker.kubeconfig(is_direct=True).read_bytes()
    source = {"kubeConfig": {"locationType": "Secret", "location": name}}
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": SYSTEM},
            "data": {"kubeconfig": base64.b64encode(text).decode()},
        },
        fleet.named(fleet.KUEUE, "MultiKueueCluster", name, {"clusterSource": source}),
    ]


def check() -> fleet.Object:
    """Return the check through which the manager's queue hands its workloads on."""
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": CONFIG}
    spec = {"controllerName": CONTROLLER, "parameters": parameters}
    return fleet.named(fleet.KUEUE, "AdmissionCheck", CHECK, spec)
