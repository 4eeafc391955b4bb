"""The rig's nodes: lost, preempted, late, in part, silent, and asked for by flex-start."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.conftest import Place
from tests.cluster.gangs import (
    TRAINER,
    failed,
    is_alive,
    python,
    stand,
    told,
)
from tests.cluster.rig import fleet
from tests.cluster.rig.waiting import wait_until

pytestmark = pytest.mark.cluster


ON_DEMAND = {"nodeSelector": {fleet.OWN: "on-demand"}}


def test_a_lost_node_is_missed(place: Place) -> None:
    stand(place, 1)
    place.submit("run", python(TRAINER), ranks=1)
    [pod] = place.wait_running("run", 1)
    [line] = told(place, "run")
    node = pod["spec"]["nodeName"]
    place.region.lose_node(node)
    wait_until(lambda: not is_alive(line["pid"]), 10, "its processes' end")
    assert place.phases("run") == ["Running"]  # nobody was told
    wait_until(lambda: node not in place.region.ready_nodes(), 60, "that it is missed")
    wait_until(
        lambda: any("deletionTimestamp" in p["metadata"] for p in place.pods("run")),
        60,
        "that its pods are given up",
    )


def test_a_preempted_node_tells_its_pods_first(place: Place) -> None:
    place.region.add_nodes(f"spot-{place.zone}", 1)
    spot = {"nodeSelector": {fleet.PROVISIONING: "spot"}}
    place.submit("run", python(TRAINER), ranks=1, pod=spot)
    [pod] = place.wait_running("run", 1)
    told(place, "run")
    seen: list[dict[str, Any]] = []
    place.region.preempt_node(pod["spec"]["nodeName"], notice_s=10)

    def look() -> bool:
        seen.extend(p["status"] for p in place.pods("run") if p["status"]["phase"] == "Failed")
        return bool(seen) or bool(failed(place, "run"))

    wait_until(look, 30, "what became of the pod")
    for status in seen:
        assert status["reason"] == "Terminated"
        assert any(c["type"] == "DisruptionTarget" for c in status["conditions"])
    wait_until(lambda: failed(place, "run"), 60, "the JobSet's end")
    assert pod["spec"]["nodeName"] not in place.region.ready_nodes()


def test_nodes_come_late_then_in_part_then_not(place: Place) -> None:
    name = f"on-demand-{place.zone}"
    place.region.change_pool(name, is_autoscaled=True, delay_s=1.0, supply=1, backoff_s=1.0)
    place.submit("run", python(TRAINER), pod=ON_DEMAND)
    wait_until(lambda: place.events("TriggeredScaleUp"), 60, "the scale-up")
    wait_until(lambda: sorted(place.phases("run")) == ["Pending", "Running"], 60, "one of two")
    wait_until(lambda: place.events("FailedScaleUp"), 60, "the stockout")
    assert "GCE out of resources" in place.events("FailedScaleUp")[0]
    place.region.change_pool(name, supply=1)
    place.wait_running("run", 2)


def test_pods_that_do_not_come_are_given_up(place: Place) -> None:
    place.region.change_pool(f"on-demand-{place.zone}", is_autoscaled=True, answer="silent")
    place.submit("run", python(TRAINER), pod=ON_DEMAND)
    wait_until(
        lambda: place.conditions("run").get("Evicted") == "PodsReadyTimeout", 90, "Kueue's patience"
    )


@pytest.mark.parametrize(
    ("flex", "conditions"),
    [
        ("provision", {"Accepted": "True", "Provisioned": "True"}),
        ("wait", {"Accepted": "True", "Provisioned": "False"}),
        ("fail", {"Accepted": "True", "Failed": "True"}),
        ("silent", {}),
    ],
)
def test_flex_start_is_answered(place: Place, flex: str, conditions: dict[str, str]) -> None:
    place.region.change_pool(f"flex-{place.zone}", flex=flex, flex_message="words")
    place.submit("run", python(TRAINER), pod={"nodeSelector": {fleet.PROVISIONING: "flex-start"}})

    def requests() -> list[dict[str, Any]]:
        return place.region.api.all(
            "autoscaling.x-k8s.io/v1", "ProvisioningRequest", place.namespace
        )

    def held() -> list[dict[str, str]]:
        found = [r.get("status", {}).get("conditions", []) for r in requests()]
        return [{c["type"]: c["status"] for c in conditions} for conditions in found]

    wait_until(lambda: conditions in held(), 60, f"the answer {flex}")
    if flex == "provision":
        place.wait_running("run", 2)
        place.region.revoke_capacity(place.namespace, requests()[0]["metadata"]["name"])
        wait_until(lambda: "Evicted" in place.conditions("run"), 60, "the eviction")
    if flex == "wait":
        checks = (place.workload("run") or {})["status"]["admissionChecks"]
        wait_until(lambda: "words" in str(place.workload("run")), 30, "the message")
        assert checks[0]["state"] == "Pending"
