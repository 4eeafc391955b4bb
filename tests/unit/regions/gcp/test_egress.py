"""What a GiB costs between two locations: the list, ops' own prices, and what nobody knows."""

from __future__ import annotations

from decimal import Decimal
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regions.gcp.prices.egress import (
    MOST_PER_GIB,
    EgressQuote,
    EgressTable,
    EgressTerm,
    problems,
)
from regions.gcp.prices.shipped import shipped_egress

LOCATIONS = (
    *("us-central1", "us-east4", "us", "northamerica-northeast1", "europe-west4", "europe-west1"),
    *("eu", "asia-southeast1", "asia-southeast2", "asia-east1", "australia-southeast1"),
    *("southamerica-east1", "me-west1", "africa-south1", "on-premises", ""),
)
DEAREST = Decimal("0.15")


@pytest.mark.parametrize(
    ("source", "destination", "per_gib"),
    [
        ("us-central1", "us-central1", "0"),
        ("us-central1", "us-east4", "0.02"),
        ("us", "us-central1", "0.02"),
        ("us-central1", "northamerica-northeast1", "0.02"),
        ("europe-west1", "europe-west4", "0.02"),
        ("us-central1", "europe-west4", "0.08"),
        ("asia-southeast1", "europe-west4", "0.08"),
        ("asia-southeast1", "asia-southeast2", "0.15"),
        ("australia-southeast1", "us-central1", "0.15"),
    ],
)
def test_the_list_that_comes_with_the_program(source: str, destination: str, per_gib: str) -> None:
    quote = shipped_egress().quote(source, destination)
    assert (quote.per_gib, quote.is_known) == (Decimal(per_gib), True)


@pytest.mark.parametrize("pair", [("us-central1", "me-west1"), ("", "us-east4"), ("alpha", "beta")])
def test_a_pair_without_a_price_costs_as_much_as_the_dearest_and_says_so(
    pair: tuple[str, str],
) -> None:
    quote = shipped_egress().quote(*pair)
    assert (quote.per_gib, quote.is_known) == (DEAREST, False)
    assert "prices.egress says what is paid" in quote.why


def test_a_list_of_nothing_knows_no_price_and_is_not_cheap() -> None:
    quote = EgressTable(areas={}, rows=()).quote("a", "b")
    assert (quote.per_gib, quote.is_known) == (MOST_PER_GIB, False)


def test_of_ops_own_prices_the_one_that_names_most_holds_whatever_their_order() -> None:
    world = EgressTerm(per_gib=Decimal(4))
    out = EgressTerm(per_gib=Decimal(3), source="europe")
    pair = EgressTerm(per_gib=Decimal(2), source="europe-west4", destination="us")
    for terms in permutations((world, out, pair)):
        table = shipped_egress(terms)
        found = [
            table.quote(*ends).per_gib
            for ends in (
                ("europe-west4", "us-east4"),
                ("europe-west1", "us-east4"),
                ("us-east4", "europe-west4"),
                ("europe-west4", "europe-west4"),
            )
        ]
        assert found == [2, 3, 4, 0]


def test_a_word_fits_whole_words_only() -> None:
    table = shipped_egress((EgressTerm(per_gib=Decimal(3), source="us"),))
    assert table.quote("us-east4", "europe-west1").per_gib == 3
    assert not table.quote("usa", "europe-west1").is_known


TERMS = st.builds(
    EgressTerm,
    per_gib=st.decimals(0, 10, places=3),
    source=st.sampled_from(("", "us", "europe", "europe-west4", "asia")),
    destination=st.sampled_from(("", "us", "us-central1", "asia-southeast2")),
)


@given(
    terms=st.lists(TERMS, max_size=4).map(tuple),
    source=st.sampled_from(LOCATIONS),
    destination=st.sampled_from(LOCATIONS),
)
def test_every_pair_has_a_price_and_only_what_stays_or_was_agreed_is_below_the_list(
    terms: tuple[EgressTerm, ...], source: str, destination: str
) -> None:
    listed = shipped_egress().quote(source, destination)
    quote = shipped_egress(terms).quote(source, destination)
    is_agreed = any(term.fits(source, destination) for term in terms)
    assert 0 <= quote.per_gib <= MOST_PER_GIB
    assert listed.per_gib > 0 or (source == destination != "")
    if source == destination != "":
        assert quote == EgressQuote(per_gib=Decimal(0), is_known=True, why="it stays where it is")
    elif not is_agreed:
        assert quote == listed


def test_ops_own_prices_that_cannot_be_are_told_by_their_place() -> None:
    terms = (
        EgressTerm(per_gib=Decimal(-1)),
        EgressTerm(per_gib=Decimal("NaN"), source="us"),
        EgressTerm(per_gib=Decimal(1), source="us"),
    )
    assert [field for field, _ in problems(terms)] == ["[0].per_gib", "[1].per_gib", "[2]"]
