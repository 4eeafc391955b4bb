"""The rig's faults: each is seen by those whom it hits, and by nobody else; each heals."""

from __future__ import annotations

import os

import pytest

from tests.cluster.conftest import Place
from tests.cluster.gangs import (
    TRAINER,
    exit_codes,
    is_alive,
    python,
    stand,
    told,
    wait_succeeded,
)
from tests.cluster.rig.api import ApiError, UnreachableError
from tests.cluster.rig.certificates import ADMIN
from tests.cluster.rig.door import Fault
from tests.cluster.rig.region import Region
from tests.cluster.rig.rig import Rig
from tests.cluster.rig.waiting import wait_until

pytestmark = pytest.mark.cluster


def test_a_killed_api_server_leaves_the_gang_running(place: Place) -> None:
    stand(place, 1)
    place.submit("run", python(TRAINER), ranks=1)
    place.wait_running("run", 1)
    [line] = told(place, "run")
    place.region.kill_api_server()
    os.kill(line["pid"], 15)
    wait_until(lambda: not is_alive(line["pid"]), 20, "its end")
    place.region.start_api_server()
    wait_until(lambda: exit_codes(place, "run") == [7], 60, "the news of its end")


def test_a_partition_hangs_and_heals(place: Place) -> None:
    stand(place, 2)
    place.submit("run", python(TRAINER))
    place.wait_running("run", 2)
    pids = [line["pid"] for line in told(place, "run")]
    place.region.partition()
    asked = place.region.client(ADMIN)
    with pytest.raises(UnreachableError):
        asked.get("/readyz")
    place.region.heal()
    wait_until(lambda: place.phases("run") == ["Running"] * 2, 30, "the region again")
    assert [is_alive(pid) for pid in pids] == [True, True]


def test_a_door_fails_its_users_and_nobody_else(place: Place) -> None:
    region = place.region
    outside = region.client(ADMIN, deadline_s=5, is_through_door=True)
    version = outside.get("/version")["gitVersion"]
    assert version == region.api.get("/version")["gitVersion"]
    for fault in (Fault.SILENT, Fault.DEAF, Fault.CLOSED):
        region.cut_off(fault)
        with pytest.raises(UnreachableError):
            outside.get("/version")
        assert region.api.get("/version")["gitVersion"] == version
        region.reconnect()
        assert outside.get("/version")["gitVersion"] == version
    meta = {"name": "asked", "namespace": place.namespace}
    outside.get("/version")  # a connection that stands already
    region.cut_off(Fault.DEAF)  # what is asked arrives, and its answer is lost
    with pytest.raises(UnreachableError):
        outside.raw(
            "POST",
            f"/api/v1/namespaces/{place.namespace}/configmaps",
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta},
        )
    assert region.api.find("v1", "ConfigMap", "asked", place.namespace) is not None


def test_kueue_is_killed_and_comes_back(place: Place) -> None:
    stand(place, 2)
    place.submit("before", python(TRAINER), gpus=4)
    place.wait_running("before", 2)
    place.region.kueue_down()
    with pytest.raises(ApiError, match="webhook"):
        place.submit("during", python(TRAINER), gpus=4)
    place.region.kueue_up()
    place.submit("after", python(TRAINER), gpus=4)
    place.wait_running("after", 2)
    assert place.phases("before") == ["Running"] * 2


def test_a_store_that_is_away_holds_nothing_and_takes_nothing(place: Place) -> None:
    store = place.region.store
    (store / "kept").write_text("x")
    place.region.store_away()
    with pytest.raises(NotADirectoryError):
        (store / "kept").read_text()
    with pytest.raises(NotADirectoryError):
        (store / "deep" / "er").mkdir(parents=True)
    place.region.store_back()
    assert (store / "kept").read_text() == "x"


def test_two_rigs_stand_side_by_side(region: Region) -> None:
    with Rig(("us-central1",)) as other:
        [theirs] = other.regions.values()
        ours = region
        assert theirs.api.find("v1", "Namespace", "kueue-system") is not None
        theirs.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "only"}})
        assert ours.api.find("v1", "Namespace", "only") is None
        pids = [theirs.pid_of(name) for name in ("apiserver", "kueue", "machines")]
        folder = other.folder
    assert [is_alive(pid) for pid in pids if pid is not None] == [False] * 3
    assert not folder.exists()


def test_users_have_the_rights_that_they_are_given(place: Place) -> None:
    broker = place.region.client("broker")
    with pytest.raises(ApiError, match="forbidden"):
        broker.all("v1", "Pod", place.namespace)


def test_the_visibility_api_answers(place: Place) -> None:
    place.submit("big", python(TRAINER), ranks=40)  # more than there is quota for
    path = "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces"
    path += f"/{place.namespace}/localqueues/{place.queue}/pendingworkloads"
    [waiting] = wait_until(
        lambda: place.region.api.get(path)["items"], 30, "the workload that waits"
    )
    assert (waiting["localQueueName"], waiting["positionInLocalQueue"]) == (place.queue, 0)


def test_what_is_missing_is_said_as_a_kubelet_says_it(place: Place) -> None:
    stand(place, 1)
    place.region.fail_images("registry.invalid/private", "no-right")
    secret = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "none", "key": "k"}}}
    volume = {"name": "v", "configMap": {"name": "none"}}
    place.submit(
        "pull", ["true"], ranks=1, gpus=1, container={"image": "registry.invalid/private/x"}
    )
    place.submit("secret", ["true"], ranks=1, gpus=1, container={"env": [secret]})
    place.submit(
        "mount",
        ["true"],
        ranks=1,
        gpus=1,
        container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
        pod={"volumes": [volume]},
    )

    def waiting(name: str) -> tuple[str, str]:
        for pod in place.pods(name):
            for status in pod["status"].get("containerStatuses", []):
                said = status["state"].get("waiting", {})
                return said.get("reason", ""), said.get("message", "")
        return "", ""

    wait_until(lambda: waiting("pull")[0] == "ImagePullBackOff", 60, "the refused pull")
    assert "403 Forbidden" in waiting("pull")[1]
    wait_until(lambda: waiting("secret")[0] == "CreateContainerConfigError", 60, "the secret")
    assert waiting("secret")[1] == 'secret "none" not found'
    expected = 'MountVolume.SetUp failed for volume "v" : configmap "none" not found'
    wait_until(lambda: expected in place.events("FailedMount"), 60, "the mount")
    place.region.fail_images("registry.invalid/private", "")
    wait_succeeded(place, "pull", 1)
