"""``python -m tests.bench``: every figure, as a table and in build/bench.json.

python -m tests.bench                       all of them: under ten minutes on two cores
python -m tests.bench placing restarting    some of them
python -m tests.bench --tiny                to see that they work; their values mean nothing
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench import asking, moving, placing, restarting, submitting
from tests.bench.figure import FULL, TINY, Bench, Figure, show, write

BENCHES: Mapping[str, Bench] = {
    "submitting": submitting.measure,
    "placing": placing.measure,
    "restarting": restarting.measure,
    "asking": asking.measure,
    "moving": moving.measure,
}
OUT = Path(__file__).parents[2] / "build" / "bench.json"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="The figures.")
    parser.add_argument("names", nargs="*", choices=[*BENCHES, []], help="all, when none is named")
    parser.add_argument("--tiny", action="store_true", help="only show that the bench works")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    size = TINY if options.tiny else FULL
    figures: list[Figure] = []
    for name in options.names or BENCHES:
        began_s = time.monotonic()
        figures += asyncio.run(BENCHES[name](size))
        sys.stderr.write(f"{name}: measured in {time.monotonic() - began_s:.0f} s\n")
    show(figures)
    write(figures, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
