"""Whatever Google says, it is read or refused: nothing raises, and nothing absurd comes through."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from google.cloud import billing_v1, container_v1
from hypothesis import given, settings
from hypothesis import strategies as st

from regions.gcp.advice import read_advice
from regions.gcp.fleet.clusters import read_fleet
from regions.gcp.fleet.hearing import Heard, hear
from regions.gcp.fleet.pools import MAX_NODES
from regions.gcp.prices.naming import Part, classify
from regions.gcp.prices.reading import MAX_RATE, read
from regions.gcp.prices.sku import Sku
from regions.gcp.prices.summing import book_of
from regions.gcp.prices.tariffs import tariff
from regions.gcp.quota import UNLIMITED, quotas
from tests.unit.regions.gcp.making import NOW_S, flex_machine, make_entry, make_sku

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
WORDS = st.sampled_from(
    ["Spot", "Preemptible", "Nvidia", "H100", "80GB", "GPU", "DWS Defined Duration", "running in"]
) | st.text(max_size=8)
KEYS = st.sampled_from(
    [
        *("quotas", "metric", "limit", "usage", "quotaId", "dimensionsInfos", "dimensions"),
        *("region", "details", "value", "applicableLocations", "gpu_family", "name"),
        *("recommendations", "scores", "obtainability", "shards", "instanceCount", "zone"),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)
TABLES = st.dictionaries(KEYS, JSON, max_size=6)


@given(
    rates=st.lists(st.tuples(INT64, INT32, st.floats()), max_size=4),
    currency=st.sampled_from(["USD", "USD", "EUR", ""]),
    unit=st.sampled_from(["h", "GiBy.mo", ""]),
    geography=st.integers(0, 9),
)
def test_an_entry_is_a_price_that_can_be_or_a_reason(
    rates: list[tuple[int, int, float]], currency: str, unit: str, geography: int
) -> None:
    raw = billing_v1.Sku.pb(make_entry(unit=unit, geography=geography))
    del raw.pricing_info[0].pricing_expression.tiered_rates[:]
    for units, nanos, start in rates:
        rate = raw.pricing_info[0].pricing_expression.tiered_rates.add()
        rate.start_usage_amount = start
        rate.unit_price.units, rate.unit_price.nanos = units, nanos
        rate.unit_price.currency_code = currency
    found = read(raw)
    if isinstance(found, Sku):
        assert currency == "USD"
        assert all(0 <= each.price <= MAX_RATE for each in found.tiers)
        assert all(0 < each <= MAX_RATE for each in tariff([found]).rates.values())
    else:
        assert found


@given(words=st.lists(WORDS, max_size=8), usage=st.sampled_from(["OnDemand", "Preemptible", ""]))
def test_a_description_that_says_spot_or_flex_is_never_on_demand(
    words: list[str], usage: str
) -> None:
    description = " ".join(words)
    found = classify(description, usage)
    if isinstance(found, Part) and found.capacity_type == "ON_DEMAND":
        assert usage == "OnDemand"
        assert not any(each in description for each in ("Spot", "Preemptible", "DWS"))


@given(
    order=st.permutations(range(6)),
    prices=st.lists(st.integers(1, 3), min_size=6, max_size=6),
    widths=st.lists(st.integers(1, 3), min_size=6, max_size=6),
)
def test_a_tariff_does_not_depend_on_the_order_of_the_feed(
    order: list[int], prices: list[int], widths: list[int]
) -> None:
    skus = [
        make_sku(price=str(price), regions=[f"r{each}" for each in range(width)], sku_id=str(at))
        for at, (price, width) in enumerate(zip(prices, widths, strict=True))
    ]
    assert tariff([skus[at] for at in order]) == tariff(skus)


@given(kept=st.sets(st.integers(0, 3)))
def test_with_a_part_missing_no_machine_is_cheap(kept: set[int]) -> None:
    found = [read(billing_v1.Sku.pb(flex_machine()[at])) for at in sorted(kept)]
    book = book_of([each for each in found if isinstance(each, Sku)], NOW_S)
    costs = {each.per_hour for each in book.prices if each.machine == "a3-highgpu-8g"}
    whole = Decimal(8) * Decimal("4.200761")
    assert all(each > whole for each in costs)
    assert bool(costs) is (len(kept) == 4)


@given(
    status=INT32,
    codes=st.lists(st.tuples(INT32, INT32, st.text(max_size=12)), max_size=4),
    caps=st.tuples(INT32, INT32, st.booleans()),
    affinity=INT32,
    name=st.text(max_size=8),
    location=st.sampled_from(["us-central1", "us-central1-a", "", "..", "A b"]),
    missing=st.lists(st.text(max_size=8), max_size=3),
    certificate=st.text(max_size=12),
)
def test_a_listing_is_read_whatever_stands_in_it(**said: Any) -> None:
    listing = container_v1.ListClustersResponse.pb(container_v1.ListClustersResponse())
    listing.missing_zones.extend(said["missing"])
    cluster = listing.clusters.add(name=said["name"], location=said["location"])
    cluster.status = said["status"]
    cluster.master_auth.cluster_ca_certificate = said["certificate"]
    pool = cluster.node_pools.add(name=said["name"], status=said["status"])
    most, total, pool.autoscaling.enabled = said["caps"]
    pool.autoscaling.max_node_count, pool.autoscaling.total_max_node_count = most, total
    pool.config.reservation_affinity.consume_reservation_type = said["affinity"]
    pool.locations.extend(["us-central1-a", said["name"]])
    for code, canonical, message in said["codes"]:
        pool.conditions.add(code=code, canonical_code=canonical, message=message)
    fleet = read_fleet("p", listing)
    assert fleet.is_whole is (said["missing"] == [])
    for each in fleet.clusters.values():
        assert all(0 < (p.most_nodes or 1) <= 50 * MAX_NODES for p in each.pools)
    hear(Heard(), fleet, 0.0)


@settings(max_examples=40)  # such tables are slow to draw
@given(project=TABLES, regions=st.lists(TABLES, max_size=2), limits=st.lists(TABLES, max_size=2))
def test_quota_is_a_count_or_unknown(
    project: dict[str, Any], regions: list[dict[str, Any]], limits: list[dict[str, Any]]
) -> None:
    found = quotas(project, regions, limits)
    for quota in found.by_key.values():
        assert quota.room is None or 0 <= quota.room <= UNLIMITED


@settings(max_examples=40)
@given(message=TABLES)
def test_advice_is_a_chance_or_nothing(message: dict[str, Any]) -> None:
    assert all(0 <= each.obtainability <= 1 for each in read_advice(message))
