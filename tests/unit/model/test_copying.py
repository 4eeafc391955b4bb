"""What bytes cost between two regions."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from broker.model.copying import GIB, EgressPrice

SIZES = st.integers(0, 1 << 50)


def test_a_gib_costs_what_a_gib_costs() -> None:
    assert EgressPrice(per_gib=Decimal("0.02")).of(500 * GIB) == Decimal(10)


@given(sizes=st.lists(SIZES, max_size=5), per_gib=st.decimals(0, 10, places=3))
def test_parts_never_cost_less_than_the_whole(sizes: list[int], per_gib: Decimal) -> None:
    price = EgressPrice(per_gib=per_gib)
    whole = price.of(sum(sizes))
    assert whole >= per_gib * sum(sizes) / GIB
    assert sum((price.of(size) for size in sizes), Decimal(0)) >= whole
