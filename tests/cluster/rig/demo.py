"""``make demo-cluster``: the demo's story on three real Kueue regions, and the proof of its end.

The rule: the run ends with the weights of one that nothing happened to, bit for bit, or the demo
failed. Read ``main``.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

from broker.demo.__main__ import FAILED, parse, perform
from broker.demo.chronicle import StoryError
from broker.v1.run_pb2 import Run
from tests.cluster.rig.building import RigNotBuiltError, build
from tests.cluster.rig.stage import Theatre
from tests.unit.demo.gang import undisturbed


def main(arguments: list[str]) -> int:
    """Run the demo; returns 0 when all of its story happened, its end included."""
    pace = parse(arguments)
    try:
        build(say)
    except RigNotBuiltError as error:
        sys.stderr.write(f"{error}\n")
        return FAILED
    stage = Theatre()

    def verify(run: Run) -> None:
        ended = digest(final_weights(stage.store(run.epochs[-1].region), run, pace.steps))
        with tempfile.TemporaryDirectory(prefix="undisturbed-", dir=stage.folder) as home:
            alone = digest(undisturbed(Path(home), pace.steps))
        if ended != alone:
            raise StoryError(f"the weights are {ended}, and {alone} when nothing happens")
        say(f"weights              sha256 {ended[:16]}..., as of the same run left alone")

    say("Starting three regions: API server, controllers, scheduler, Kueue, JobSet, machines")
    return perform(stage, pace, verify)


def say(words: str) -> None:
    print(words, flush=True)


def final_weights(store: Path, run: Run, steps: int) -> Path:
    """Return the file with a run's weights after its last step, in the store of its last start."""
    epoch = store / "runs" / run.uid / run.epochs[-1].folder
    return epoch / "checkpoints" / f"step-{steps}" / "weights.npy"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
