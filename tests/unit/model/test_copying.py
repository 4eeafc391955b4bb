"""What bytes cost between two regions, and how fast they are taken to go."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from broker.model.copying import GIB, EgressPrice, is_another, smoothed

SIZES = st.integers(0, 1 << 50)


def test_a_gib_costs_what_a_gib_costs() -> None:
    assert EgressPrice(per_gib=Decimal("0.02")).of(500 * GIB) == Decimal(10)


@given(sizes=st.lists(SIZES, max_size=5), per_gib=st.decimals(0, 10, places=3))
def test_parts_never_cost_less_than_the_whole(sizes: list[int], per_gib: Decimal) -> None:
    price = EgressPrice(per_gib=per_gib)
    whole = price.of(sum(sizes))
    assert whole >= per_gib * sum(sizes) / GIB
    assert sum((price.of(size) for size in sizes), Decimal(0)) >= whole


RATES = st.floats(1.0, 1e12)


@given(former=RATES, rate=RATES)
def test_a_smoothed_rate_lies_between_what_was_and_what_is(former: float, rate: float) -> None:
    low, high = sorted((former, rate))
    assert low * 0.999 <= smoothed(former, rate) <= high * 1.001
    assert smoothed(None, rate) == rate


@given(first=RATES, settled=RATES)
def test_what_the_log_holds_is_never_far_from_what_copies_did(first: float, settled: float) -> None:
    kept = rate = smoothed(None, first)
    for _ in range(200):
        rate = smoothed(rate, settled)
        kept = rate if is_another(kept, rate) else kept
    assert kept * 0.7 <= settled <= kept * 1.4
