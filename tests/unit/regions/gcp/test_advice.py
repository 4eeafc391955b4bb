"""The cloud's advice as a prior that yields to evidence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regions.gcp.advice import STEP, Advice, Try, chance, question, read_advice, settled

SCORES = st.floats(0, 1)
AGES = st.floats(0, 1e6)
TRIES = st.lists(st.builds(Try, came=st.booleans(), age_s=AGES), max_size=8)


def refused(count: int, age_s: float = 60.0) -> list[Try]:
    return [Try(came=False, age_s=age_s)] * count


@pytest.mark.parametrize(
    ("advice", "age_s", "tries", "answer"),
    [
        (None, 0.0, [], 0.50),
        (0.9, 0.0, [], 0.82),
        (0.9, 0.0, refused(1), 0.59),
        (0.9, 0.0, refused(3), 0.38),
        (0.1, 0.0, [Try(came=True, age_s=60.0)] * 3, 0.62),
        (0.9, 36_000.0, [], 0.50),
        (0.9, 0.0, refused(3, 36_000.0), 0.82),
    ],
)
def test_the_formula_gives_what_its_page_says(
    advice: float | None, age_s: float, tries: list[Try], answer: float
) -> None:
    assert chance(advice, age_s, tries) == pytest.approx(answer, abs=0.005)


@given(advice=st.none() | SCORES, age_s=AGES, tries=TRIES)
def test_a_chance_is_between_never_and_always(
    advice: float | None, age_s: float, tries: list[Try]
) -> None:
    assert 0 < chance(advice, age_s, tries) < 1


@given(advice=SCORES, age_s=AGES, tries=TRIES, when=st.floats(0, 3600))
def test_what_was_seen_moves_the_chance_its_own_way(
    advice: float, age_s: float, tries: list[Try], when: float
) -> None:
    before = chance(advice, age_s, tries)
    assert chance(advice, age_s, [*tries, Try(came=True, age_s=when)]) > before
    assert chance(advice, age_s, [*tries, Try(came=False, age_s=when)]) < before


@given(advice=SCORES, other=SCORES)
def test_advice_yields_to_evidence(advice: float, other: float) -> None:
    alone = abs(chance(advice, 0.0, []) - chance(other, 0.0, []))
    tried = abs(chance(advice, 0.0, refused(6, 0.0)) - chance(other, 0.0, refused(6, 0.0)))
    assert tried <= alone * 0.3 + 1e-9


def test_a_choice_is_not_turned_over_by_noise() -> None:
    assert settled(None, 0.54) == 0.54
    assert settled(0.54, 0.54 + STEP - 0.01) == 0.54
    assert settled(0.54, 0.81) == 0.81


def test_advice_is_read_zone_by_zone() -> None:
    shard = {
        "zone": "projects/p/zones/us-central1-a",
        "machineType": "a3-highgpu-8g",
        "instanceCount": 2,
        "provisioningModel": "SPOT",
    }
    message = {
        "recommendations": [
            {"scores": {"obtainability": 0.9, "estimatedUptime": "3600s"}, "shards": [shard]},
            {"scores": {"obtainability": 7}, "shards": [shard]},
            {"scores": {"obtainability": True}, "shards": [shard]},
            {"scores": {"obtainability": 0.5}, "shards": [{"instanceCount": -1}, "odd"]},
            *({"scores": None}, 3),
        ]
    }
    assert read_advice(message) == (
        Advice(
            zone="us-central1-a",
            machine="a3-highgpu-8g",
            model="SPOT",
            obtainability=0.9,
            count=2,
        ),
    )
    assert read_advice({"recommendations": "none"}) == ()


def test_a_gang_is_asked_for_in_one_zone() -> None:
    asked = question("a3-highgpu-8g", 4, "SPOT")
    assert asked["size"] == 4
    assert asked["distributionPolicy"] == {"targetShape": "ANY_SINGLE_ZONE"}
    assert asked["instanceProperties"] == {"scheduling": {"provisioningModel": "SPOT"}}
