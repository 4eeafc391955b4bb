"""What a person reads of the places a run could start."""

from __future__ import annotations

import pytest

from broker.cli import exits
from broker.cli.main import main
from broker.cli.places import show_estimate, variants
from broker.cli.session import Session
from broker.v1 import intent_pb2, offer_pb2


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


def tried(regions: list[str], *capacity_types: int) -> dict[str, list[str]]:
    """Return the regions of each variant of an intent that accepts these; three regions are."""
    intent = intent_pb2.Intent()
    intent.terms.regions[:] = regions
    intent.terms.capacity_types[:] = [intent_pb2.CapacityType.ValueType(n) for n in capacity_types]
    there = ["alpha", "beta", "gamma"]
    return {one.title: list(one.intent.terms.regions) for one in variants(intent, there)}


def test_who_names_no_region_is_shown_each_alone_and_all_together() -> None:
    assert tried([], 1, 2, 3, 4) == {
        "as it is, every region": [],
        "only reserved": [],
        "only on-demand": [],
        "only spot": [],
        "only flex": [],
        "only alpha": ["alpha"],
        "only beta": ["beta"],
        "only gamma": ["gamma"],
    }


def test_who_names_regions_is_shown_those_alone_and_every_one_together() -> None:
    assert tried(["alpha", "gamma"], 1, 2, 3, 4) == {
        "as it is": ["alpha", "gamma"],
        "only reserved": ["alpha", "gamma"],
        "only on-demand": ["alpha", "gamma"],
        "only spot": ["alpha", "gamma"],
        "only flex": ["alpha", "gamma"],
        "only alpha": ["alpha"],
        "only gamma": ["gamma"],
        "every region": [],
    }
