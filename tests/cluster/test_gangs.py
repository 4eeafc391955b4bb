"""Gangs on the rig are real processes under real Kueue and JobSet: started, heard, ended.

What the rig is trusted for in every other test of this folder is shown here and beside.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.cluster.conftest import Place
from tests.cluster.gangs import (
    MEETING,
    TRAINER,
    exit_codes,
    failed,
    is_alive,
    python,
    stand,
    told,
    wait_succeeded,
)
from tests.cluster.rig import fleet
from tests.cluster.rig.waiting import wait_until

pytestmark = pytest.mark.cluster


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
    folders = [place.region.folder / "pods" / pod["metadata"]["uid"] for pod in place.pods("run")]
    hearing = [follow(place, pod) for pod in place.pods("run")]
    stop = {"spec": {"active": False}}
    workload = (place.workload("run") or {})["metadata"]["name"]
    place.region.api.patch(fleet.KUEUE, "Workload", workload, stop, place.namespace)
    assert [heard.result(30)[-1] for heard in hearing] == ["drained"] * 2
    wait_until(lambda: not any(map(is_alive, pids)), 20, "the gang's end")
    wait_until(lambda: not place.pods("run"), 30, "the pods' end")
    wait_until(lambda: not any(folder.exists() for folder in folders), 20, "their folders' end")


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
    assert failed(place, "run") == "ReachedMaxRestarts"


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
    script = "import shutil, sys; shutil.copy(*sys.argv[1:3]); print(open(sys.argv[3]).read())"
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
        ["python", "/launcher/run.py", "/launcher/word", "/store/word", "/scratch/x"],
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


def test_python_is_the_image(place: Place) -> None:
    stand(place, 1)
    place.submit("run", python("import sys; print(sys.prefix)"), ranks=1)
    wait_succeeded(place, "run", 1)
    assert place.log(place.pods("run")[0]) == f"{sys.prefix}\n"
