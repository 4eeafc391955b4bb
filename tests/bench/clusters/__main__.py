"""``make bench-cluster``: every figure of real Kueue regions, in build/bench-cluster.json.

python -m tests.bench.clusters                            all of them: under an hour on two cores
python -m tests.bench.clusters hedged memory              some of them
python -m tests.bench.clusters --singles 2 --runs 6 --rounds 1 --workloads 50 --rest 10
                                                          to see that they work
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tests.bench.clusters import at_once, at_rest, memory, singly
from tests.bench.clusters.ground import ZONES, Ground, Size
from tests.bench.figure import Figure, show, write
from tests.cluster.rig.building import build
from tests.cluster.rig.rig import Rig

MEASURES: Mapping[str, Callable[[Ground], list[Figure]]] = {
    "at-rest": at_rest.measure,
    "singly": singly.measure,
    "hedged": singly.measure_hedged,
    "at-once": at_once.measure,
    "memory": memory.measure,  # it leaves Kueue stopped
}
OUT = Path(__file__).parents[3] / "build" / "bench-cluster.json"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.clusters", description="Figures.")
    parser.add_argument("names", nargs="*", choices=[*MEASURES, []], help="all, when none is named")
    parser.add_argument("--singles", type=int, default=15, help="starts one at a time, a side")
    parser.add_argument("--runs", type=int, default=150, help="starts at once, a side")
    parser.add_argument("--rounds", type=int, default=3, help="how often so many start at once")
    parser.add_argument("--workloads", type=int, default=5_000, help="of a watched cluster")
    parser.add_argument("--rest", type=float, default=60.0, help="seconds in which nothing happens")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    size = Size(
        singles=options.singles,
        runs=options.runs,
        rounds=options.rounds,
        workloads=options.workloads,
        rest_s=options.rest,
    )
    build(say)
    say(f"load average before anything of this runs: {load()}")
    figures: list[Figure] = []
    with (
        tempfile.TemporaryDirectory(prefix="bench-cluster-") as folder,
        Rig(tuple(ZONES), Path(folder) / "rig") as rig,
        Ground(rig, Path(folder), size, say) as ground,
    ):
        for name in [one for one in MEASURES if one in (options.names or MEASURES)]:
            began_s, before = time.monotonic(), load()
            found = MEASURES[name](ground)
            beside = f"load average {before} before and {load()} after"
            say(f"{name}: measured in {time.monotonic() - began_s:.0f} s, {beside}")
            figures += [replace(one, anchor=f"{one.anchor}; {beside}") for one in found]
            write(figures, options.out)
    show(figures)
    return 0


def say(words: str) -> None:
    """Tell whoever waits how far it is."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {words}\n")
    sys.stderr.flush()


def load() -> str:
    """Return the machine's load average of the last minute: what else ran is in it."""
    return f"{os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
