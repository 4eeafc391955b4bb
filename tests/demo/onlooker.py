"""Runs the demo as a user does, in a scratch folder, and sees what it leaves on the machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE_S = 180.0
STORY = (
    "5 of 8 machines are here in us-east4",
    "judged stuck: ",
    "a leg: 8 GPUs spot in europe-west1",
    "withdrawn from us-east4: ",
    "kill -9 ",
    "the run did not notice: ",
    "all spot machines are preempted",
    "resumed in us-central1 from step ",
    "time to useful work ",
    "cost ",
)
"""What is told of the demo, wherever it is played."""


class Onlooker:
    """One demo, and all that is of it: its folder is the demo's only place for files."""

    def __init__(
        self, scratch: Path, *arguments: str, module: str = "broker.demo", home: Path | None = None
    ) -> None:
        self.scratch = scratch
        self.lines: list[str] = []
        self._news = threading.Condition()
        self.demo = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(scratch), "HOME": str(home or scratch)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def said(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, words: str) -> None:
        """Return when a line with the words was written."""
        with self._news:
            came = self._news.wait_for(
                lambda: any(words in line for line in self.lines), PATIENCE_S
            )
        assert came, f"the demo never said {words!r}:\n{self.said}"

    def signal(self, number: signal.Signals) -> None:
        self.demo.send_signal(number)

    def end(self) -> int:
        """Return the demo's exit status once it has ended."""
        status = self.demo.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return status

    def processes(self) -> dict[int, str]:
        """Every process that has to do with the scratch folder, with its command line."""
        own = {os.getpid(), self.demo.pid}
        pids = (int(p.name) for p in Path("/proc").iterdir() if p.name.isdecimal())
        seen = {pid: _seen(Path(f"/proc/{pid}")) for pid in pids if pid not in own}
        return {pid: text for pid, text in seen.items() if str(self.scratch) in text}

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.scratch)) for path in self.scratch.rglob("*"))

    def eventually_nothing_is_left(self, shared: str | None = None) -> None:
        """Wait until no process of it runs and no file stands, but those that others share, too."""
        give_up_s = time.monotonic() + PATIENCE_S
        while self.processes() or self._own_files(shared):
            left = (self.processes(), self._own_files(shared), self.said)
            assert time.monotonic() < give_up_s, left
            time.sleep(0.1)

    def _own_files(self, shared: str | None) -> list[str]:
        files = self.files()
        return [name for name in files if shared is None or not name.startswith(shared)]

    def _read(self) -> None:
        assert self.demo.stdout is not None
        with self.demo.stdout as said:
            for line in said:
                with self._news:
                    self.lines.append(line.rstrip("\n"))
                    self._news.notify_all()


@contextlib.contextmanager
def looking_on(
    *arguments: str, module: str = "broker.demo", home: Path | None = None
) -> Iterator[Onlooker]:
    """Run a demo; whatever the test finds, nothing of it outlives this context."""
    scratch = Path(tempfile.mkdtemp(prefix="d-", dir="/tmp"))
    onlooker = Onlooker(scratch, *arguments, module=module, home=home)
    try:
        yield onlooker
    finally:
        onlooker.demo.kill()
        onlooker.end()
        for pid in onlooker.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(scratch, ignore_errors=True)


def _seen(process: Path) -> str:
    """Command line, environment and working directory; empty once it has ended."""
    with contextlib.suppress(OSError):
        command = (process / "cmdline").read_bytes()
        environ = (process / "environ").read_bytes()
        folder = os.fsencode((process / "cwd").readlink())
        if command:
            return (
                b" ".join((command, environ, folder)).replace(b"\0", b" ").decode(errors="replace")
            )
    return ""
