"""``python -m tests.model [--large]``: search, and say how far it went.

The rule: it prints each search as it ends, and exits with 1 at the first law that is broken. The
large ones take minutes to hours and some gigabytes of memory.
"""

import argparse
import sys
import time

from tests.model.bounds import LARGE, SMALL
from tests.model.explore import explore
from tests.model.rules import PRODUCTION


def main() -> int:
    """Search within the small bounds, or within the large ones as well."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--large", action="store_true", help="search the large bounds too")
    arguments = parser.parse_args()
    for name, bounds in {**SMALL, **(LARGE if arguments.large else {})}.items():
        begun_s = time.monotonic()
        outcome = explore(bounds, PRODUCTION)
        took_s = time.monotonic() - begun_s
        line = f"{name}: {outcome.states} states, {outcome.moves} moves, {took_s:.0f} s"
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
        if outcome.violation is not None:
            sys.stdout.write(f"{outcome.violation}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
