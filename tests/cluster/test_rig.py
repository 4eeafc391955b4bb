"""The rig itself: what it is trusted for in every other test of this folder is shown here.

Gangs are real processes under real Kueue and JobSet; each fault is seen by those whom it hits.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import Place
from tests.cluster.rig import fleet
from tests.cluster.rig.api import Api, ApiError, UnreachableError
from tests.cluster.rig.certificates import ADMIN
from tests.cluster.rig.door import Fault
from tests.cluster.rig.rig import Rig
from tests.cluster.rig.waiting import wait_until

pytestmark = pytest.mark.cluster

# Tells where it is, then waits for SIGTERM; heard, it leaves a word and ends with 7.
TRAINER = """
import json, os, signal, sys, time
def drain(*_):
    print("drained", flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, drain)
names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "HOSTNAME", "NVIDIA_VISIBLE_DEVICES", "EXTRA")
print(json.dumps({"pid": os.getpid(), **{n: os.environ.get(n) for n in names}}), flush=True)
for beat in range(1_000_000):
    time.sleep(0.1)
    print("beat", beat, flush=True)
"""
# Rank 0 listens where MASTER_ADDR says, the others find it there: a rendezvous, as torchrun's.
MEETING = """
import os, socket, time
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
others = int(os.environ["WORLD_SIZE"]) - 1
if os.environ["RANK"] == "0":
    server = socket.create_server(address)
    for _ in range(others):
        one, _ = server.accept()
        one.sendall(b"welcome")
        one.close()
    print("met", others, flush=True)
else:
    deadline = time.monotonic() + 30
    while True:
        try:
            print(socket.create_connection(address).recv(99).decode(), flush=True)
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
"""


def python(source: str) -> list[str]:
    return ["python", "-c", source]


def told(place: Place, name: str) -> list[dict[str, Any]]:
    """Return the first line of each rank's output, once all have one."""
    pods = place.pods(name)
    wait_until(lambda: all(place.log(pod) for pod in pods), 30, f"the output of {name}")
    return [json.loads(place.log(pod).splitlines()[0]) for pod in pods]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_succeeded(place: Place, name: str, ranks: int) -> None:
    wait_until(lambda: place.phases(name) == ["Succeeded"] * ranks, 60, f"the end of {name}")


def exit_codes(place: Place, name: str) -> list[int | None]:
    found = []
    for pod in place.pods(name):
        [status] = pod["status"]["containerStatuses"]
        found.append(status["state"].get("terminated", {}).get("exitCode"))
    return found


def failed(place: Place, name: str) -> str:
    """Return the reason for which a JobSet failed, empty while it has not."""
    found = place.region.api.find("jobset.x-k8s.io/v1alpha2", "JobSet", name, place.namespace) or {}
    for condition in found.get("status", {}).get("conditions", []):
        if (condition["type"], condition["status"]) == ("Failed", "True"):
            return str(condition["reason"])
    return ""


def stand(place: Place, nodes: int) -> None:
    """Have nodes of the flavor that a gang without a wish gets."""
    place.region.add_nodes(f"reserved-{place.zone}", nodes)


ON_DEMAND = {"nodeSelector": {fleet.OWN: "on-demand"}}


def test_gangs_in_three_regions_are_processes(places: dict[str, Place]) -> None:
    for place in places.values():
        stand(place, 2)
        place.submit("run", python(TRAINER), env={"EXTRA": "x"})
    for place in places.values():
        pods = place.wait_running("run", 2)
        said = told(place, "run")
        master = pods[0]["status"]["podIP"]
        expected = [
            {
                "RANK": str(rank),
                "WORLD_SIZE": "2",
                "MASTER_ADDR": master,
                "HOSTNAME": f"run-workers-0-{rank}",
                "NVIDIA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7",
                "EXTRA": "x",
            }
            for rank in range(2)
        ]
        assert [{k: v for k, v in line.items() if k != "pid"} for line in said] == expected
        assert [is_alive(line["pid"]) for line in said] == [True, True]
        assert place.conditions("run").get("Admitted") == "Admitted"


def test_a_gang_meets_under_its_masters_name(place: Place) -> None:
    stand(place, 2)
    for name in ("one", "two"):  # the same port, at once: each gang has addresses of its own
        place.submit(name, python(MEETING), gpus=4)
    for name in ("one", "two"):
        wait_succeeded(place, name, 2)
        assert [place.log(pod) for pod in place.pods(name)] == ["met 1\n", "welcome\n"]


def test_a_suspended_gang_is_drained(place: Place) -> None:
    stand(place, 2)
    place.submit("run", python(TRAINER), grace_s=20)
    place.wait_running("run", 2)
    pids = [line["pid"] for line in told(place, "run")]
    pods = [pod["metadata"]["uid"] for pod in place.pods("run")]
    hearing = [follow(place, pod) for pod in place.pods("run")]
    stop = {"spec": {"active": False}}
    workload = (place.workload("run") or {})["metadata"]["name"]
    place.region.api.patch(fleet.KUEUE, "Workload", workload, stop, place.namespace)
    assert [heard.result(30)[-1] for heard in hearing] == ["drained"] * 2
    wait_until(lambda: not any(map(is_alive, pids)), 20, "the gang's end")
    wait_until(lambda: not place.pods("run"), 30, "the pods' end")
    assert not any((place.region.folder / "pods" / uid).exists() for uid in pods)


def follow(place: Place, pod: dict[str, Any]) -> Future[list[str]]:
    """Follow a pod's output to its end, on the side."""
    side = ThreadPoolExecutor(1)
    heard = side.submit(lambda: place.log(pod, follow="true").splitlines())
    side.shutdown(wait=False)
    return heard


def test_the_trap_is_heard_and_the_exit_code_is_told(place: Place) -> None:
    stand(place, 1)
    place.submit("run", python(TRAINER), ranks=1)
    [pod] = place.wait_running("run", 1)
    [line] = told(place, "run")
    os.kill(line["pid"], 15)
    wait_until(lambda: place.phases("run") == ["Failed"], 30, "the pod's end")
    assert exit_codes(place, "run") == [7]
    assert place.log(pod, tailLines="1") == "drained\n"
    wait_until(lambda: failed(place, "run"), 30, "the JobSet's end")
    assert failed(place, "run") == "FailedJobs"


@pytest.mark.parametrize(
    ("source", "code", "reason"),
    [
        ("raise SystemExit(0)", 0, "Completed"),
        ("raise SystemExit(3)", 3, "Error"),
        ("import os; os.kill(os.getpid(), 9)", 137, "Error"),
    ],
)
def test_exit_codes(place: Place, source: str, code: int, reason: str) -> None:
    stand(place, 1)
    place.submit("run", python(source), ranks=1)
    phase = "Succeeded" if code == 0 else "Failed"
    wait_until(lambda: place.phases("run") == [phase], 60, "the pod's end")
    [pod] = place.pods("run")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (code, reason)


def test_who_does_not_hear_is_killed_after_the_grace(place: Place) -> None:
    stand(place, 1)
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True)"
    place.submit("run", python(deaf + "; time.sleep(600)"), ranks=1, grace_s=1)
    [pod] = place.wait_running("run", 1)
    wait_until(lambda: place.log(pod), 30, "its output")
    place.region.api.delete("v1", "Pod", pod["metadata"]["name"], place.namespace)
    wait_until(lambda: not place.pods("run") or failed(place, "run"), 30, "the pod's end")


def test_logs_are_followed_cut_and_dated(place: Place) -> None:
    stand(place, 1)
    source = (
        "import time\nfor n in range(5):\n    print('line', n, flush=True)\n    time.sleep(0.3)"
    )
    place.submit("run", python(source), ranks=1)
    [pod] = place.wait_running("run", 1)
    lines = [f"line {n}\n" for n in range(5)]
    assert place.log(pod, follow="true") == "".join(lines)
    assert place.log(pod, tailLines="2") == "".join(lines[3:])
    assert place.log(pod, limitBytes="8") == "line 0\nl"
    dated = place.log(pod, timestamps="true").splitlines()
    third = dated[3].split()[0]
    assert place.log(pod, sinceTime=third[:19] + "Z").endswith("line 4\n")
    assert [line.split(" ", 1)[1] for line in dated] == [line.rstrip() for line in lines]


def test_volumes_are_folders(place: Place) -> None:
    stand(place, 1)
    api = place.region.api
    meta = {"name": "script", "namespace": place.namespace}
    source = "import shutil; shutil.copy('/in/word', '/out/word'); print(open('/scratch/x').read())"
    script = "import sys; exec(sys.argv[1].replace('/in', sys.argv[2]).replace('/out', sys.argv[3])"
    script += ".replace('/scratch', sys.argv[4]))"
    data = {"run.py": script, "word": "hello"}
    api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})
    mounts = [
        {"name": "script", "mountPath": "/launcher"},
        {"name": "store", "mountPath": "/store"},
        {"name": "scratch", "mountPath": "/scratch"},
    ]
    first = {
        "name": "first",
        "image": "registry.invalid/first",
        "command": ["sh", "-c", "echo before > /scratch/x"],
        "volumeMounts": mounts,
    }
    place.submit(
        "run",
        ["python", "/launcher/run.py", source, "/launcher", "/store", "/scratch"],
        ranks=1,
        container={"volumeMounts": mounts},
        pod={
            "initContainers": [first],
            "volumes": [
                {"name": "script", "configMap": {"name": "script"}},
                {"name": "store", "hostPath": {"path": str(place.region.store)}},
                {"name": "scratch", "emptyDir": {}},
            ],
        },
    )
    wait_succeeded(place, "run", 1)
    assert (place.region.store / "word").read_text() == "hello"
    assert place.log(place.pods("run")[0]) == "before\n\n"


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
    asked = place.region.client("admin")
    with pytest.raises(UnreachableError):
        asked.get("/readyz")
    place.region.heal()
    wait_until(lambda: place.phases("run") == ["Running"] * 2, 30, "the region again")
    assert [is_alive(pid) for pid in pids] == [True, True]


def test_a_door_fails_its_users_and_nobody_else(place: Place) -> None:
    region = place.region
    made = region.certificates
    outside = Api(region.door.port, made.ca, made.tokens[ADMIN], deadline_s=3)
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


def test_the_visibility_api_answers(place: Place) -> None:
    place.submit("big", python(TRAINER), ranks=40)  # more than there is quota for
    path = "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces"
    path += f"/{place.namespace}/localqueues/{place.queue}/pendingworkloads"
    wait_until(lambda: place.region.api.get(path)["items"], 30, "the workload that waits")


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


def test_two_rigs_stand_side_by_side(rig: Rig) -> None:
    with Rig(("us-central1",)) as other:
        [theirs] = other.regions.values()
        ours = rig.regions["us-central1"]
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


def test_python_is_the_image(place: Place) -> None:
    stand(place, 1)
    place.submit("run", python("import sys; print(sys.prefix)"), ranks=1)
    wait_succeeded(place, "run", 1)
    assert place.log(place.pods("run")[0]) == f"{sys.prefix}\n"
