"""The example scripts do what they show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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

    def environ(epoch: int) -> dict[str, str]:
        private_dir = tmp_path / f"private-{epoch}"
        private_dir.mkdir()
        return {
            "BROKER_RUN": "teams/optics/runs/line",
            "BROKER_EPOCH": str(epoch),
            "BROKER_CHECKPOINT_URI": (tmp_path / f"e{epoch}" / "checkpoints").as_uri(),
            "BROKER_DIR": str(private_dir),
        }

    assert run(tmp_path, "--steps", "40", **environ(1)).startswith("from step 0\n")
    resume_from = tmp_path / "e1/checkpoints/step-20"
    again = run(tmp_path, "--steps", "60", BROKER_RESUME_FROM=resume_from.as_uri(), **environ(2))
    assert again.startswith("from step 20\n")
    saved = sorted(training.step_of(p) for p in (tmp_path / "e2/checkpoints").iterdir())
    assert saved == [40, 60]
    progress = json.loads((tmp_path / "private-2/progress.json").read_text())
    assert (progress["step"], progress["samples"]) == (60, 60)
