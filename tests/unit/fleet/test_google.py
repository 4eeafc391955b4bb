"""What the configuration leaves to Google: how a GKE cluster is reached, and what GPUs cost."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.cloud import billing_v1
from google.oauth2.credentials import Credentials

from broker.fleet.fleet import Work
from broker.fleet.google import Projects, find_endpoint, google_prices
from regions.gcp.identity import Identity
from regions.gcp.prices.book import Ask, Quote
from regions.gcp.prices.keeping import PriceKeeper
from regions.gcp.prices.terms import Terms
from regions.kueue.access import Api
from regions.kueue.clock import SystemClock
from regions.kueue.credentials import Found
from regions.kueue.errors import AccessError
from tests.fakes.google import FakeGoogle, google
from tests.unit.regions.gcp.making import flex_machine, make_cluster, make_listing

NAME = "projects/p/locations/us-central1/clusters/research"
AUTH = {"cluster_ca_certificate": base64.b64encode(b"-----BEGIN CERTIFICATE-----\n").decode()}


class FakeDoors:
    """Clients on a server of this test's."""

    def __init__(self, fake: FakeGoogle) -> None:
        self._fake = fake

    async def identity(self) -> Any:
        held: Any = Credentials
        return Identity(credentials=held(token="held"), project="p")

    def fleet(self, identity: Any) -> Any:
        return self._fake.fleet

    def catalog(self, identity: Any) -> Any:
        return self._fake.catalog


async def test_a_cluster_is_found_by_its_full_name_and_entered_with_tokens() -> None:
    async with google() as fake:
        fake.listings.append(make_listing(make_cluster("research", master_auth=AUTH)))
        found = await find_endpoint(NAME, FakeDoors(fake))()
        assert found.host == "https://10.0.0.1"
        assert await found.token() == "held"


async def test_a_cluster_that_no_listing_names_is_said_and_asked_for_again() -> None:
    async with google() as fake:
        fake.listings.append(make_listing(make_cluster("other"), missing=["us-central1-b"]))
        api = Api(Found(find=find_endpoint(NAME, FakeDoors(fake))), SystemClock())
        with pytest.raises(AccessError, match=f"{NAME}: .*no such cluster; us-central1-b did not"):
            await api.ask("GET", "/version")
        await api.close()


async def test_a_project_is_surveyed_once_for_all_of_its_clusters_and_its_silence_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    projects = Projects()
    scouts = [projects.scout(NAME), projects.scout(NAME.replace("research", "other"))]
    ((name, work),) = projects.works
    assert name == "survey p"
    assert {each.report(()).notes for each in scouts} == {("Google was not asked yet",)}

    async def kept() -> None:
        await work()

    running = asyncio.create_task(kept())
    try:
        async with asyncio.timeout(30):
            while not all("Credentials" in each.report(()).notes[0] for each in scouts):
                await asyncio.wait({running}, timeout=0.02)
                assert not running.done()
    finally:
        running.cancel()


FLEX = Ask(region="us-central1", capacity_type="FLEX", accelerator="H100", per_node=8)


async def quoted(keeper: PriceKeeper, work: Work, source: str) -> Quote:
    """Keep prices up to date until one is from a source; return it."""

    async def kept() -> None:
        await work()

    running = asyncio.create_task(kept())
    try:
        async with asyncio.timeout(30):
            while not (found := keeper.quote(FLEX, 0.0)).source.startswith(source):
                await asyncio.wait({running}, timeout=0.02)
                assert not running.done()
    finally:
        running.cancel()
    return found


async def test_prices_are_the_catalogs_and_outlive_a_restart_without_it(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    async with google() as fake:
        fake.pages[""] = [billing_v1.ListSkusResponse(skus=flex_machine())]
        keeper, work = google_prices(Terms(), file, FakeDoors(fake))
        assert keeper.quote(FLEX, 0.0).source.startswith("list price")
        first = await quoted(keeper, work, "the billing catalog")
    assert first.why == "a3-highgpu-8g in us-central1"
    async with google() as fake:
        fake.pages[""] = [grpc.StatusCode.UNAVAILABLE]
        again = google_prices(Terms(), file, FakeDoors(fake))
        assert await quoted(*again, "the billing catalog") == first
        assert fake.asked == []
