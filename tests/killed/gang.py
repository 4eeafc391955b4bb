"""What the gangs of this test run: a few steps of arithmetic, and a diary of every one of them.

The rule: a line of the diary is one append, so the order of its lines is the order of what
happened, whoever was killed in between. The state after a step depends on all steps before it, so
a resume from anything but the whole of a checkpoint shows. Started as a file, with the training
library and nothing else of this repository. Read ``main`` first.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from pathlib import Path

from broker.sdk import training

STUMBLED, BROKEN = 7, 9


class Diary:
    """The file that all gangs of all clusters write to."""

    def __init__(self, path: Path, job: training.Job) -> None:
        assert isinstance(job.grant.checkpoints, Path)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._who = {
            "run": job.grant.run,
            "epoch": job.grant.checkpoints.parent.name,
            "rank": job.grant.rank,
        }

    def write(self, what: str, step: int, state: str, **more: object) -> None:
        line = {**self._who, "what": what, "step": step, "state": state, **more}
        os.write(self._file, json.dumps(line).encode() + b"\n")


def first_state(rank: int) -> str:
    return f"rank {rank}"


def next_state(state: str, step: int) -> str:
    return hashlib.sha256(f"{state} {step}".encode()).hexdigest()


def manifest_digest(directory: Path) -> str:
    """The digest of a checkpoint as the protocol defines it, from the files that are here."""
    marker = json.loads((directory / ".complete").read_bytes())
    names = sorted([entry["name"] for entry in marker["files"]] + [".complete"])
    contents = [(name, (directory / name).read_bytes()) for name in names]
    identity = {
        "epoch": directory.parent.parent.name,
        "step": training.step_of(directory),
        "files": [[name, len(data), hashlib.sha256(data).hexdigest()] for name, data in contents],
    }
    canonical = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--diary", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--save-every", type=int, required=True)
    parser.add_argument("--step-seconds", type=float, required=True)
    parser.add_argument("--way", choices=("steady", "stumbles", "breaks"), required=True)
    options = parser.parse_args()
    with training.Job.from_env() as job:
        return train(options, job, Diary(options.diary, job))


def train(options: argparse.Namespace, job: training.Job, diary: Diary) -> int:
    rank, start, state = job.grant.rank, 0, first_state(job.grant.rank)
    came_from = job.resume_dir(verify=True)
    resumed = None
    if came_from is not None:
        start = training.step_of(came_from)
        state = json.loads((came_from / f"rank-{rank}.json").read_bytes())
        resumed = {"epoch": came_from.parent.parent.name, "digest": manifest_digest(came_from)}
    diary.write("start", start, state, resumed=resumed, pid=os.getpid())
    saved = start
    for step in range(start + 1, options.steps + 1):
        if job.drain() is not None:
            # Ranks hear it at different steps; the checkpoint that all made is the one that stands.
            job.acknowledge(saved)
            job.stand_by()
            return training.EXIT_DRAINED
        time.sleep(options.step_seconds)
        state = next_state(state, step)
        job.report(step, loss=1.0 / step)
        diary.write("step", step, state)
        if options.way == "breaks" and step == options.save_every - 1:
            return BROKEN
        if step % options.save_every == 0 or step == options.steps:
            with job.saving(step) as part:
                (part / f"rank-{rank}.json").write_text(json.dumps(state))
            saved = step
            if options.way == "stumbles" and came_from is None and job.flush(60.0):
                return STUMBLED
    diary.write("end", options.steps, state)
    return 0


if __name__ == "__main__":
    sys.exit(main())
