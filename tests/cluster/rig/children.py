"""The rig's side of the warden: start, signal and wait for processes by name, from any thread.

The rule: nothing outlives the rig; see ``warden``. Read ``Warden``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.cluster.rig.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]
STOPPED_WITHIN_S = 10.0


class ProcessEndedError(Exception):
    """A process that should run does not."""


class Warden:
    """The processes of a rig. ``close`` kills all that is left."""

    def __init__(self, folder: Path) -> None:
        self._lock = threading.Lock()
        self._folder = folder
        with (folder / "warden.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.cluster.rig.warden"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                start_new_session=True,
            )

    def start(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        cwd: Path,
        env: Mapping[str, str] | None = None,
    ) -> int:
        """Start a process; its output goes to ``<name>.log``. Return its pid."""
        answer = self._ask(
            do="start",
            name=name,
            argv=[str(part) for part in argv],
            env={**os.environ, **(env or {})},
            cwd=str(cwd),
            log=str(self.log_of(name)),
        )
        return int(answer["pid"])

    def log_of(self, name: str) -> Path:
        """Return the file with a process's output."""
        return self._folder / f"{name}.log"

    def pid_of(self, name: str) -> int | None:
        """Return the pid of a process that runs, else None."""
        pid = self._ask(do="state", name=name)["pid"]
        return None if pid is None else int(pid)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal, if the process still runs."""
        self._ask(do="signal", name=name, signal=int(number))

    def stop(self, name: str, *, within_s: float = STOPPED_WITHIN_S) -> None:
        """End a process: SIGTERM, and SIGKILL when that is not heard. Return when it is gone."""
        self.signal(name, signal.SIGTERM)
        self.signal(name, signal.SIGCONT)
        try:
            wait_until(lambda: self.pid_of(name) is None, within_s, f"the end of {name}")
        except TimeoutError:
            self.kill(name)

    def kill(self, name: str) -> None:
        """Kill a process and return when it is gone."""
        self.signal(name, signal.SIGKILL)
        wait_until(lambda: self.pid_of(name) is None, STOPPED_WITHIN_S, f"the end of {name}")

    def check(self, name: str) -> None:
        """Raise ProcessEndedError with the end of its output unless the process runs."""
        if self.pid_of(name) is None:
            raise ProcessEndedError(f"{name} ended:\n{last_lines(self.log_of(name))}")

    def close(self) -> None:
        """Kill all that still runs and return when it is gone."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(30)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _ask(self, **request: Any) -> dict[str, Any]:
        with self._lock:
            stdin, stdout = self._process.stdin, self._process.stdout
            if stdin is None or stdout is None or stdin.closed:
                raise ProcessEndedError("the rig is closed")
            stdin.write(json.dumps(request).encode() + b"\n")
            stdin.flush()
            line = stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "the warden is gone"}
        if answer.get("error"):
            raise ProcessEndedError(f"{request.get('name')}: {answer['error']}")
        return answer


def last_lines(log: Path, count: int = 15) -> str:
    """Return the end of a log, for an error's text."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-count:])
