"""The registries of a configuration: what is asked of them, and what they say to who asks why."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from broker.config_registry import Registry
from broker.fleet.registries import KnownRegistries, make_book, open_registries
from replicator.errors import ImageMissing, LoginRefused, PlatformMissing
from tests.fakes.registry import FakeRegistry, refused
from tests.unit.replicator.oci.registries import HERE, add_image, add_index

LARGE = b"a layer" * 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Town:
    """A registry that images come from, and one that the region alpha pulls from."""

    known: KnownRegistries
    here: FakeRegistry
    there: FakeRegistry
    source: str
    alpha: str


@pytest.fixture
async def town(tmp_path: Path) -> AsyncIterator[Town]:
    here, there = FakeRegistry(), FakeRegistry()
    async with TestServer(here.app) as one, TestServer(there.app) as two:
        source, alpha = f"127.0.0.1:{one.port}", f"127.0.0.1:{two.port}/copies"
        login = tmp_path / "config.json"
        auths = {f"127.0.0.1:{two.port}": {"username": "who", "password": "open-sesame"}}
        login.write_text(json.dumps({"auths": auths}))
        entries = (
            Registry(prefix=source, plain_http=True),
            Registry(
                prefix=alpha,
                region="alpha",
                plain_http=True,
                login="file",
                login_file=str(login),
                upload="chunks",
            ),
        )
        book = make_book(entries, frozenset())
        async with open_registries(entries, book) as known:
            yield Town(known=known, here=here, there=there, source=source, alpha=alpha)


async def test_a_tag_of_an_index_is_the_digest_of_the_index(town: Town) -> None:
    digest = add_index(town.here, "linux/arm64", "linux/amd64")
    found = await town.known.resolve(f"{town.source}/{HERE}:all")
    assert found.name == f"{town.source}/{HERE}@{digest}"
    # One platform's configuration and layers are what a machine pulls.
    assert found.size_bytes < sum(len(one) for one in town.here.blobs.values())


async def test_what_is_missing_and_what_is_of_another_architecture_are_told_apart(
    town: Town,
) -> None:
    add_image(town.here, b"x", architecture="arm64", tag="arm")
    with pytest.raises(PlatformMissing, match=r"not for linux/amd64; it is for linux/arm64"):
        await town.known.resolve(f"{town.source}/{HERE}:arm")
    with pytest.raises(ImageMissing):
        await town.known.resolve(f"{town.source}/{HERE}:other")


async def test_an_image_is_there_once_it_was_brought_and_its_way_is_told(town: Town) -> None:
    add_image(town.here, LARGE, tag="v1")
    image = (await town.known.resolve(f"{town.source}/{HERE}:v1")).name
    assert not await town.known.is_there(image, "alpha")
    told: list[int] = []
    sent = await town.known.bring(image, "", "alpha", told.append)
    assert sent == sum(len(one) for one in town.here.blobs.values())
    assert (told[-1], told) == (sent, sorted(told))
    assert await town.known.is_there(image, "alpha")
    assert {repository for repository, _ in town.there.manifests} == {f"copies/{HERE}"}
    assert await town.known.bring(image, "", "alpha", told.append) == 0


async def test_a_region_can_be_where_an_image_comes_from(town: Town) -> None:
    add_image(town.here, LARGE, tag="v1")
    image = (await town.known.resolve(f"{town.source}/{HERE}:v1")).name
    await town.known.bring(image, "", "alpha", lambda _: None)
    town.here.blobs.clear()
    town.here.manifests.clear()
    assert await town.known.bring(image, "alpha", "alpha", lambda _: None) == 0


async def test_a_registry_that_is_well_may_be_used_and_nothing_is_left_in_it(town: Town) -> None:
    own, source = await town.known.examine("alpha")
    assert (own.subject, own.is_well) == (f"registry {town.alpha}", True)
    assert (own.message, own.remedy) == ("answers, and may be pulled from and pushed to", "")
    assert (source.subject, source.message) == (
        f"registry {town.source}",
        "answers, and may be pulled from",
    )
    assert (town.there.uploads, town.there.blobs, town.here.asked("POST", "")) == ({}, {}, [])


async def no_push(request: web.Request) -> web.StreamResponse | None:
    return refused(403, "DENIED") if request.method == "POST" else None


async def nothing(request: web.Request) -> web.StreamResponse | None:
    return refused(503, "UNAVAILABLE")


async def test_a_login_that_may_not_push_is_said_with_what_mends_it(town: Town) -> None:
    town.there.lie, town.here.lie = no_push, nothing
    own, source = await town.known.examine("alpha")
    assert not own.is_well
    assert "push: the registry" in own.message
    assert own.remedy == "give brokerd a login that may push there: registries.login"
    assert (source.is_well, source.remedy) == (False, "see whether it is up, and reached from here")


async def test_google_without_credentials_is_a_refused_login(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))

    async def locked(_: web.Request) -> web.StreamResponse | None:
        return refused(401, "UNAUTHORIZED", **{"WWW-Authenticate": 'Basic realm="r"'})

    registry = FakeRegistry()
    registry.lie = locked
    async with TestServer(registry.app) as server:
        prefix = f"127.0.0.1:{server.port}"
        # The configuration refuses it, for it would show the token; here there is none.
        entries = (Registry(prefix=prefix, plain_http=True, login="google"),)
        async with open_registries(entries, make_book(entries, frozenset())) as known:
            with pytest.raises(LoginRefused, match="Google's credentials"):
                await known.resolve(f"{prefix}/{HERE}:v1")
