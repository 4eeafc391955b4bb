"""One pod on its node: volumes, init containers in order, containers, its status, its end.

The rule: what runs is told to the API server as often as it takes, in the order in which it
happened; a node that is lost tells nothing any more. Read ``Pod.run``.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from pathlib import Path
from typing import Any

from tests.cluster.rig.machines.api import STRATEGIC, UNANSWERED, Object, RefusedError
from tests.cluster.rig.machines.containers import Container, second
from tests.cluster.rig.machines.recipe import Recipe, Surroundings
from tests.cluster.rig.machines.volumes import NotReadyError, Volumes

AGAIN_S = 0.5
LOOK_S = 0.2
RESTART_S, LONGEST_RESTART_S = 10.0, 300.0


class Pod:
    """A pod that is bound to a node of ours. ``run`` ends when all of it is over and told."""

    def __init__(self, shared: Surroundings, seen: Object) -> None:
        self.uid: str = seen["metadata"]["uid"]
        self.node: str = seen["spec"]["nodeName"]
        self.spec: Object = seen["spec"]
        self.meta: Object = seen["metadata"]
        self._shared = shared
        self._home: Path = shared.folder / "pods" / self.uid
        self._dirty = asyncio.Event()
        self._init = [Container(c, self._dirty.set) for c in self._of("initContainers")]
        self._main = [Container(c, self._dirty.set) for c in self._of("containers")]
        self._volumes = Volumes(shared.api, seen, self._home, shared.folder / "remote")
        self._recipe = Recipe(shared, seen, self._volumes, self._home)
        self._ending = asyncio.Event()
        self._grace_s = float(self.spec.get("terminationGracePeriodSeconds", 30))
        self._sidecars: list[asyncio.Task[int]] = []
        self._shutdown = ""
        self._is_initialized = False
        self._is_silent = False
        self.over = asyncio.Event()
        self._is_told = False
        self._began = second()

    @property
    def path(self) -> str:
        """Its path at the API server."""
        return f"/api/v1/namespaces/{self.meta['namespace']}/pods/{self.meta['name']}"

    @property
    def is_over(self) -> bool:
        """Whether no process of it runs or will."""
        return self.over.is_set()

    @property
    def is_told(self) -> bool:
        """Whether the API server has its last status, or never will."""
        return self._is_told

    def log_of(self, container: str) -> Path:
        """Return the file with a container's output."""
        return self._recipe.log_of(container)

    def container(self, name: str) -> Container | None:
        """Return the container of that name."""
        return next((c for c in [*self._init, *self._main] if c.name == name), None)

    async def run(self) -> None:
        """Run the pod and report it, until it is over and that was told."""
        reporting = asyncio.ensure_future(self._report())
        self._dirty.set()
        try:
            await self._live()
        finally:
            self.over.set()
            self._recipe.give_back()
            self._dirty.set()
            await reporting
            self._is_told = True

    def end(self, grace_s: float | None = None, shutdown: str = "") -> None:
        """Ask all of it to end; the second and later times, only a shorter grace counts."""
        if grace_s is not None:
            self._grace_s = min(self._grace_s, grace_s)
        self._shutdown = self._shutdown or shutdown
        self._ending.set()

    def vanish(self) -> None:
        """Kill all of it and tell nobody: its node is gone, or it was removed by force."""
        self._is_silent = True
        self._grace_s = 0.0
        self._ending.set()
        for container in [*self._init, *self._main]:
            container.kill()

    def run_out_of_memory(self) -> None:
        """Kill its containers as the kernel does when their memory runs out."""
        for container in self._main:
            container.kill(is_out_of_memory=True)

    def forget(self) -> None:
        """Remove its folder."""
        shutil.rmtree(self._home, ignore_errors=True)

    async def _live(self) -> None:
        life = asyncio.ensure_future(self._start_and_wait())
        ending = asyncio.ensure_future(self._ending.wait())
        await asyncio.wait({life, ending}, return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        await self._see_end({life})
        await life
        self._ending.set()  # no sidecar is started again
        await self._see_end(set(self._sidecars))

    async def _see_end(self, tasks: set[asyncio.Future[Any]]) -> None:
        """End what runs until some tasks are done."""
        while not all(task.done() for task in tasks):
            # One that was just being started is asked the next time.
            running = [c for c in (*self._init, *self._main) if c.is_running]
            await asyncio.gather(*(c.end(self._grace_s) for c in running))
            await asyncio.wait(tasks, timeout=LOOK_S)

    async def _start_and_wait(self) -> None:
        if not await self._ready():
            return
        for container in self._init:
            if container.spec.get("restartPolicy") == "Always":
                self._sidecars.append(asyncio.ensure_future(self._keep(container)))
                await self._until_run(container)
            elif await self._keep(container) != 0:
                return
        self._is_initialized = True
        self._dirty.set()
        await asyncio.gather(*(self._keep(container) for container in self._main))

    async def _ready(self) -> bool:
        """Make the volumes, however long it takes; False when the end comes first."""
        said = ""
        while not self._ending.is_set():
            try:
                await self._volumes.prepare()
                return True
            except NotReadyError as error:
                if str(error) != said:
                    said = str(error)
                    await self._warn("FailedMount", said)
            except (RefusedError, *UNANSWERED):
                pass  # a node goes on trying
            await asyncio.sleep(AGAIN_S)
        return False

    async def _until_run(self, container: Container) -> None:
        """Wait until a container has run, or all of it is to end."""
        waits = (container.has_run.wait(), self._ending.wait())
        tasks = {asyncio.ensure_future(each) for each in waits}
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()

    async def _keep(self, container: Container) -> int:
        """Start a container, and again as its restart policy has it; return its last exit code."""
        own = container.spec.get("restartPolicy")
        policy = own or self.spec.get("restartPolicy", "Always")
        is_once = policy == "OnFailure" or (container in self._init and not own)
        code = await self._start(container)
        wait_s = RESTART_S
        while not self._ending.is_set():
            if policy == "Never" or (code == 0 and is_once):
                return code
            container.begin_again(wait_s)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), wait_s)
                return code
            wait_s = min(2 * wait_s, LONGEST_RESTART_S)
            code = await self._start(container)
        return code

    async def _start(self, container: Container) -> int:
        """Run one container, once its image and all that it names are there."""
        said = ""
        while not self._ending.is_set():
            try:
                refusal = self._shared.refusal(container.spec["image"])
                if not refusal:
                    return await container.run(await self._recipe.call(container))
                container.wait_for("ImagePullBackOff" if said else "ErrImagePull", refusal)
            except NotReadyError as error:
                refusal = str(error)
                container.wait_for("CreateContainerConfigError", refusal)
            except (RefusedError, *UNANSWERED):
                refusal = said  # a node goes on trying
            if refusal != said:
                said = refusal
                await self._warn("Failed", refusal)
            await asyncio.sleep(AGAIN_S)
        return 128 + 15

    async def _report(self) -> None:
        """Tell the API server each status, until the last one is told."""
        is_last = False
        while not is_last:
            await self._dirty.wait()
            self._dirty.clear()
            if self._is_silent:
                return
            is_last = self.is_over
            with contextlib.suppress(RefusedError):
                await self._shared.api.persist(
                    "PATCH", f"{self.path}/status", {"status": self.status()}, kind=STRATEGIC
                )

    def status(self) -> Object:
        """Return its status as a kubelet reports it."""
        phase = self._phase()
        is_ready = phase == "Running" and all(c.is_running for c in self._main)
        words = {
            "PodReadyToStartContainers": phase != "Pending" or self._is_initialized,
            "Initialized": self._is_initialized,
            "Ready": is_ready,
            "ContainersReady": is_ready,
        }
        reason = {"reason": "PodCompleted"} if phase == "Succeeded" else {}
        conditions = [
            {"type": kind, "status": str(holds), **({} if holds else reason)}
            for kind, holds in words.items()
        ]
        found: Object = {
            "phase": phase,
            "hostIP": "127.0.0.1",
            "podIP": self._recipe.ip,
            "podIPs": [{"ip": self._recipe.ip}],
            "startTime": self._began,
            "conditions": conditions,
            "containerStatuses": [self._container_status(c) for c in self._main],
        }
        if self._init:
            found["initContainerStatuses"] = [self._container_status(c) for c in self._init]
        if self._shutdown:
            conditions.append(
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "TerminationByKubelet",
                    "message": self._shutdown,
                }
            )
            if self.is_over:
                found |= {"phase": "Failed", "reason": "Terminated", "message": self._shutdown}
        return found

    def _phase(self) -> str:
        if self.is_over:
            succeeded = all(c.exit_code == 0 for c in self._main)
            return "Succeeded" if succeeded else "Failed"
        if any(c.is_running or c.restarts or c.exit_code is not None for c in self._main):
            return "Running"
        return "Pending"

    def _container_status(self, container: Container) -> Object:
        return {
            "name": container.name,
            "image": container.spec["image"],
            "imageID": container.spec["image"],
            "restartCount": container.restarts,
            "ready": container.is_running,
            "started": container.is_running,
            "state": container.state,
            "lastState": container.last_state,
        }

    async def _warn(self, reason: str, message: str) -> None:
        """Write an event about the pod, as its kubelet would."""
        now = second()
        about = {"kind": "Pod", "apiVersion": "v1", "uid": self.uid}
        about |= {"name": self.meta["name"], "namespace": self.meta["namespace"]}
        body: Object = {
            "metadata": {"generateName": f"{self.meta['name']}."},
            "involvedObject": about,
            "reason": reason,
            "message": message,
            "type": "Warning",
            "source": {"component": "kubelet", "host": self.node},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        with contextlib.suppress(RefusedError):
            await self._shared.api.persist(
                "POST", f"/api/v1/namespaces/{self.meta['namespace']}/events", body
            )

    def _of(self, kind: str) -> list[Object]:
        found: list[Object] = self.spec.get(kind) or []
        return found
