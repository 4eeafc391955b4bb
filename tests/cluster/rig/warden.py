"""The parent of everything that a rig starts: when who asked for the rig is gone, all of it dies.

It speaks JSON lines: one request on its input, one answer on its output. The end of its input means
that its owner ended, however that came about; then it kills every process below it. As a subreaper
it also inherits what a pod left behind, so nothing can slip away. It imports only the standard
library and has one thread: a child's PR_SET_PDEATHSIG is bound to the thread that made it.

Read ``main`` first; ``Warden`` in ``children`` is the other side.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SET_PDEATHSIG, SET_CHILD_SUBREAPER = 1, 36
LIBC = ctypes.CDLL(None, use_errno=True)
KILLED_WITHIN_S = 10.0


def main() -> int:
    """Serve requests until the owner is gone; then leave nothing behind."""
    LIBC.prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is the owner's to answer
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    children = Children()
    buffer = b""
    while True:
        ready, _, _ = select.select([0], [], [], 0.2)
        children.reap()
        if not ready:
            continue
        chunk = os.read(0, 65536)
        if not chunk:
            break
        buffer += chunk
        while b"\n" in buffer:
            line, _, buffer = buffer.partition(b"\n")
            answer(children.handle(json.loads(line)))
    kill_all_below(os.getpid())
    return 0


def answer(value: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(1, json.dumps(value).encode() + b"\n")


class Children:
    """The processes that run, by name."""

    def __init__(self) -> None:
        self._pids: dict[str, int] = {}

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carry out one request: start, signal, or state."""
        self.reap()
        name = request.get("name", "")
        match request["do"]:
            case "start":
                return self.start(name, request)
            case "signal":
                if name in self._pids:
                    os.kill(self._pids[name], request["signal"])
                return self.state(name)
            case "state":
                return self.state(name)
            case _:
                return {"error": f"unknown request {request['do']!r}"}

    def start(self, name: str, request: dict[str, Any]) -> dict[str, Any]:
        if name in self._pids:
            return {"error": f"{name} is running"}
        with Path(request["log"]).open("ab") as log:
            try:
                started = subprocess.Popen(
                    request["argv"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=request["env"],
                    cwd=request["cwd"],
                    start_new_session=True,
                    preexec_fn=die_with_parent,  # noqa: PLW1509 - this process has one thread
                )
            except OSError as error:
                return {"error": str(error)}
        started.returncode = 0  # this loop waits for it, not the object
        self._pids[name] = started.pid
        return {"pid": started.pid}

    def state(self, name: str) -> dict[str, Any]:
        return {"pid": self._pids.get(name)}

    def reap(self) -> None:
        """Take leave of whoever ended, orphans of pods included."""
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for name, ours in list(self._pids.items()):
                if ours == pid:
                    del self._pids[name]


def die_with_parent() -> None:
    """Have the kernel kill this process when the one that started it is gone."""
    LIBC.prctl(SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def kill_all_below(root: int) -> None:
    """Kill every descendant, until none is left: one that forks meanwhile is found again."""
    deadline = time.monotonic() + KILLED_WITHIN_S
    while time.monotonic() < deadline:
        below = descendants(root)
        if not below:
            return
        for pid in below:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.02)


def descendants(root: int) -> list[int]:
    """Return the processes below one, by /proc, without those that only wait to be reaped."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            rest = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(rest[1]), []).append(int(entry.name))
    found: list[int] = []
    todo = [root]
    while todo:
        below = parents.get(todo.pop(), [])
        found += below
        todo += below
    return found


if __name__ == "__main__":
    sys.exit(main())
