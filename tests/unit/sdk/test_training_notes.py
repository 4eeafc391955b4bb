"""Notes to and from the launcher are always whole and always JSON."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.sdk.training import Drain
from broker.sdk.training.notes import MAX_FIELDS, Progress, progress_document, read_drain


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def strictly(data: bytes) -> Any:
    return json.loads(data, parse_constant=refuse)


@given(
    step=st.integers(0, 2**62),
    loss=st.none() | st.floats(),
    fields=st.dictionaries(st.text(max_size=400), st.text(max_size=400) | st.floats() | st.none()),
)
def test_law_a_progress_note_is_json_whatever_the_loss(
    step: int, loss: float | None, fields: dict[str, object]
) -> None:
    document = strictly(progress_document(step, loss=loss, samples=None, fields=fields))
    is_finite = loss is not None and math.isfinite(loss)
    assert document["step"] == step
    assert document["loss"] == (loss if is_finite else None)
    assert ("loss_not_finite" in document["fields"]) or is_finite or loss is None
    assert len(document["fields"]) <= MAX_FIELDS + 1


def test_a_note_holds_numbers_of_any_library_and_says_what_is_not_finite() -> None:
    fields = {"lr": np.float32(0.5), "ok": True, "stage": "warm-up", "grad": float("inf")}
    data = progress_document(
        7, loss=float(np.float32("nan")), samples=9, fields={**fields, "odd": [1]}
    )
    assert strictly(data) == {
        "step": 7,
        "loss": None,
        "samples": 9,
        "fields": {
            "lr": 0.5,
            "ok": True,
            "stage": "warm-up",
            "grad": "inf",
            "odd": "[1]",
            "loss_not_finite": "nan",
        },
    }


def test_the_first_report_is_written_at_once_and_the_last_at_a_flush(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    progress = Progress(path, interval_s=3600)
    steps = []
    for step in (1, 2, 3):
        progress.report(step, loss=None, samples=None, fields={})
        steps.append(json.loads(path.read_bytes())["step"])
    progress.flush()
    assert [*steps, json.loads(path.read_bytes())["step"]] == [1, 1, 1, 3]
    assert [entry.name for entry in tmp_path.iterdir()] == ["progress.json"]


def test_a_report_that_cannot_be_written_is_left_to_the_next(tmp_path: Path) -> None:
    directory = tmp_path / "not yet"
    progress = Progress(directory / "progress.json", interval_s=0)
    progress.report(1, loss=1.0, samples=None, fields={})
    directory.mkdir()
    progress.flush()
    assert json.loads((directory / "progress.json").read_bytes())["step"] == 1


@pytest.mark.parametrize(
    ("text", "drain"),
    [
        ('{"reason": "PREEMPTED", "deadline_unix_s": 12.5}', Drain("PREEMPTED", 12.5)),
        ('{"reason": "OPERATOR", "deadline_unix_s": null}', Drain("OPERATOR", None)),
        ("{}", Drain("unknown", None)),
        ("", Drain("unknown", None)),
        ("[1]", Drain("unknown", None)),
        ('{"deadline_unix_s": "soon"}', Drain("unknown", None)),
    ],
)
def test_a_drain_that_is_there_is_heard_whatever_it_says(
    tmp_path: Path, text: str, drain: Drain
) -> None:
    assert read_drain(tmp_path / "drain.json") is None
    (tmp_path / "drain.json").write_text(text)
    assert read_drain(tmp_path / "drain.json") == drain


def test_what_remains_until_the_deadline() -> None:
    assert Drain("x", 100.0).remaining_s(90.0) == 10.0
    assert Drain("x", 100.0).remaining_s(101.0) == 0.0
    assert Drain("x", None).remaining_s(5.0) is None
