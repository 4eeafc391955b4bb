"""Scenario files: what deciding makes of what clusters report, told as a trace.

``REWRITE=1 pytest tests/scenarios`` writes the traces anew; read the diff, and commit only what
you understand.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.stage import Stage

FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_scenario_is_told_as_written(file: Path) -> None:
    written = file.read_text()
    told = perform(written)
    if os.environ.get("REWRITE") == "1":
        file.write_text(told)
    else:
        assert told == written


def test_every_scenario_is_found() -> None:
    assert len(FILES) >= 8


def read(text: str) -> Iterator[tuple[str, str]]:
    """Yield (commands, trace) of each block of a scenario file; a comment stands with commands."""
    for block in text.strip().split("\n\n"):
        asked, _, told = block.partition("\n----")
        yield asked.strip("\n"), told.strip("\n")


def perform(text: str) -> str:
    """Return the scenario with the traces that it makes now."""
    stage = Stage()
    blocks = []
    for asked, _ in read(text):
        lines = [line for line in asked.splitlines() if line and not line.startswith("#")]
        told = [stage.play(line) for line in lines]
        shown = [one for one in told if one != "ok"] or ["ok"]
        blocks.append(f"{asked}\n----\n" + "\n".join(shown) if lines else asked)
    return "\n\n".join(blocks) + "\n"
