"""Runs real gangs of the demo's training, as a launcher would start them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[3]
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One epoch of a run: where it saves, and what it starts from."""

    home: Path
    epoch: int
    world_size: int
    resume_from: Path | None = None
    command: tuple[str, ...] = (sys.executable, "-m", "broker.demo.training")
    python_path: Path = ROOT

    @property
    def checkpoints(self) -> Path:
        return self.home / f"e{self.epoch}" / "checkpoints"

    def private_dir(self, rank: int) -> Path:
        return self.home / f"e{self.epoch}" / f"rank-{rank}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """The processes of a start; leaving the context ends those that are left."""

    start: Start
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def run(self, *arguments: str) -> Gang:
        port = free_port()
        (self.start.home / ".store").touch()
        for rank in range(self.start.world_size):
            private_dir = self.start.private_dir(rank)
            private_dir.mkdir(parents=True)
            environ = {
                **os.environ,
                "PYTHONPATH": str(self.start.python_path),
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(self.start.world_size),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "BROKER_RUN": "teams/optics/runs/prism",
                "BROKER_EPOCH": str(self.start.epoch),
                "BROKER_CHECKPOINT_URI": self.start.checkpoints.as_uri(),
                "BROKER_RESUME_FROM": (
                    self.start.resume_from.as_uri() if self.start.resume_from else ""
                ),
                "BROKER_DIR": str(private_dir),
            }
            command = [*self.start.command, *arguments]
            self.processes.append(
                subprocess.Popen(
                    command,
                    env=environ,
                    cwd=self.start.home,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        return self

    def __enter__(self) -> Gang:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()

    def exit_codes(self) -> list[int]:
        for process in self.processes:
            process.wait(PATIENCE_S)
        return [process.returncode for process in self.processes]

    def output(self) -> str:
        """What rank 0 said; waits for its end."""
        said, complaints = self.processes[0].communicate(timeout=PATIENCE_S)
        return said + complaints

    def note(self, rank: int, name: str) -> dict[str, object] | None:
        """The JSON note `name` that `rank` wrote for its launcher, None if there is none."""
        try:
            document = json.loads((self.start.private_dir(rank) / name).read_text())
        except FileNotFoundError:
            return None
        assert isinstance(document, dict)
        return document


def eventually(happened: Callable[[], bool], what: str) -> None:
    """Return when `happened()`; fail, saying what did not happen, when it takes too long."""
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline, f"this never happened: {what}"
        time.sleep(0.01)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def undisturbed(home: Path, steps: int) -> Path:
    """Run a gang of eight to its end with nothing done to it; return its final weights' file."""
    out = home / "weights.npy"
    arguments = ("--steps", str(steps), "--step-seconds", "0", "--out", str(out))
    with Gang(start=Start(home=home, epoch=1, world_size=8)).run(*arguments) as gang:
        gang.output()
        assert gang.exit_codes() == [0] * 8
    return out
