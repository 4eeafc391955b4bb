"""How a test's namespace goes, with all that runs in it.

The rule: it is emptied first. Of a namespace that still holds something when it is removed, its
controller looks again only after many seconds; of an empty one it has no need to, and nobody waits
for that: no other test has its name. Read ``leave``.
"""

from __future__ import annotations

import contextlib

from tests.cluster.rig import fleet
from tests.cluster.rig.api import ApiError, UnreachableError
from tests.cluster.rig.region import Region
from tests.cluster.rig.waiting import wait_until

JOBSET = "jobset.x-k8s.io/v1alpha2"
MADE = ((JOBSET, "JobSet"), (fleet.KUEUE, "Workload"))
"""What tests and their gangs make of themselves; the rest is these objects' own."""
NOT_YET = (429, 500, 503, 504)
HELD = (*MADE, ("batch/v1", "Job"), ("v1", "Pod"))


def leave(region: Region, namespace: str) -> None:
    """Remove every node of the region and all that a namespace held; itself it goes by and by."""
    wait_until(lambda: is_left(region, namespace), 90, f"that {namespace} is empty")
    region.api.delete("v1", "Namespace", namespace)


def is_left(region: Region, namespace: str) -> bool:
    """Whether nothing is left there, as far as a server that was just started tells."""
    try:
        return is_empty(region, namespace)
    except UnreachableError:
        return False
    except ApiError as error:
        if error.status not in NOT_YET:
            raise
        return False


def is_empty(region: Region, namespace: str) -> bool:
    """Whether nothing is left there; what is left is told to go once more."""
    api = region.api
    for version, kind in MADE:
        for found in api.all(version, kind, namespace):
            if "deletionTimestamp" not in found["metadata"]:
                api.delete(version, kind, found["metadata"]["name"], namespace)
    region.remove_nodes()
    for pod in api.all("v1", "Pod", namespace):
        # Its machine is gone, and nobody else removes its object soon.
        path = api.path("v1", "Pod", namespace, pod["metadata"]["name"])
        with contextlib.suppress(ApiError):
            api.call("DELETE", path, {"gracePeriodSeconds": 0})
    return not any(api.all(version, kind, namespace) for version, kind in HELD)
