"""Structured logs: one line an entry, whatever is in it."""

import json
import logging

import pytest

from broker.runtime import logs


@pytest.fixture(autouse=True)
def _restored() -> object:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_json_lines_hold_the_fields(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up("info", "json")
    logging.getLogger("room").warning("it moved", extra={"run": "teams/a/runs/b", "count": 3})
    entry = json.loads(capsys.readouterr().err)
    assert {k: entry[k] for k in ("level", "room", "message", "run", "count")} == {
        "level": "warning",
        "room": "room",
        "message": "it moved",
        "run": "teams/a/runs/b",
        "count": 3,
    }


def test_a_hostile_value_stays_on_its_line_and_within_bounds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.set_up("info", "logfmt")
    logging.getLogger("room").info(
        "seen", extra={"cluster": "a\nlevel=error forged=1" + "x" * 9000}
    )
    written = capsys.readouterr().err
    assert written.count("\n") == 1
    assert len(written) < logs.VALUE_MAX + 500


def test_what_is_below_the_level_is_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up("error", "logfmt")
    logging.getLogger("room").info("quiet")
    assert capsys.readouterr().err == ""


def test_a_trace_is_a_field_of_its_entry(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up("info", "json")
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("room").exception("failed")
    assert "ValueError: broken" in json.loads(capsys.readouterr().err)["trace"]
