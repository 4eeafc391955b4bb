"""The legal moves of runs, placements and epochs as Markdown, from the tables that rule them.

The rule: the page is never written by hand. ``rewritten(page)`` puts the tables between the page's
markers; as a program this is a filter from the old page to the new one:
``python -m broker.history.tables <broker/ARCHITECTURE.md``.
"""

import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from broker.model.states import EPOCH_MOVES, PLACEMENT_MOVES, RUN_MOVES

HEADING = "## Legal moves"
BEGIN = "<!-- the legal moves begin: rendered by broker.history.tables -->"
END = "<!-- the legal moves end -->"

_State = TypeVar("_State", bound=StrEnum)


def legal_moves() -> str:
    """Return the three tables as Markdown."""
    sections = (
        _table("Run", RUN_MOVES),
        _table("Placement", PLACEMENT_MOVES),
        _table("Epoch", EPOCH_MOVES),
    )
    return "\n\n".join(sections)


def rewritten(page: str) -> str:
    """Return the page with the tables between its markers; without markers they are added."""
    block = f"{BEGIN}\n\n{legal_moves()}\n\n{END}"
    if BEGIN in page and END in page:
        before, _, rest = page.partition(BEGIN)
        return before + block + rest.partition(END)[2]
    title = "" if page.rstrip().endswith(HEADING) else f"{HEADING}\n\n"
    return f"{page.rstrip()}\n\n{title}{block}\n"


def _table(name: str, moves: Mapping[_State, frozenset[_State]]) -> str:
    lines = [f"| {name} | may become |", "|---|---|"]
    for state, targets in moves.items():
        # In the order of the enum, which is the order of a life.
        named = ", ".join(f"`{target}`" for target in type(state) if target in targets)
        lines.append(f"| `{state}` | {named or '(final)'} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(rewritten(sys.stdin.read()))
