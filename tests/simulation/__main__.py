"""``python -m tests.simulation --seeds 0:200 | --seed N [--trace]``: play seeds, say which broke.

The rule: a line for each seed that broke a law, with the shortest story that explains it, and the
exit code 1 then. Read ``main``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from tests.simulation.play import Outcome, play

EVERY = 25
STORY = 14


def main() -> int:
    """Play the seeds that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", default="0:200", metavar="FROM:TO")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="plays at once")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--trace", action="store_true", help="tell all that happened")
    parser.add_argument("--about", default="", help="with --trace: only what is about this")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        outcome = play(arguments.seed)
        if arguments.trace:
            _say(_lines(outcome.trace, arguments.about))
        _say([_summary(outcome), *_failures(outcome)])
        return 1 if outcome.breaches else 0
    first, _, last = arguments.seeds.partition(":")
    return _play_all(range(int(first), int(last)), max(1, arguments.jobs))


def _play_all(seeds: range, jobs: int) -> int:
    began_s = time.monotonic()
    broken, cpu_s, totals = [], 0.0, Counter[str]()
    with ProcessPoolExecutor(jobs) as pool:
        for count, told in enumerate(pool.map(_told, seeds), 1):
            cpu_s += told.cpu_s
            totals.update(told.counts)
            if told.lines:
                broken.append(told.seed)
                _say(told.lines)
            if count % EVERY == 0 or count == len(seeds):
                spent_s = time.monotonic() - began_s
                _say([f"{count} seeds, {len(broken)} broken, {spent_s:.0f} s"])
    _say([_coverage(totals, cpu_s, max(1, len(seeds)))])
    if broken:
        _say([f"broken: {' '.join(map(str, broken))}; tell one with --seed N --trace"])
    return 1 if broken else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What is to be said of a seed: no lines when every law held."""

    seed: int
    lines: list[str]
    cpu_s: float
    counts: Mapping[str, int]


def _told(seed: int) -> _Told:
    began_s = time.process_time()
    outcome = play(seed)
    return _Told(
        seed=seed,
        lines=[_summary(outcome), *_failures(outcome)] if outcome.breaches else [],
        cpu_s=time.process_time() - began_s,
        counts=outcome.counts,
    )


def _coverage(totals: Mapping[str, int], cpu_s: float, seeds: int) -> str:
    """Say what a seed covers at the mean, and what it costs."""
    means = ", ".join(f"{count / seeds:.1f} {what}" for what, count in sorted(totals.items()))
    return f"a seed: {means}; {cpu_s / seeds:.2f} s of a core"


def _summary(outcome: Outcome) -> str:
    return (
        f"seed {outcome.seed}: {'BROKEN' if outcome.breaches else 'holds'}; {outcome.events}"
        f" events, {outcome.lives} lives, {outcome.gangs} gangs, {outcome.lasted_s:.0f} s"
    )


def _failures(outcome: Outcome) -> list[str]:
    lines: list[str] = []
    for breach in outcome.breaches:
        lines.append(f"  {breach}")
        story = [one for one in outcome.trace if one[1] == breach.about and one[0] <= breach.at_s]
        lines += [f"    {line}" for line in _lines(story[-STORY:], "")]
    return lines


def _lines(trace: Iterable[tuple[float, str, str]], about: str) -> list[str]:
    return [f"{at_s:9.2f} {who[:12]:12} {text}" for at_s, who, text in trace if about in ("", who)]


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # Sets of names are walked in the order of their hashes: the same in every run.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    sys.exit(main())
