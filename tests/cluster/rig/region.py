"""One region: a real API server, controllers, scheduler, Kueue and JobSet, and faults as methods.

The rule: a fault is real (a signal, a cut connection, a killed process, a store that is not there),
and each that lasts has its opposite. Methods return when the fault is in place; what the region
makes of it is for the test to wait for. Read ``Region``.
"""

from __future__ import annotations

import http.client
import shutil
import signal
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.cluster.rig import commands, manifests
from tests.cluster.rig.api import Api, ApiError, Object, UnreachableError
from tests.cluster.rig.building import Assets
from tests.cluster.rig.certificates import ADMIN, kubeconfig
from tests.cluster.rig.children import ROOT, Warden
from tests.cluster.rig.commands import Places
from tests.cluster.rig.door import Door, Fault
from tests.cluster.rig.machines.pools import Pool
from tests.cluster.rig.waiting import wait_until

READY_S = 180.0
PATIENCE_S = 90.0  # of the admin's calls, on a machine that is busy with the rig itself
PROGRAMS = ("apiserver", "controllers", "scheduler", "machines", "kwok", "jobset", "kueue")


class Region:
    """A region of a rig. ``api`` asks it as its admin, past the door."""

    def __init__(
        self, places: Places, assets: Assets, warden: Warden, door_port: int, etcd_port: int
    ) -> None:
        self.name = places.name
        self.folder = places.folder
        self.store = places.folder / "store"
        self.door = Door(door_port, places.ports["api"])
        self._places = places
        self._assets = assets
        self._warden = warden
        self._etcd_port = etcd_port
        self._clients: list[Api] = []
        self._hooks: list[Object] = []
        self._is_kueue_mute = False
        self.certificates = made = places.certificates
        self.api = Api(places.ports["api"], made.ca, made.tokens[ADMIN], deadline_s=PATIENCE_S)
        self._machines = Api(
            places.ports["machines"], made.ca, made.tokens[ADMIN], deadline_s=PATIENCE_S
        )

    def start(self) -> None:
        """Start everything, side by side as far as it can be; return when Kueue serves."""
        self._prepare()
        self._start("apiserver", commands.api_server(self._assets, self._places, self._etcd_port))
        self._wait_for("apiserver", lambda: self._is_ready(self.api, "/readyz"))
        self.door.open()
        made = self.certificates
        hook = self._places.ports["kueue-hook"]
        with ThreadPoolExecutor(8) as pool:
            found = manifests.kinds(self._assets, hook, made.ca_base64)
            list(pool.map(self.api.apply, [*found, manifests.namespace(manifests.SYSTEM)]))
        self._start("controllers", commands.controllers(self._assets, self._places))
        self._start("scheduler", commands.scheduler(self._assets, self._places))
        wait_until(self._has_kinds, READY_S, "the resource kinds")
        self._start("machines", commands.machines(self._places, self.folder))
        self._start("kwok", commands.kwok(self._assets, self._places))
        self._start("jobset", commands.jobset(self._assets, self._places))
        self._start("kueue", commands.kueue(self._assets, self._places, {}))
        jobset = Health(self._places.ports["jobset-health"])
        kueue = Health(self._places.ports["kueue-health"])
        self._wait_for("jobset", jobset.is_ready)
        self._wait_for("kueue", kueue.is_ready)
        self._wait_for("machines", lambda: self._is_ready(self._machines, "/rig/state"))
        self._hooks = manifests.webhooks(
            self._assets, hook, self._places.ports["jobset-hook"], made.ca_base64
        )
        self.api.apply(*self._hooks, *manifests.visibility(self._places.ports["visibility"]))
        for program in PROGRAMS:
            self._warden.check(self._full(program))

    def stop(self) -> None:
        """End everything, pods first."""
        self.door.close()
        for client in (self.api, self._machines, *self._clients):
            client.close()
        self._warden.stop(self._full("machines"))
        for name in PROGRAMS:
            if name != "apiserver":
                self._signal(name, signal.SIGKILL)
        self._warden.stop(self._full("apiserver"), within_s=2)

    def kubeconfig(self, user: str = ADMIN, *, is_direct: bool = False) -> Path:
        """Return a kubeconfig file for a user (see ``certificates``), through the door or past it.

        Only what goes through the door meets its faults.
        """
        port = self._places.ports["api"] if is_direct else self.door.port
        path = self.folder / f"{user}{'-direct' if is_direct else ''}.kubeconfig"
        path.write_text(kubeconfig(self.name, port, self._places.certificates, user))
        path.chmod(0o600)
        return path

    def client(self, user: str, *, deadline_s: float = 10.0, is_through_door: bool = False) -> Api:
        """Return a client for a user, past the door or through it; ``stop`` closes it."""
        made = self.certificates
        port = self.door.port if is_through_door else self._places.ports["api"]
        self._clients.append(Api(port, made.ca, made.tokens[user], deadline_s=deadline_s))
        return self._clients[-1]

    def pid_of(self, program: str) -> int | None:
        """Return the pid of one of the region's programs, None while it does not run."""
        return self._warden.pid_of(self._full(program))

    def log_of(self, program: str) -> Path:
        """Return the file with the output of one of the region's programs."""
        return self._warden.log_of(self._full(program))

    def mend(self) -> None:
        """Undo every fault but those to nodes; what runs already is left alone."""
        self.reconnect()
        if (self.folder / "store.away").exists():
            self.store_back()
        for program in PROGRAMS:
            self.resume(program)
        if self.pid_of("apiserver") is None:
            self.start_api_server()
        if self.pid_of("kueue") is None:
            self.kueue_up()
        if self._is_kueue_mute:
            self.unmute_kueue()

    # --- the API server, for everybody ---

    def partition(self) -> None:
        """Stop the API server where it stands: connections hang, the region's controllers too."""
        self._signal("apiserver", signal.SIGSTOP)

    def heal(self) -> None:
        """Let a stopped API server go on."""
        self._signal("apiserver", signal.SIGCONT)

    def kill_api_server(self) -> None:
        """Kill the API server. Pods run on."""
        self._warden.kill(self._full("apiserver"))

    def start_api_server(self) -> None:
        """Start a killed API server; return when it is ready."""
        self._start("apiserver", commands.api_server(self._assets, self._places, self._etcd_port))
        self._wait_for("apiserver", lambda: self._is_ready(self.api, "/readyz"))

    # --- the way to it, for who comes through the door ---

    def cut_off(self, fault: Fault = Fault.SILENT) -> None:
        """Have nobody reach the region through its door; behind it, it goes on."""
        self.door.fault(fault)

    def reconnect(self) -> None:
        """Undo ``cut_off`` and ``slow``. What hung may be lost: connections are cut once."""
        self.door.slow(0.0)
        self.door.fault(Fault.NONE)
        self.door.cut()

    def slow(self, delay_s: float) -> None:
        """Hold back each piece through the door, in each direction, for so long."""
        self.door.slow(delay_s)

    def cut_watches(self) -> None:
        """Reset every connection through the door, once."""
        self.door.cut()

    # --- Kueue and the other controllers ---

    def kueue_down(self) -> None:
        """Kill Kueue. Its webhooks are away too: nobody can create a job that it watches."""
        self._warden.kill(self._full("kueue"))

    def kueue_up(self, **changes: Any) -> None:
        """Start Kueue, with fields of its configuration changed; return when it serves."""
        self._start("kueue", commands.kueue(self._assets, self._places, changes))
        self._wait_for("kueue", Health(self._places.ports["kueue-health"]).is_ready)

    def pause(self, program: str) -> None:
        """Stop a program where it stands: with kueue, a queue that is silent."""
        self._signal(program, signal.SIGSTOP)

    def resume(self, program: str) -> None:
        """Let a stopped program go on."""
        self._signal(program, signal.SIGCONT)

    def mute_kueue(self) -> None:
        """Stop Kueue where it stands, and take its webhooks away: jobs are created unseen, and what
        it wrote can be written over, as by a release of it with a fault that this one has not."""
        self._is_kueue_mute = True
        for hook in self._hooks_of_kueue():
            self.api.delete(hook["apiVersion"], hook["kind"], hook["metadata"]["name"])
        # Its webhook puts a finalizer on each new flavor, while it is asked.
        wait_until(lambda: not self._try_flavor().get("finalizers"), 30, "Kueue's webhooks' end")
        self.pause("kueue")

    def unmute_kueue(self) -> None:
        """Let Kueue see and say all again; return when it is asked."""
        self.resume("kueue")
        self.api.apply(*self._hooks_of_kueue())
        wait_until(lambda: self._try_flavor().get("finalizers"), 30, "Kueue's webhooks")
        self._is_kueue_mute = False

    # --- nodes ---

    def set_pool(self, pool: Pool) -> None:
        """Make a node pool, or put it back to what is said here; nodes that stand stay."""
        self._order("/rig/pools", {name: getattr(pool, name) for name in Pool.__slots__})

    def change_pool(self, name: str, **fields: Any) -> None:
        """Change what a node pool does to its users: late (``delay_s``), in part (``supply``),
        out of stock (``answer``), silent. See ``machines.pools.Pool``."""
        self._order(f"/rig/pools/{name}", fields)

    def add_nodes(self, pool: str, count: int) -> list[str]:
        """Make nodes of a pool at once; return their names when they are ready."""
        names: list[str] = self._order(f"/rig/pools/{pool}/nodes", {"count": count})["nodes"]
        wait_until(lambda: self.ready_nodes().issuperset(names), 60, f"{count} nodes of {pool}")
        return names

    def ready_nodes(self) -> set[str]:
        """Return the names of the nodes that are ready."""
        return {
            node["metadata"]["name"]
            for node in self.api.all("v1", "Node")
            if any(
                c["type"] == "Ready" and c["status"] == "True"
                for c in node.get("status", {}).get("conditions", [])
            )
            and not node["spec"].get("unschedulable")
            and not is_tainted(node)
        }

    def remove_nodes(self) -> None:
        """Remove every node with all its processes."""
        self._order("/rig/nodes/remove", {})

    def forget_pods_of_dead_nodes(self, namespace: str) -> None:
        """Remove the objects of pods whose nodes cannot do it any more, as who cleans up would."""
        dead = set(self._machines.get("/rig/state")["dead_nodes"])
        for pod in self.api.all("v1", "Pod", namespace):
            if pod["spec"].get("nodeName") in dead:
                path = self.api.path("v1", "Pod", namespace, pod["metadata"]["name"])
                self.api.call("DELETE", path, {"gracePeriodSeconds": 0})

    def lose_node(self, name: str) -> None:
        """Kill a node with all its processes; nobody is told."""
        self._order(f"/rig/nodes/{name}/lose", {})

    def remove_node(self, name: str) -> None:
        """Kill a node with all its processes, and remove its object, as a cloud does."""
        self._order(f"/rig/nodes/{name}/remove", {})

    def preempt_node(self, name: str, notice_s: float = 15.0) -> None:
        """End a node as a spot machine: its pods hear SIGTERM and have so long, then it is gone."""
        self._order(f"/rig/nodes/{name}/preempt", {"notice_s": notice_s})

    def fail_images(self, beginning: str, error: str) -> None:
        """Have pulls fail: not-found, no-right, wrong-architecture, own words, or empty to heal."""
        self._order("/rig/images", {beginning: error})

    def run_out_of_memory(self, namespace: str, pod: str) -> None:
        """Kill a pod's containers as the kernel does when their memory runs out."""
        self._order(f"/rig/pods/{namespace}/{pod}/out-of-memory", {})

    def revoke_capacity(self, namespace: str, request: str) -> None:
        """Take back what a ProvisioningRequest was given."""
        self._order(f"/rig/requests/{namespace}/{request}/revoke", {})

    # --- the store ---

    def store_away(self) -> None:
        """Take the store's folder away: in its place is a file, so nothing can be made there."""
        self.store.rename(self.folder / "store.away")
        self.store.write_text("")

    def store_back(self) -> None:
        """Bring the store's folder back, as it was."""
        self.store.unlink()
        (self.folder / "store.away").rename(self.store)

    # --- starting ---

    def _prepare(self) -> None:
        """Make the folders, and the certificate where Kueue and JobSet look for it."""
        made = self.certificates
        hooks = commands.certificates_of(self._places)
        for folder in (self.store, hooks, self.folder / "pods", self.folder / "remote"):
            folder.mkdir(parents=True)
        shutil.copyfile(made.server_cert, hooks / "tls.crt")
        shutil.copyfile(made.server_key, hooks / "tls.key")
        text = kubeconfig(self.name, self._places.ports["api"], made, ADMIN)
        self._places.admin.write_text(text)

    def _start(self, program: str, argv: list[str]) -> None:
        cwd = ROOT if program == "machines" else self.folder
        self._warden.start(self._full(program), argv, cwd=cwd)

    def _wait_for(self, program: str, is_ready: Any) -> None:
        def look() -> bool:
            self._warden.check(self._full(program))
            return bool(is_ready())

        wait_until(look, READY_S, f"{program} of {self.name}")

    def _has_kinds(self) -> bool:
        found = self.api.all("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        return all(
            any(
                c["type"] == "Established" and c["status"] == "True"
                for c in kind.get("status", {}).get("conditions") or []
            )
            for kind in found
        )

    def _hooks_of_kueue(self) -> list[Object]:
        return [each for each in self._hooks if each["metadata"]["name"].startswith("kueue-")]

    def _try_flavor(self) -> Object:
        """Return the metadata that a new ResourceFlavor would have, without creating it."""
        kind = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor"}
        body = {**kind, "metadata": {"generateName": "tried-"}, "spec": {}}
        path = self.api.path(kind["apiVersion"], kind["kind"])
        found = self.api.call("POST", path, body, query={"dryRun": "All"})
        return dict(found["metadata"])

    def _is_ready(self, api: Api, path: str) -> bool:
        try:
            api.raw("GET", path)
        except (ApiError, UnreachableError):
            return False
        return True

    def _signal(self, program: str, number: signal.Signals) -> None:
        self._warden.signal(self._full(program), number)

    def _full(self, program: str) -> str:
        return f"{self.name}-{program}"

    def _order(self, path: str, body: Mapping[str, Any]) -> Object:
        return self._machines.call("POST", path, dict(body))


class Health:
    """A controller's plain health port."""

    def __init__(self, port: int) -> None:
        self._port = port

    def is_ready(self) -> bool:
        """Whether it says that it is ready."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=2)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def is_tainted(node: Object) -> bool:
    """Whether a node still has, or has again, a taint that says that it is not usable."""
    return any(
        taint["key"].startswith("node.kubernetes.io/") for taint in node["spec"].get("taints", [])
    )
