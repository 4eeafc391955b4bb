"""The bench works: it is run tiny, whole, and what it writes down is read. No value is judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.figure import Figure, median

KEYS = {"name", "value", "aim", "unit", "anchor"}


@pytest.mark.parametrize(
    ("value", "aim", "is_met"),
    [
        (0.6, ">= 0.6", True),
        (0.59, ">= 0.6", False),
        (2.5, "<= 2.5", True),
        (2.51, "<= 2.5", False),
        (0.99, "< 1", True),
        (1.0, "< 1", False),
    ],
)
def test_an_aim_is_an_operator_and_a_bound(value: float, aim: str, is_met: bool) -> None:
    assert Figure(name="f", value=value, aim=aim, unit="s", anchor="a").is_met is is_met


def test_a_median_says_no_more_than_four_digits() -> None:
    assert median([3.0, 1.0, 12345.678]) == 3.0
    assert median([12345.678]) == 12350.0


@pytest.mark.alone
def test_every_figure_is_measured_and_written_down(tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    subprocess.run(
        [sys.executable, "-m", "tests.bench", "--tiny", "--out", str(out)],
        check=True,
        cwd=Path(__file__).parents[3],
        timeout=300,
    )
    figures = json.loads(out.read_text())
    assert all(figure.keys() == KEYS for figure in figures)
    assert {figure["name"].partition(",")[0].partition(":")[0] for figure in figures} == {
        "durable SubmitRun",
        "one placing tick",
        "restart",
        "broker status",
        "preempted",
        "whole at the gate",
    }
    assert all(figure["value"] > 0 for figure in figures)
