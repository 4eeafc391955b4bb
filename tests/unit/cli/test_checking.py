"""A submit that waits for the check of an image, and what it does not wait for."""

from pathlib import Path
from typing import Any

import pytest

from broker.cli import checking, exits
from broker.cli.session import Session
from broker.v1 import run_pb2

VALIDATING = run_pb2.RUN_STATE_VALIDATING


def test_a_broker_that_goes_away_meanwhile_takes_nothing_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.cli.session.RETRY_FOR_S", 0.0)
    monkeypatch.setattr(checking, "WITHIN_S", 0.3)
    monkeypatch.setenv("HOME", str(tmp_path))
    run = run_pb2.Run(name="teams/sky/runs/digits", state=VALIDATING)
    told: list[str] = []
    with Session(server=f"unix:{tmp_path}/gone.sock", team="sky", is_json=False) as session:
        found: Any = checking.checked(session, run, told.append)
    assert (found, checking.code_of(found)) == (run, exits.OK)
    assert any("no broker answers" in one for one in told)
