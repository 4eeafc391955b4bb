"""What is told of a cluster that does not answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.model.policy import RegionPolicy
from broker.model.reasons import Reason
from broker.service.silence import silence_message
from tests.builders import make_moment
from tests.unit.placement.pictures import make_cluster, make_flavor

HEARD = make_cluster(make_flavor("alpha"))
SILENT = replace(HEARD, is_reachable=False, silent_since_elapsed_s=94.0)
UNREAD = replace(HEARD, is_store_reachable=False, silent_since_elapsed_s=94.0)


@pytest.mark.parametrize(
    "facts",
    [
        HEARD,
        replace(UNREAD, doubt=(Reason.STORE_WIPED, "it was wiped")),
        replace(SILENT, is_configured=False),
    ],
)
def test_of_what_answers_or_has_words_of_its_own_nothing_is_said(facts: object) -> None:
    assert silence_message(facts, RegionPolicy(), make_moment(100.0)) == ""  # type: ignore[arg-type]


def test_a_short_silence_is_said_with_what_comes_of_it() -> None:
    assert silence_message(SILENT, RegionPolicy(), make_moment(100.0)) == (
        "it does not answer now, and has not for 6 s: it is asked again and again, and nothing new"
        " is sent there; runs that wait there look elsewhere too after 60 s of it; what trains"
        " there is believed to train on, and is replaced only when a person says broker replace"
    )


def test_why_it_does_not_answer_is_said_in_the_words_of_whoever_asked() -> None:
    facts = replace(SILENT, silence="the API server does not know us (401)")
    said = silence_message(facts, RegionPolicy(), make_moment(100.0))
    assert said.startswith(
        "it does not answer now (the API server does not know us (401)), and has not for 6 s:"
    )


def test_a_long_silence_is_said_with_what_came_of_it() -> None:
    policy = replace(RegionPolicy(), replace_unreachable_after_s=1800.0)
    assert silence_message(SILENT, policy, make_moment(394.0)) == (
        "it does not answer now, and has not for 5 min: it is asked again and again, and nothing"
        " new is sent there; runs that wait there look elsewhere too; what trains there is believed"
        " to train on, and is replaced after 30 min of it"
    )


def test_a_silent_store_is_told_from_a_silent_cluster() -> None:
    assert silence_message(UNREAD, RegionPolicy(), make_moment(100.0)) == (
        "its store does not answer now, and has not for 6 s: nothing starts there and no start"
        " there is closed until it does; what trains there trains on"
    )


def test_what_was_never_heard_is_said_to_be_so() -> None:
    facts = replace(SILENT, silent_since_elapsed_s=None)
    assert "not been heard yet" in silence_message(facts, RegionPolicy(), make_moment(100.0))
