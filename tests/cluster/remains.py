"""What a place still holds of gangs: what waits, runs, counts as quota or is billed.

The rule: it is asked of the API server, behind the broker's back, and what ended is nothing: a gang
that is over is kept for a while, with its logs. An object that only takes a name, so that no late
order brings a gang under it, is nothing either. Read ``left``.
"""

from __future__ import annotations

from typing import Any

from regions.kueue import names
from tests.cluster.conftest import Place
from tests.cluster.leaving import JOBSET
from tests.cluster.rig import fleet
from tests.cluster.rig.waiting import wait_until

GONE_S = 90.0


def wait_gone(place: Place, within_s: float = GONE_S) -> None:
    """Wait until nothing waits, runs, holds quota or is billed in a place."""
    try:
        wait_until(lambda: not left(place), within_s, "an empty place", every_s=1.0)
    except TimeoutError as error:
        raise AssertionError(f"{place.region.name} holds {left(place)}") from error


def is_occupant(gang: dict[str, Any]) -> bool:
    """Whether a JobSet only takes a name: no controller looks at it."""
    return bool(gang["metadata"].get("labels", {}).get(names.PART) == names.OCCUPIED_PART)


def left(place: Place) -> list[str]:
    """Return what still waits, runs, holds quota or is billed in a place."""
    api, space = place.region.api, place.namespace
    gangs = [
        each
        for each in api.all(JOBSET, "JobSet", space)
        if "terminalState" not in each.get("status", {}) and not is_occupant(each)
    ]
    pods = [
        each
        for each in api.all("v1", "Pod", space)
        if each["status"]["phase"] not in ("Succeeded", "Failed")
    ]
    workloads = [
        each
        for each in api.all(fleet.KUEUE, "Workload", space)
        if not any(
            condition["type"] == "Finished" and condition["status"] == "True"
            for condition in each.get("status", {}).get("conditions", [])
        )
    ]
    queue = api.find(fleet.KUEUE, "ClusterQueue", space) or {}
    held = [
        f"{one['total']} of {flavor['name']}"
        for flavor in queue.get("status", {}).get("flavorsReservation", [])
        for one in flavor["resources"]
        if one["total"] != "0"
    ]
    nodes = api.all("v1", "Node")
    objects = [*gangs, *pods, *workloads, *nodes]
    return [*(each["metadata"]["name"] for each in objects), *held]
