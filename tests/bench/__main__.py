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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.bench import asking, moving, placing, restarting, submitting
from tests.bench.figure import FULL, TINY, Bench, Figure, Measuring, Size, show, write
from tests.bench.household import Household

BENCHES: Mapping[str, Bench] = {
    "submitting": submitting.measure,
    "placing": placing.measure,
    "restarting": restarting.measure,
}
# These leave a brokerd as they found it, and share one.
AT_HOME: Mapping[str, Callable[[Size, Household], Measuring]] = {
    "asking": asking.measure,
    "moving": moving.measure,
}
OUT = Path(__file__).parents[2] / "build" / "bench.json"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="The figures.")
    parser.add_argument(
        "names", nargs="*", choices=[*BENCHES, *AT_HOME, []], help="all, when none is named"
    )
    parser.add_argument("--tiny", action="store_true", help="only show that the bench works")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    size = TINY if options.tiny else FULL
    figures: list[Figure] = []
    asyncio.run(_measure(options.names or [*BENCHES, *AT_HOME], size, figures, options.out))
    show(figures)
    return 0


async def _measure(names: Sequence[str], size: Size, figures: list[Figure], out: Path) -> None:
    """Measure what is named; each figure is written down at once, whatever comes of the rest."""

    async def take(name: str, measuring: Measuring) -> None:
        began_s = time.monotonic()
        figures.extend(await measuring)
        sys.stderr.write(f"{name}: measured in {time.monotonic() - began_s:.0f} s\n")
        write(figures, out)

    for name in names:
        if name in BENCHES:
            await take(name, BENCHES[name](size))
    at_home = [name for name in names if name in AT_HOME]
    if at_home:
        with Household() as brokerd:
            await brokerd.until_ready()
            for name in at_home:
                await take(name, AT_HOME[name](size, brokerd))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
