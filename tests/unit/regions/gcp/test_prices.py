"""From entries of the catalog to what a machine costs."""

from __future__ import annotations

from decimal import Decimal
from itertools import permutations
from typing import Any

import pytest
from google.cloud import billing_v1

from regions.gcp.prices.book import DAY_S, Ask, Book, Price, Quote, vanished
from regions.gcp.prices.naming import FLEX, GPU, ON_DEMAND, SPOT, Part
from regions.gcp.prices.reading import read
from regions.gcp.prices.shipped import shipped
from regions.gcp.prices.sku import Sku, Tier, rate_at
from regions.gcp.prices.summing import book_of
from regions.gcp.prices.tariffs import tariff
from regions.gcp.shapes import SHAPES
from regions.kueue import accelerators
from tests.unit.regions.gcp.making import (
    H100,
    H100_SPOT,
    NOW_S,
    flex_machine,
    make_entry,
    make_sku,
)

H100_PART = Part(kind=GPU, thing="H100", capacity_type=ON_DEMAND)


def read_all(entries: list[billing_v1.Sku]) -> list[Sku]:
    found = [read(billing_v1.Sku.pb(each)) for each in entries]
    return [each for each in found if isinstance(each, Sku)]


def test_a_machine_costs_the_sum_of_its_parts() -> None:
    book = book_of(read_all(flex_machine()), NOW_S)
    price = book.quote(ask(FLEX, machine="a3-highgpu-8g"), NOW_S)
    # 8 x 4.200761 + 208 x 0.010934 + 1872 x 0.000952 + 6000 x 0.080008 / 730
    assert price == Quote(
        per_gpu_hour=Decimal("4.790013"),
        why="a3-highgpu-8g in us-central1",
        source="the billing catalog",
        age_s=0.0,
    )
    assert {each.machine for each in book.prices} == {
        f"a3-highgpu-{count}g" for count in (1, 2, 4, 8)
    }


@pytest.mark.parametrize("missing", range(1, 4))
def test_without_one_of_its_parts_a_machine_has_no_price(missing: int) -> None:
    entries = flex_machine()
    del entries[missing]
    book = book_of(read_all(entries), NOW_S)
    assert book.prices == ()
    assert len(book.doubts) == 4
    assert "no rate of its" in book.doubts[0]


def test_a_spot_price_without_an_on_demand_price_stands_alone() -> None:
    entry = make_sku("Spot Preemptible A4 Nvidia B200 (1 gpu slice) running in X", price="4.9542")
    book = book_of([entry], NOW_S)
    assert {(each.machine, each.capacity_type, each.per_hour) for each in book.prices} == {
        ("a4-highgpu-8g", SPOT, Decimal("39.6336"))
    }
    assert book.quote(ask(ON_DEMAND, "B200"), NOW_S).why == (
        "no price of ON_DEMAND B200 in us-central1 is known"
    )


def test_the_smallest_geography_wins_in_every_order() -> None:
    wide = make_sku(price="9", regions=["us-central1", "us-east4", "us-west1"])
    middle = make_sku(price="8", regions=["us-central1", "us-east4"])
    narrow = make_sku(price="7", regions=["us-central1"])
    world = make_sku(price="3", regions=[], geography=1)
    for order in permutations([wide, middle, narrow, world]):
        rates = tariff(order)
        at = ("us-central1", "us-east4", "us-west1", "asia-east1")
        assert [rates.rate(H100_PART, region) for region in at] == [7, 8, 9, 3]
        assert rates.doubts == ()


def test_two_prices_of_the_same_geography_are_none() -> None:
    one = make_sku(price="9", regions=["us-central1"], sku_id="A")
    two = make_sku(price="8", regions=["us-central1"], sku_id="B")
    world = make_sku(price="3", regions=[], geography=1)
    rates = tariff([one, two, world])
    assert rates.rate(H100_PART, "us-central1") is None
    assert rates.rate(H100_PART, "us-east4") == 3
    assert rates.doubts == ("ON_DEMAND H100 GPU has 2 prices in us-central1",)


@pytest.mark.parametrize("fault", [{"price": "0"}, {"price": "7", "unit": "mo"}])
def test_a_narrow_price_in_doubt_is_not_replaced_by_a_wider_one(fault: dict[str, Any]) -> None:
    narrow = make_sku(regions=["us-central1"], **fault)
    rates = tariff([make_sku(price="9"), narrow])
    assert rates.rate(H100_PART, "us-central1") is None
    assert rates.rate(H100_PART, "us-east4") == 9
    assert len(rates.doubts) == 1


def test_the_flex_price_is_not_taken_for_the_on_demand_one() -> None:
    flex = make_sku(
        "Nvidia H100 80GB GPU attached to DWS Defined Duration VMs running in Americas",
        price="4.2",
    )
    for order in permutations([flex, make_sku(price="9.8")]):
        rates = tariff(order)
        assert rates.rate(H100_PART, "us-east4") == Decimal("9.8")


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (make_entry(price="-4.5"), "its price is no amount to pay"),
        (make_entry(price="1000001"), "its price of $1000001 cannot be"),
        (make_entry(currency="EUR"), "it is in 'EUR', not in US dollars"),
        (make_entry(regions=[]), "names no region"),
        (billing_v1.Sku(description=H100), "has no price"),
        (billing_v1.Sku(description=H100, pricing_info=[{}]), "it has 0 tiers"),
    ],
)
def test_an_entry_that_cannot_be_is_refused(entry: billing_v1.Sku, why: str) -> None:
    found = read(billing_v1.Sku.pb(entry))
    assert isinstance(found, str)
    assert why in found
    assert found.startswith(repr(H100))


def test_halves_of_an_amount_with_two_signs_are_refused() -> None:
    entry = make_entry()
    entry.pricing_info[0].pricing_expression.tiered_rates[0].unit_price.nanos = -5
    assert isinstance(read(billing_v1.Sku.pb(entry)), str)


def test_money_is_exact_and_the_newest_pricing_counts() -> None:
    entry = make_entry(price="9.796550569", since_s=1_790_000_000)
    entry.pricing_info.append(make_entry(price="1", since_s=1_780_000_000).pricing_info[0])
    found = read(billing_v1.Sku.pb(entry))
    assert isinstance(found, Sku)
    assert found.tiers == (Tier(start=Decimal("0.0"), price=Decimal("9.796550569")),)


@pytest.mark.parametrize(
    ("amount", "rate"), [("0", "0"), ("99", "0"), ("100", "0.02"), ("5000", "0.01")]
)
def test_the_tier_that_applies_counts(amount: str, rate: str) -> None:
    steps = [("0", "0"), ("100", "0.02"), ("1000", "0.01")]
    tiers = tuple(Tier(start=Decimal(start), price=Decimal(price)) for start, price in steps)
    assert rate_at(tiers, Decimal(amount)) == Decimal(rate)
    assert rate_at(tiers[1:], Decimal(50)) is None


def test_parts_that_sum_up_to_what_cannot_be_make_no_price() -> None:
    entries = flex_machine()
    entries[1] = make_entry(
        "DWS Defined Duration A3 Core running in Americas", price="999", regions=["us-central1"]
    )
    book = book_of(read_all(entries), NOW_S)
    assert book.prices == ()
    assert all("which cannot be" in each for each in book.doubts)


def test_of_machines_that_fit_the_dearest_is_quoted() -> None:
    prices = (make_price("g2-standard-4", "0.70"), make_price("g2-standard-32", "1.70"))
    book = Book(prices=prices)
    assert book.quote(ask(ON_DEMAND, "L4", per_node=1), NOW_S).per_gpu_hour == Decimal("1.70")
    small = ask(ON_DEMAND, "L4", machine="g2-standard-4")
    assert book.quote(small, NOW_S).per_gpu_hour == Decimal("0.70")
    assert book.quote(ask(ON_DEMAND, "L4", per_node=8), NOW_S).per_gpu_hour is None


def test_a_price_says_who_listed_it_and_how_old_it_is() -> None:
    book = Book(prices=(make_price("g2-standard-4", "0.70"),))
    found = book.quote(ask(ON_DEMAND, "L4"), NOW_S + 9 * DAY_S)
    assert found == Quote(
        per_gpu_hour=Decimal("0.70"),
        why="g2-standard-4 in us-central1",
        source="a test",
        age_s=9 * DAY_S,
    )


def test_a_price_that_is_needed_and_vanishes_is_said() -> None:
    before = Book(prices=(make_price("g2-standard-4", "0.70"),))
    asked = (ask(ON_DEMAND, "L4"), ask(SPOT, "L4"))
    assert vanished(before, Book(prices=()), asked) == (
        "the price of ON_DEMAND L4 in us-central1 is not in the catalog any more",
    )


def test_list_prices_come_with_their_source_and_date() -> None:
    book = shipped()
    spot = book.quote(ask(SPOT, region="us-east4", per_node=8), NOW_S)
    assert spot.per_gpu_hour == Decimal("1.85668")
    assert spot.source.endswith(", 2025-10-18")
    assert book.quote(ask(ON_DEMAND, per_node=8), NOW_S).per_gpu_hour == Decimal("11.06125")
    assert book.quote(ask(ON_DEMAND, "H200", region="europe-west4"), NOW_S).per_gpu_hour is None
    assert all(each.as_of_s < NOW_S + 365 * DAY_S and each.source for each in book.prices)
    assert {each.machine for each in book.prices} <= SHAPES.keys()


def test_a_machine_has_what_its_name_says() -> None:
    told = {each.machine: (each.accelerator, each.accelerators) for each in SHAPES.values()}
    assert len(told) == 25
    assert told["a2-megagpu-16g"] == ("A100", 16)
    assert told["a3-megagpu-8g"] == ("H100-MEGA", 8)
    assert told["g2-standard-24"] == ("L4", 2)
    assert [
        each.machine
        for each in SHAPES.values()
        if accelerators.per_node({accelerators.MACHINE_LABEL: each.machine}) != each.accelerators
    ] == []


def ask(
    capacity_type: str,
    accelerator: str = "H100",
    *,
    region: str = "us-central1",
    per_node: int | None = None,
    machine: str = "",
) -> Ask:
    return Ask(
        region=region,
        capacity_type=capacity_type,
        accelerator=accelerator,
        per_node=per_node,
        machine=machine,
    )


def make_price(machine: str, per_hour: str) -> Price:
    return Price(
        machine=machine,
        accelerator="L4",
        accelerators=1,
        region="us-central1",
        capacity_type=ON_DEMAND,
        per_hour=Decimal(per_hour),
        as_of_s=NOW_S,
        source="a test",
    )


def test_a_spot_entry_is_read_with_its_region() -> None:
    sku = make_sku(H100_SPOT, "Preemptible", price="1.5", regions=["us-east4"], geography=2)
    assert (sku.regions, sku.is_global) == (frozenset({"us-east4"}), False)
