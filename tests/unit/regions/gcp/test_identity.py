"""Tokens of a cloud: renewed in time, by one at a time, and never shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import google.auth
import pytest
from google.auth.credentials import AnonymousCredentials, Credentials
from google.auth.exceptions import DefaultCredentialsError, RefreshError

from regions.gcp.channels import catalog_client, fleet_client
from regions.gcp.errors import AccessError
from regions.gcp.identity import RENEW_AHEAD_S, Identity, Tokens, find_identity
from regions.gcp.surveying import surveying
from tests.unit.regions.gcp.making import NOW_S

LIFE_S = 3600.0


class Wall:
    """The wall clock, moved by hand."""

    def __init__(self) -> None:
        self.now_s = NOW_S

    def __call__(self) -> float:
        return self.now_s


class Issuer:
    """Gives a new token at every renewal, or fails."""

    def __init__(self, wall: Wall) -> None:
        self._wall = wall
        self.given = 0
        self.fault: Exception | None = None
        self.life_s = LIFE_S

    def __call__(self, credentials: Credentials) -> None:
        if self.fault is not None:
            raise self.fault
        self.given += 1
        credentials.token = f"secret-{self.given}"
        end = datetime.fromtimestamp(self._wall() + self.life_s, UTC)
        credentials.expiry = end.replace(tzinfo=None)


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def issuer(wall: Wall) -> Issuer:
    return Issuer(wall)


@pytest.fixture
def tokens(wall: Wall, issuer: Issuer) -> Tokens:
    return Tokens(AnonymousCredentials(), wall, issuer)


async def test_a_token_is_kept_until_it_nears_its_end(
    wall: Wall, issuer: Issuer, tokens: Tokens
) -> None:
    assert await tokens.token() == "secret-1"
    wall.now_s += LIFE_S - RENEW_AHEAD_S - 1
    assert await tokens.token() == "secret-1"
    wall.now_s += 2
    assert await tokens.token() == "secret-2"
    assert issuer.given == 2


async def test_many_who_ask_at_once_cause_one_renewal(issuer: Issuer, tokens: Tokens) -> None:
    found = await asyncio.gather(*(tokens.token() for _ in range(20)))
    assert (set(found), issuer.given) == ({"secret-1"}, 1)


async def test_while_renewing_fails_the_old_token_is_used_for_as_long_as_it_holds(
    wall: Wall, issuer: Issuer, tokens: Tokens
) -> None:
    await tokens.token()
    issuer.fault = RefreshError("the server said secret-1 is known")
    wall.now_s += LIFE_S - 1
    assert await tokens.token() == "secret-1"
    wall.now_s += 2
    with pytest.raises(AccessError) as raised:
        await tokens.token()
    assert str(raised.value) == "no token could be had (RefreshError)"
    assert raised.value.__cause__ is None
    issuer.fault = None
    assert await tokens.token() == "secret-2"


async def test_a_token_that_has_ended_when_it_comes_is_none(issuer: Issuer, tokens: Tokens) -> None:
    issuer.life_s = -1.0
    with pytest.raises(AccessError, match="has ended already"):
        await tokens.token()


@pytest.mark.parametrize(
    "fault", [DefaultCredentialsError("file /home/me has {private_key}"), OSError("no disk")]
)
def test_without_credentials_it_is_said_how_to_get_some(
    monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    monkeypatch.setattr(google.auth, "default", _failing(fault))
    with pytest.raises(AccessError, match="gcloud auth application-default login") as raised:
        find_identity()
    assert "private_key" not in str(raised.value)


async def test_clients_are_made_without_a_question() -> None:
    identity = Identity(credentials=AnonymousCredentials(), project="p")
    async with fleet_client(identity) as fleet, catalog_client(identity) as catalog:
        assert [(each.transport.kind, each.transport.host) for each in (fleet, catalog)] == [
            ("grpc_asyncio", "container.googleapis.com:443"),
            ("grpc_asyncio", "cloudbilling.googleapis.com:443"),
        ]


async def test_a_survey_is_opened_with_the_machines_own_identity_and_asks_nothing_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(google.auth, "default", lambda **_: (AnonymousCredentials(), "p"))
    async with surveying("p") as survey:
        assert (survey.fleet, survey.troubles) == (None, ())


def _failing(fault: Exception) -> Callable[..., None]:
    def default(**_: object) -> None:
        raise fault

    return default
