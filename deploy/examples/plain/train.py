"""A training script that saves plain files: the standard library, no GPU, on any number of ranks.

It fits a line by gradient descent; each rank draws its own points, and their gradients are added
up over TCP. What is of interest is how little of it is about the broker: where to resume, where to
save, what to report, and when to leave, all ranks at the same step. Run it anywhere:

    python3 train.py --steps 200

Stop it, run it again, and it goes on from `checkpoints/`; under the broker it goes on from the
checkpoint that its grant names.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import socket
import struct
import sys
import time

from broker.sdk import training

WAIT_S = 60.0  # for a peer, to come or to answer


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--save-every", type=int, default=20)
    parser.add_argument("--step-seconds", type=float, default=0.0)
    options = parser.parse_args()

    with training.Job.from_env() as job:
        gang = Gang(job.grant.rank, job.grant.world_size)
        slope, offset, start = 0.0, 0.0, 0
        resume_dir = job.resume_dir(verify=True)
        if resume_dir is not None:
            saved = json.loads((resume_dir / "line.json").read_text())
            slope, offset, start = saved["slope"], saved["offset"], training.step_of(resume_dir)
        print(f"from step {start}", flush=True)

        for step in range(start + 1, options.steps + 1):
            draw = random.Random(step * gang.size + gang.rank)  # its number alone, not the past
            x = draw.uniform(-1, 1)
            error = slope * x + offset - (3 * x - 1 + draw.gauss(0, 0.01))
            # Ranks hear a drain at different moments. Sent along with the gradients, all of them
            # know of it after the same step, and leave there.
            hears_drain = job.drain() is not None
            by_slope, by_offset, loss, drains = gang.add_up(
                error * x, error, error * error, float(hears_drain)
            )
            slope -= 0.1 * by_slope / gang.size
            offset -= 0.1 * by_offset / gang.size
            job.report(step, loss=loss / gang.size, samples=step * gang.size)

            if drains or step % options.save_every == 0 or step == options.steps:
                with job.saving(step) as part:  # every rank calls this; one has something to save
                    if gang.rank == 0:
                        line = {"slope": slope, "offset": offset}
                        (part / "line.json").write_text(json.dumps(line))
            if drains:
                job.acknowledge(step)
                job.stand_by()
                return training.EXIT_DRAINED
            time.sleep(options.step_seconds)

        print(f"y = {slope:.3f} x + {offset:.3f}", flush=True)
    return 0


class Gang:
    """All ranks of a start, in step: what each sends to rank 0, rank 0 adds up and sends to all."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self._peers: list[socket.socket] = []
        if size == 1:
            return
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        if rank == 0:
            with socket.create_server(("", port)) as server:
                server.settimeout(WAIT_S)
                self._peers = [server.accept()[0] for _ in range(size - 1)]
        else:
            self._peers = [connect(host, port)]
        for peer in self._peers:
            peer.settimeout(WAIT_S)

    def add_up(self, *values: float) -> tuple[float, ...]:
        """Return the sums over all ranks; each must call it with as many values."""
        if self.rank == 0:
            rows = [values, *(receive(peer, len(values)) for peer in self._peers)]
            # The ranks came in any order: the sum must not depend on it.
            values = tuple(math.fsum(row[n] for row in rows) for n in range(len(values)))
        for peer in self._peers:
            peer.sendall(struct.pack(f"!{len(values)}d", *values))
        return values if self.rank == 0 else receive(self._peers[0], len(values))


def connect(host: str, port: int) -> socket.socket:
    """Connect to rank 0, which may not listen yet."""
    until_s = time.monotonic() + WAIT_S
    while True:
        try:
            return socket.create_connection((host, port), timeout=WAIT_S)
        except OSError:
            if time.monotonic() > until_s:
                raise
            time.sleep(0.1)


def receive(peer: socket.socket, count: int) -> tuple[float, ...]:
    """Read so many numbers. Raises ConnectionError when the peer is gone."""
    data = b""
    while len(data) < 8 * count:
        chunk = peer.recv(8 * count - len(data))
        if not chunk:
            raise ConnectionError("a rank is gone")
        data += chunk
    return struct.unpack(f"!{count}d", data)


if __name__ == "__main__":
    sys.exit(main())
