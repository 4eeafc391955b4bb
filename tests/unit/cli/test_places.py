"""What a person reads of the places a run could start."""

from __future__ import annotations

import pytest

from broker.cli import exits
from broker.cli.main import main
from broker.cli.places import show_estimate
from broker.cli.session import Session
from broker.v1 import offer_pb2


def test_the_star_of_an_offer_is_said_to_be_where_it_goes_next(
    capsys: pytest.CaptureFixture[str],
) -> None:
    estimate = offer_pb2.Estimate(offers=[offer_pb2.Offer(gpus=1, chosen=True)])
    show_estimate(Session(server="", team="", is_json=False), estimate, estimate)
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("* ")
    assert lines[-1] == "* where it would go next"


def test_a_star_is_not_explained_where_there_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    estimate = offer_pb2.Estimate(offers=[offer_pb2.Offer(gpus=1)])
    show_estimate(Session(server="", team="", is_json=False), estimate, estimate)
    assert "*" not in capsys.readouterr().out


def test_a_working_directory_that_is_not_there_is_refused_before_anything_is_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    typed = ["submit", "--workdir", "/nowhere/at/all", "--validate-only", "--", "true"]
    assert main(typed) == exits.USAGE
    assert "/nowhere/at/all" in capsys.readouterr().err
