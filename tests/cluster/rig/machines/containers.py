"""One container as a process: started, its output kept, asked to end, killed, its end told.

The rule: the process has a session of its own, and a signal goes to all of it, so that what it
started does not outlive it. It outlives this agent, as it would a kubelet; at the end of the rig
the warden sees to it. Read ``Container.run``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tests.cluster.rig.machines.api import Object
from tests.cluster.rig.machines.output import CHUNK, ending, keep, timestamp

START_ERROR = 128
FALLBACK = "FallbackToLogsOnError"
AFTER_KILL_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What to run. A folder that is not there is the pod's own, ``home``, instead."""

    argv: Sequence[str]
    env: Mapping[str, str]
    folder: Path
    home: Path
    log: Path


class Container:
    """A container of a pod. ``state`` is what its status says; ``changed`` is called after each.

    ``has_run`` is set once its process ran for the first time.
    """

    def __init__(self, spec: Object, changed: Callable[[], None]) -> None:
        self.name: str = spec["name"]
        self.spec = spec
        self.state: Object = {"waiting": {"reason": "ContainerCreating"}}
        self.last_state: Object = {}
        self.restarts = 0
        self.is_out_of_memory = False
        self.has_run = asyncio.Event()
        self._changed = changed
        self._process: asyncio.subprocess.Process | None = None

    @property
    def is_running(self) -> bool:
        """Whether its process runs."""
        return "running" in self.state

    @property
    def exit_code(self) -> int | None:
        """What it ended with, or None while it has not."""
        ended = self.state.get("terminated")
        return None if ended is None else int(ended["exitCode"])

    def wait_for(self, reason: str, message: str) -> None:
        """Say why it does not run yet."""
        if self.state.get("waiting") != {"reason": reason, "message": message}:
            self.state = {"waiting": {"reason": reason, "message": message}}
            self._changed()

    async def run(self, call: Call) -> int:
        """Run the process to its end and return its exit code."""
        began = second()
        with opened(call) as log:
            try:
                process = await asyncio.create_subprocess_exec(
                    *call.argv,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    env=dict(call.env),
                    cwd=call.folder if call.folder.is_dir() else call.home,
                    start_new_session=True,
                    limit=CHUNK,
                )
            except (OSError, ValueError) as error:
                self._end(began, START_ERROR, "StartError", f"failed to start container: {error}")
                return START_ERROR
            self._process = process
            self.state = {"running": {"startedAt": began}}
            self.has_run.set()
            self._changed()
            assert process.stdout is not None
            assert process.stderr is not None
            keeping = asyncio.gather(
                keep(process.stdout, "stdout", log), keep(process.stderr, "stderr", log)
            )
            code = await process.wait()
            self._signal(signal.SIGKILL)  # what it left running goes with it
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(keeping, AFTER_KILL_S)
        exit_code = code if code >= 0 else 128 - code
        reason = "OOMKilled" if self.is_out_of_memory else "Error" if exit_code else "Completed"
        # Nothing writes a message of its own: the mount for it is not made.
        is_told = exit_code and self.spec.get("terminationMessagePolicy") == FALLBACK
        self._end(began, exit_code, reason, ending(call.log) if is_told else "")
        return exit_code

    async def end(self, grace_s: float) -> None:
        """Ask the process to end, and kill it after the grace; return when it is over."""
        if self._process is None or self._process.returncode is not None:
            return
        self._signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self._process.wait(), grace_s)
        except TimeoutError:
            self.kill()
            await self._process.wait()

    def kill(self, *, is_out_of_memory: bool = False) -> None:
        """Kill the process and all that it started."""
        self.is_out_of_memory = self.is_out_of_memory or is_out_of_memory
        self._signal(signal.SIGKILL)

    def begin_again(self, wait_s: float) -> None:
        """Say that it is to be started anew after a wait."""
        self.last_state = self.state
        self.restarts += 1
        words = f"back-off {wait_s:.0f}s restarting failed container={self.name}"
        self.wait_for("CrashLoopBackOff", words)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def _end(self, began: str, exit_code: int, reason: str, message: str) -> None:
        self.state = {
            "terminated": {
                "exitCode": exit_code,
                "reason": reason,
                "message": message,
                "startedAt": began,
                "finishedAt": second(),
            }
        }
        self._changed()


def opened(call: Call) -> BinaryIO:
    """Open a container's log, in a folder that is made for it."""
    call.log.parent.mkdir(parents=True, exist_ok=True)
    return call.log.open("ab")


def second() -> str:
    """Return now as Kubernetes writes it in a status."""
    return timestamp()[:19] + "Z"
