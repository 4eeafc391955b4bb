"""Trains a small language model, data-parallel, as a user's training script would.

It needs numpy, `broker.sdk.training`, and the files beside it, so its directory is a bundle that
`python3 train.py` runs anywhere. Every rank draws its own batches of Newton's *Opticks*, the
gradients are summed around a ring, and every rank takes the same step.

The rule it keeps: **the same world size gives the same weights, bit for bit**, however often the
gang was killed and resumed. So sums are taken in ring order, BLAS has one thread, and a
checkpoint holds all that the next step depends on: weights, optimizer, and each rank's place in
its stream of random numbers. Read `train` first.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

# One thread, before numpy is imported: more would share sums out as they please, and eight
# processes on two cores would fight over them.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402 - the lines above must come first

from broker.sdk import training  # noqa: E402 - likewise

if TYPE_CHECKING or __package__:
    from broker.demo.training.model import Adam, Network, Text
    from broker.demo.training.ring import PeerLostError, Ring, join_ring
else:  # run as a file of a bundle
    from model import Adam, Network, Text
    from ring import PeerLostError, Ring, join_ring

if TYPE_CHECKING:
    import numpy.typing as npt

EXIT_PEER_LOST = 3


class Options(NamedTuple):
    """What the command line asks for; `out` is where rank 0 leaves the final weights."""

    steps: int
    checkpoint_every: int
    step_seconds: float
    batch: int
    seed: int
    text: Path
    out: Path | None


class Trainee(NamedTuple):
    """All that the next step depends on."""

    network: Network
    adam: Adam
    rng: np.random.Generator

    def save(self, directory: Path, rank: int) -> None:
        """Leave this rank's part in `directory`; rank 0 saves the weights, which all share."""
        if rank == 0:
            np.save(directory / "weights.npy", self.network.flat)
            np.save(directory / "moments.npy", self.adam.moments)
        state = json.dumps(self.rng.bit_generator.state)
        (directory / f"rank-{rank}.json").write_text(state)

    def load(self, directory: Path, rank: int) -> int:
        """Become what was saved in `directory`; return its step."""
        self.network.flat[:] = np.load(directory / "weights.npy")
        self.adam.moments[:] = np.load(directory / "moments.npy")
        state = directory / f"rank-{rank}.json"
        if state.exists():  # a larger gang than the one that saved has ranks that draw afresh
            self.rng.bit_generator.state = json.loads(state.read_text())
        return training.step_of(directory)


def train(options: Options, job: training.Job, ring: Ring | None) -> int:
    """Train to the last step or to a drain; return the exit code."""
    rank, size = job.grant.rank, job.grant.world_size
    text = Text(options.text)
    network = Network(text.alphabet_size, np.random.default_rng(options.seed))
    rng = np.random.default_rng([options.seed, rank])
    trainee = Trainee(network, Adam(len(network.flat)), rng)
    resume_from = job.resume_dir(verify=True)
    start = 0 if resume_from is None else trainee.load(resume_from, rank)
    say(rank, f"{size} ranks, {len(network.flat)} weights, after step {start}")

    shared = np.zeros(len(network.flat) + 2, np.float32)  # gradient, loss, "I hear a drain"
    for step in paced(range(start + 1, options.steps + 1), options.step_seconds):
        shared[-2] = network.gradient(*text.batch(rng, options.batch), shared[:-2])
        shared[-1] = job.drain() is not None
        if ring is not None:
            ring.all_reduce(shared)
        shared[:-1] /= np.float32(size)
        trainee.adam.update(network.flat, shared[:-2], step)
        loss, is_drained = float(shared[-2]), bool(shared[-1])

        job.report(step, loss=loss, samples=step * size * options.batch)
        if step % 10 == 0 or step == options.steps:
            say(rank, f"step {step} loss {loss:.4f}")
        if step % options.checkpoint_every == 0 or step == options.steps or is_drained:
            with job.saving(step) as part:
                trainee.save(part, rank)
        if is_drained and step < options.steps:
            say(rank, f"drained, saved at step {job.acknowledge(step)}")
            job.stand_by()
            return training.EXIT_DRAINED

    if options.out is not None and rank == 0:
        write_weights(options.out, network.flat)
    return 0


def paced(steps: Sequence[int], step_seconds: float) -> Iterator[int]:
    """The steps, none sooner than `step_seconds` after the one before."""
    for step in steps:
        began = time.monotonic()
        yield step
        time.sleep(max(0.0, began + step_seconds - time.monotonic()))


def write_weights(path: Path, weights: npt.NDArray[np.float32]) -> None:
    """Leave the weights at `path`, whole or not at all; the same weights give the same bytes."""
    data = io.BytesIO()
    np.save(data, weights)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(data.getvalue())
    temporary.replace(path)


def say(rank: int, line: str) -> None:
    """A line in the log; rank 0 speaks for the gang."""
    if rank == 0:
        print(line, flush=True)


def parse(arguments: Sequence[str] | None) -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="train.py", description="Train on Newton's Opticks.")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--checkpoint-every", type=int, default=20, metavar="STEPS")
    parser.add_argument("--step-seconds", type=float, default=0.05, help="a step takes as long")
    parser.add_argument("--batch", type=int, default=32, help="samples per rank and step")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--text", type=Path, default=Path(__file__).with_name("opticks.txt"))
    parser.add_argument("--out", type=Path, help="where rank 0 leaves the final weights, as .npy")
    return Options(**vars(parser.parse_args(arguments)))


def meet(grant: training.Grant) -> Ring:
    """Form the ring of this start's gang, at the address that the launcher passes on."""
    start = f"{grant.run} {grant.epoch} {grant.checkpoints}"
    return join_ring(
        grant.rank,
        grant.world_size,
        master=(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])),
        token=hashlib.sha256(start.encode()).digest(),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one rank; the launcher's environment says which."""
    options = parse(arguments)
    rank = int(os.environ.get("RANK", "0"))
    try:
        with training.Job.from_env() as job, contextlib.ExitStack() as stack:
            ring = None
            if job.grant.world_size > 1:
                ring = stack.enter_context(contextlib.closing(meet(job.grant)))
            return train(options, job, ring)
    except PeerLostError as error:
        print(f"rank {rank}: {error}", file=sys.stderr, flush=True)
        return EXIT_PEER_LOST


if __name__ == "__main__":
    sys.exit(main())
