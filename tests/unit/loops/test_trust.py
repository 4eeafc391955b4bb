"""A store is hostile input: what it may say, and what that can do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.history.regional import BrokerState, RegionState, StoreDoubt
from broker.loops.trust import Sound, Superseded, Unclaimed, judge, life_name
from broker.model.reasons import Reason
from regions.cluster import StoreClaims
from tests.builders import make_moment

BROKER = BrokerState(incarnation=2, began=make_moment(5.0), key="secret")
OLDER = replace(BROKER, incarnation=1, began=make_moment(1.0))
NEWER = replace(BROKER, incarnation=1_700_000_000, began=make_moment(9.0))
STRANGER = replace(NEWER, key="another")
KNOWN = RegionState(id="alpha", store="one")
FRESH = RegionState(id="alpha")


def claims(*lives: BrokerState, store: str = "one") -> StoreClaims:
    written = {life.incarnation: life_name(life, store) for life in lives}
    return StoreClaims(identity=store, lives=written)


@pytest.mark.parametrize(
    ("region", "found", "verdict"),
    [
        pytest.param(KNOWN, claims(OLDER, BROKER), Sound(), id="it is ours"),
        pytest.param(KNOWN, claims(OLDER), Unclaimed(), id="a new life, not written down yet"),
        pytest.param(FRESH, StoreClaims(identity=""), Unclaimed(), id="a new store"),
        pytest.param(FRESH, claims(BROKER), Unclaimed(), id="killed before it was logged"),
    ],
)
def test_a_store_that_nothing_speaks_against(
    region: RegionState, found: StoreClaims, verdict: object
) -> None:
    assert judge(region, BROKER, found, {}) == verdict


@pytest.mark.parametrize(
    ("region", "found", "reason", "sentence"),
    [
        pytest.param(KNOWN, StoreClaims(identity=""), Reason.STORE_WIPED, "wiped", id="wiped"),
        pytest.param(
            KNOWN, claims(BROKER, store="two"), Reason.STORE_REPLACED, "another one", id="replaced"
        ),
        pytest.param(
            KNOWN,
            StoreClaims(identity="two", lives=claims(BROKER).lives),
            Reason.STORE_REPLACED,
            "another one",
            id="claims copied into another store",
        ),
        pytest.param(
            KNOWN,
            StoreClaims(identity="one", lives={**claims(BROKER).lives, 999_999_999: "1"}),
            Reason.STORE_NOT_OURS,
            "incarnations/999999999",
            id="a forged life",
        ),
        pytest.param(
            KNOWN,
            claims(BROKER, STRANGER),
            Reason.STORE_NOT_OURS,
            "another broker works there",
            id="another broker's newer life",
        ),
        pytest.param(
            FRESH,
            claims(replace(STRANGER, incarnation=1)),
            Reason.STORE_NOT_OURS,
            "another broker works there",
            id="another broker was here first",
        ),
        pytest.param(
            RegionState(id="alpha", store="that of beta"),
            claims(BROKER, store="that of beta"),
            Reason.STORE_REPLACED,
            "that of beta",
            id="a copy of another region's",
        ),
    ],
)
def test_a_store_that_is_not_ours_puts_its_region_out_of_use(
    region: RegionState, found: StoreClaims, reason: Reason, sentence: str
) -> None:
    doubt = judge(region, BROKER, found, {"that of beta": "beta"})
    assert isinstance(doubt, StoreDoubt)
    assert doubt.reason is reason
    assert sentence in doubt.message


def test_a_newer_life_of_this_data_ends_this_one() -> None:
    verdict = judge(KNOWN, BROKER, claims(OLDER, BROKER, NEWER), {})
    assert isinstance(verdict, Superseded)
    assert "life 1700000000 of this data is at work" in verdict.message


def test_a_backup_that_was_restored_twice_ends_the_second_life() -> None:
    twin = replace(BROKER, began=make_moment(6.0))
    verdict = judge(KNOWN, BROKER, claims(twin), {})
    assert isinstance(verdict, Superseded)
    assert "restored twice" in verdict.message


texts = st.text(max_size=60) | st.sampled_from(
    [life_name(BROKER, "one"), life_name(STRANGER, "one"), life_name(NEWER, "two"), "\ud800-x"]
)
stores = st.builds(
    StoreClaims,
    identity=st.sampled_from(["", "one", "two", "\x1b[2J"]),
    lives=st.dictionaries(st.integers(0, 10**18), texts, max_size=4),
)


@given(stores, st.sampled_from([KNOWN, FRESH]))
def test_whoever_does_not_hold_the_key_stops_no_broker(
    found: StoreClaims, region: RegionState
) -> None:
    # A claim of a newer life exists for the store called "two": seen in any other it is a copy.
    is_a_copy = found.identity != "two"
    verdict = judge(region, BROKER, found, {})
    assert not (is_a_copy and isinstance(verdict, Superseded))
