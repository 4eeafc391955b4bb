"""What a GPU of a real cluster costs, and what is said when nobody knows."""

import asyncio
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from broker.config import Prices
from broker.fleet.fleet import Work
from broker.fleet.pricing import Pricing, open_pricing
from regions.gcp.prices.terms import Factor, Sunk


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


def test_the_shipped_list_tells_prices_with_the_contract_over_them(tmp_path: Path) -> None:
    listed = open_pricing(Prices(), tmp_path).at("us-central1")("SPOT", "H100", 8)
    assert listed == (Decimal("2.372376"), "")
    terms = Prices(
        factors=(Factor(factor=Decimal("0.5"), region="us-central1"),),
        sunk=(Sunk(accelerator="H100"),),
    )
    agreed = open_pricing(terms, tmp_path).at("us-central1")
    assert agreed("SPOT", "H100", 8) == (Decimal("1.186188"), "")
    assert agreed("RESERVED", "H100", 8) == (Decimal(0), "")


def test_a_price_that_nobody_knows_is_none_and_said_unless_it_may_be_paid_already(
    tmp_path: Path,
) -> None:
    price_of = open_pricing(Prices(), tmp_path).at("mars-north1")
    price, doubt = price_of("SPOT", "H100", 8)
    assert price is None
    assert doubt.startswith("no price of SPOT 8xH100 in mars-north1 is known")
    assert price_of("RESERVED", "H100", 8) == (None, "")


async def test_without_credentials_the_shipped_list_holds_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    pricing = open_pricing(Prices(source="google"), tmp_path)
    (said,) = await told_troubles(pricing)
    assert said.startswith("prices could not be read: there are no Application Default Credentials")
    assert pricing.at("us-central1")("SPOT", "H100", 8) == (Decimal("2.372376"), "")


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
