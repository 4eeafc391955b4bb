"""Scenario files: what deciding makes of what clusters report, told as a trace.

``REWRITE=1 pytest tests/scenarios`` writes the traces anew; read the diff, and commit only what
you understand.
"""

import os
from pathlib import Path

import pytest

from tests.scenarios.stage import perform

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
