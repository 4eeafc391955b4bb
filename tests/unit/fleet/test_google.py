"""A GKE cluster named in the configuration: looked up in Google's listing, reached with tokens."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from google.oauth2.credentials import Credentials

from broker.fleet.google import find_endpoint
from regions.gcp.identity import Identity
from regions.kueue.access import Api
from regions.kueue.clock import SystemClock
from regions.kueue.credentials import Found
from regions.kueue.errors import AccessError
from tests.fakes.google import FakeGoogle, google
from tests.unit.regions.gcp.making import make_cluster, make_listing

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
