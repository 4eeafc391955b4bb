"""What a GPU of a real cluster costs, and what is said when nobody knows."""

import asyncio
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from broker.config import Prices
from broker.fleet.fleet import Work
from broker.fleet.pricing import Pricing, open_egress, open_pricing
from broker.model.copying import EgressPrice
from regions.gcp.prices.egress import EgressTerm
from regions.gcp.prices.terms import Factor, Sunk
from regions.kueue.priced import Priced, PriceOf


async def _forever(work: Work) -> None:
    await work()


async def told_troubles(pricing: Pricing) -> tuple[str, ...]:
    """Run what keeps prices up to date until it has something to say."""
    ((_, work),) = pricing.works
    running = asyncio.create_task(_forever(work))
    try:
        async with asyncio.timeout(30):
            while not pricing.troubles():
                await asyncio.wait({running}, timeout=0.02)
                assert not running.done()
    finally:
        running.cancel()
    return pricing.troubles()


SHIPPED_AT_S = 1_760_745_600.0  # 18 October 2025: what its spot prices are of


def at(pricing: Pricing, region: str) -> PriceOf:
    """Return the prices of a region as they were told a day after the list was made."""
    return replace(pricing, wall_s=lambda: SHIPPED_AT_S + 86_400.0).at(region)


def test_the_shipped_list_tells_prices_with_their_age_and_the_contract_over_them(
    tmp_path: Path,
) -> None:
    assert at(open_pricing(Prices(), tmp_path), "us-central1")("SPOT", "H100", 8) == Priced(
        per_gpu_hour=Decimal("2.372376"),
        words="a3-highgpu-8g in us-central1",
        source="list price, spot, collected for the SkyNomad artifact (Apache-2.0), 2025-10-18",
        age_s=86_400.0,
    )
    terms = Prices(
        factors=(Factor(factor=Decimal("0.5"), region="us-central1"),),
        sunk=(Sunk(accelerator="H100"),),
    )
    agreed = at(open_pricing(terms, tmp_path), "us-central1")
    spot = agreed("SPOT", "H100", 8)
    assert spot.per_gpu_hour == Decimal("1.186188")
    assert spot.words == "a3-highgpu-8g in us-central1, times 0.5 by contract"
    assert agreed("RESERVED", "H100", 8) == Priced(
        per_gpu_hour=Decimal(0), words="a reservation that is paid already"
    )


def test_a_price_that_nobody_knows_is_none_and_said_a_reservations_too(tmp_path: Path) -> None:
    price_of = open_pricing(Prices(), tmp_path).at("mars-north1")
    why = "is known, and no run starts at a price that is not known"
    assert price_of("SPOT", "H100", 8) == Priced(
        per_gpu_hour=None, doubt=f"no price of SPOT 8xH100 in mars-north1 {why}"
    )
    assert price_of("RESERVED", "H100", 8) == Priced(
        per_gpu_hour=None,
        doubt=f"no price of ON_DEMAND 8xH100 in mars-north1 {why}; prices.sunk says what is paid"
        " already",
    )


async def test_without_credentials_the_shipped_list_holds_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    pricing = open_pricing(Prices(source="google"), tmp_path)
    (said,) = await told_troubles(pricing)
    assert said.startswith("prices could not be read: there are no Application Default Credentials")
    assert said.endswith(" days old")
    shipped = pricing.at("us-central1")("SPOT", "H100", 8)
    assert shipped.per_gpu_hour == Decimal("2.372376")


async def test_without_the_libraries_the_shipped_list_holds_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "google.cloud", None)
    for name in ("regions.gcp.channels", "regions.gcp.prices.catalog"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    pricing = open_pricing(Prices(source="google"), tmp_path)
    (said,) = await told_troubles(pricing)
    assert "Google's libraries are not installed here" in said
    assert "capacity-broker[gcp]" in said


def test_what_leaves_a_region_has_a_price_and_a_guess_says_that_it_is_one() -> None:
    own = EgressTerm(per_gib=Decimal("0.01"), source="us", destination="europe")
    price = open_egress(Prices(egress=(own,)))
    assert price("us-east4", "europe-west4") == EgressPrice(per_gib=Decimal("0.01"))
    assert price("europe-west4", "us-east4") == EgressPrice(per_gib=Decimal("0.08"))
    guess = price("us-east4", "alpha")
    assert guess.per_gib == Decimal("0.15")
    assert guess.doubt.startswith("no price from us-east4 to alpha is known")
