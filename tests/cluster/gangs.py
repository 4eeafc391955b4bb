"""Gangs for the tests of real clusters: what they run, and what can be seen of them.

The rule: what a gang did is read from its own output and from this machine's processes, never from
what the product says of it. Read ``told``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cluster.conftest import Place
from tests.cluster.rig.waiting import wait_until

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
    """Return the command that runs a program."""
    return ["python", "-c", source]


def told(place: Place, name: str) -> list[dict[str, Any]]:
    """Return the first line of each rank's output, once all have one."""
    pods = place.pods(name)
    wait_until(lambda: all(place.log(pod) for pod in pods), 30, f"the output of {name}")
    return [json.loads(place.log(pod).splitlines()[0]) for pod in pods]


def is_alive(pid: int) -> bool:
    """Whether a process of this machine runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_succeeded(place: Place, name: str, ranks: int) -> None:
    """Wait until all ranks of a JobSet ended well."""
    wait_until(lambda: place.phases(name) == ["Succeeded"] * ranks, 60, f"the end of {name}")


def exit_codes(place: Place, name: str) -> list[int | None]:
    """Return each rank's exit code, None for who runs."""
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
