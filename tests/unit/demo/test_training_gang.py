"""Law: a run that is killed, drained and resumed ends with the weights of one left alone."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
from pathlib import Path

import pytest

from broker.sdk import training
from tests.unit.demo.gang import ROOT, Gang, Start, eventually

pytestmark = pytest.mark.alone

ARGUMENTS = ("--steps", "60", "--checkpoint-every", "10", "--seed", "7")
EXIT_PEER_LOST = 3


def test_killed_drained_and_resumed_gives_the_same_weights_bit_for_bit(tmp_path: Path) -> None:
    undisturbed = _digest_of_undisturbed_run(tmp_path / "undisturbed")
    home = tmp_path / "disturbed"
    home.mkdir()

    first = Start(home=home, epoch=1, world_size=4)
    with Gang(start=first).run(*ARGUMENTS, "--step-seconds", "0.02") as gang:
        eventually(lambda: _is_complete(first, 20), "the checkpoint of step 20")
        gang.processes[2].kill()
        assert gang.exit_codes() == [EXIT_PEER_LOST, EXIT_PEER_LOST, -9, EXIT_PEER_LOST]

    resume_from = training.newest_complete(first.checkpoints)
    second = Start(home=home, epoch=2, world_size=4, resume_from=resume_from)
    with Gang(start=second).run(*ARGUMENTS, "--step-seconds", "0.05") as gang:
        eventually(lambda: gang.note(0, "progress.json") is not None, "a first report")
        for rank in (1, 3, 0, 2):
            drain = second.private_dir(rank) / "drain.json"
            drain.write_text('{"reason": "PREEMPTED", "deadline_unix_s": null}')
        eventually(
            lambda: all(gang.note(rank, "drained.json") for rank in range(4)),
            "every rank acknowledges the drain",
        )
        acknowledged = [gang.note(rank, "drained.json") for rank in range(4)]
        assert [process.poll() for process in gang.processes] == [None] * 4

    resume_from = training.newest_complete(second.checkpoints)
    assert resume_from is not None
    step = training.step_of(resume_from)
    assert acknowledged == [{"step": step}] * 4
    assert 20 < step < 60

    third = Start(home=home, epoch=3, world_size=4, resume_from=resume_from)
    out = home / "final.npy"
    with Gang(start=third).run(*ARGUMENTS, "--step-seconds", "0", "--out", str(out)) as gang:
        assert f"after step {step}\n" in gang.output()
        assert gang.exit_codes() == [0, 0, 0, 0]
    assert hashlib.sha256(out.read_bytes()).hexdigest() == undisturbed


def _digest_of_undisturbed_run(home: Path) -> str:
    """Run a gang of four to its end; it must learn, and its last checkpoint be what it wrote."""
    home.mkdir()
    start = Start(home=home, epoch=1, world_size=4)
    out = home / "final.npy"
    with Gang(start=start).run(*ARGUMENTS, "--step-seconds", "0", "--out", str(out)) as gang:
        said = gang.output()
        assert gang.exit_codes() == [0, 0, 0, 0]
        progress = gang.note(3, "progress.json")
    losses = [float(loss) for loss in re.findall(r"loss ([0-9.]+)", said)]
    assert losses[-1] < losses[0] - 0.7
    assert progress is not None
    assert (progress["step"], progress["samples"]) == (60, 60 * 4 * 32)
    last = start.checkpoints / "step-60"
    training.verify(last)
    assert (last / "weights.npy").read_bytes() == out.read_bytes()
    return hashlib.sha256(out.read_bytes()).hexdigest()


def _is_complete(start: Start, step: int) -> bool:
    return training.is_complete(start.checkpoints / f"step-{step}")


def test_runs_as_a_bundle_with_nothing_of_the_broker_but_the_training_library(
    tmp_path: Path,
) -> None:
    ignore = shutil.ignore_patterns("__pycache__")
    bundle, library = tmp_path / "bundle", tmp_path / "library"
    shutil.copytree(ROOT / "broker/demo/training", bundle, ignore=ignore)
    shutil.copytree(ROOT / "broker/sdk/training", library / "broker/sdk/training", ignore=ignore)
    for package in ("broker", "broker/sdk"):
        shutil.copy(ROOT / package / "__init__.py", library / package)
    start = Start(
        home=tmp_path,
        epoch=1,
        world_size=2,
        command=(sys.executable, str(bundle / "train.py")),
        python_path=library,
    )
    with Gang(start=start).run("--steps", "3", "--step-seconds", "0") as gang:
        said = gang.output()
        assert gang.exit_codes() == [0, 0], said
    assert training.is_complete(start.checkpoints / "step-3")
