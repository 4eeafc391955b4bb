"""The example scripts do what they show."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.sdk import training

ROOT = Path(__file__).parents[3]
PLAIN = ROOT / "deploy" / "examples" / "plain" / "train.py"

pytestmark = pytest.mark.alone


def run(home: Path, *arguments: str, **environ: str) -> str:
    done = subprocess.run(
        [sys.executable, str(PLAIN), *arguments],
        cwd=home,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout


def under_broker(home: Path, epoch: int, rank: int = 0) -> dict[str, str]:
    """Make a rank's private directory; return what a launcher tells it."""
    private_dir = home / f"private-{epoch}-{rank}"
    private_dir.mkdir()
    return {
        "BROKER_RUN": "teams/optics/runs/line",
        "BROKER_EPOCH": str(epoch),
        "BROKER_CHECKPOINT_URI": (home / f"e{epoch}" / "checkpoints").as_uri(),
        "BROKER_DIR": str(private_dir),
    }


def test_the_plain_script_goes_on_where_it_was_and_ends_the_same(tmp_path: Path) -> None:
    once, twice = tmp_path / "once", tmp_path / "twice"
    once.mkdir()
    twice.mkdir()
    whole = run(once, "--steps", "300").splitlines()
    first = run(twice, "--steps", "140").splitlines()
    second = run(twice, "--steps", "300").splitlines()
    assert [whole[0], first[0], second[0]] == ["from step 0", "from step 0", "from step 140"]
    assert whole[1] == second[1]
    assert whole[1] != first[1]


def test_the_plain_script_resumes_under_the_broker_from_what_it_is_told(tmp_path: Path) -> None:
    (tmp_path / ".store").touch()

    assert run(tmp_path, "--steps", "40", **under_broker(tmp_path, 1)).startswith("from step 0\n")
    resume_from = tmp_path / "e1/checkpoints/step-20"
    again = run(
        tmp_path,
        "--steps",
        "60",
        BROKER_RESUME_FROM=resume_from.as_uri(),
        **under_broker(tmp_path, 2),
    )
    assert again.startswith("from step 20\n")
    saved = sorted(training.step_of(p) for p in (tmp_path / "e2/checkpoints").iterdir())
    assert saved == [40, 60]
    progress = json.loads((tmp_path / "private-2-0/progress.json").read_text())
    assert (progress["step"], progress["samples"]) == (60, 60)


def test_ranks_of_the_plain_script_leave_at_the_same_step_whoever_hears_the_drain(
    tmp_path: Path,
) -> None:
    (tmp_path / ".store").touch()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    gang = [
        subprocess.Popen(
            [sys.executable, str(PLAIN), "--steps", "100000", "--save-every", "100000"],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                **under_broker(tmp_path, 1, rank),
                "RANK": str(rank),
                "WORLD_SIZE": "3",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
            },
        )
        for rank in range(3)
    ]
    try:
        notes = [tmp_path / f"private-1-{rank}" for rank in range(3)]
        until(lambda: all((note / "progress.json").exists() for note in notes), gang)
        # One rank alone is told, as its launcher happens to look first.
        (notes[1] / "drain.json").write_text(json.dumps({"reason": "drain"}))
        until(lambda: all((note / "drained.json").exists() for note in notes), gang)
        steps = {json.loads((note / "drained.json").read_text())["step"] for note in notes}
    finally:
        for process in gang:
            process.kill()
            process.wait(10)
    (saved,) = (tmp_path / "e1/checkpoints").iterdir()
    assert steps == {training.step_of(saved)}


def until(holds: Callable[[], bool], gang: list[subprocess.Popen[bytes]]) -> None:
    """Wait for something that a gang does, which must not end meanwhile."""
    until_s = time.monotonic() + 60.0
    while not holds():
        assert time.monotonic() < until_s
        assert [process.poll() for process in gang] == [None] * len(gang)
        time.sleep(0.02)
