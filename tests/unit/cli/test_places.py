"""What a person reads of the places a run could start."""

from __future__ import annotations

import re

import pytest

from broker.cli import exits
from broker.cli.answers import ANSWERS
from broker.cli.main import main
from broker.cli.places import Tried, show_estimate, tried_json, variants, why_nowhere
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


NEVER = "no place can ever take it; none has nodes with 8 x H100"
NONE = offer_pb2.Estimate(refusals=[offer_pb2.Refusal()], summary=NEVER, never_fits=True)
SOME = offer_pb2.Estimate(offers=[offer_pb2.Offer(gpus=1)], summary="a place was found")


def test_terms_that_lead_nowhere_are_told_why_once() -> None:
    whole: list[Tried] = [("as it is", NONE, ""), ("only spot", NONE, ""), ("only flex", NONE, "")]
    assert why_nowhere(whole) == [f"nowhere: {NEVER}"]
    some: list[Tried] = [("as it is", SOME, ""), ("only spot", NONE, ""), ("only flex", NONE, "")]
    assert why_nowhere(some) == [f"only spot; only flex: {NEVER}"]
    refused: list[Tried] = [*some, ("only mars", None, "there is no region mars")]
    assert why_nowhere(refused) == [
        f"only spot; only flex: {NEVER}",
        "only mars: there is no region mars",
    ]
    assert why_nowhere([("as it is", SOME, "")]) == []


def test_programs_are_told_why_too() -> None:
    assert tried_json("only spot", NONE, "")["why_nowhere"] == NEVER
    assert tried_json("as it is", SOME, "")["why_nowhere"] == ""
    assert tried_json("only mars", None, "there is no region mars") == {
        "terms": "only mars",
        "error": "there is no region mars",
        "why_nowhere": "there is no region mars",
        "estimate": None,
    }


def test_the_help_names_what_programs_are_told() -> None:
    said = re.fullmatch(r"\{variants: \[\{(.+)\}\]\}", ANSWERS["simulate"])
    assert said is not None
    keys = [key.partition(":")[0] for key in said[1].split(", ")]
    assert keys == list(tried_json("as it is", SOME, ""))


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
