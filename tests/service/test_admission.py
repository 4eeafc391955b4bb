"""Tokens and certificates that come and go while a server listens, and guesses that are made."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from broker.access.tokens import Role
from broker.access.tries import TRIES
from broker.history.refusals import Refused
from broker.v1 import broker_service_pb2, run_service_pb2
from tests.fakes import certificates
from tests.service.outward import (
    ALL,
    ANN,
    BOB,
    OLA,
    VIC,
    Holder,
    Outward,
    Stubs,
    holder,
    outward,
    stamped,
)
from tests.service.rig import DIGITS, Refusal, refusal_of, refused

C = grpc.StatusCode


@pytest.fixture
async def out(tmp_path: Path) -> AsyncIterator[Outward]:
    async with outward(tmp_path) as found:
        yield found


# ---- Tokens that come, go and are guessed -------------------------------------------------------


def ping(stubs: Stubs) -> Any:
    return stubs.broker.GetBroker(broker_service_pb2.GetBrokerRequest(), timeout=10)


async def test_a_token_holds_from_its_making_to_its_revocation(out: Outward) -> None:
    new = holder("new", "vision", Role.VIEWER)
    async with out.calling(new) as stubs:
        assert (await refused(ping(stubs))).code is C.UNAUTHENTICATED
        out.write(*ALL, new)
        await ping(stubs)
        out.write(*ALL)
        await out.door.tick()
        assert (await refused(ping(stubs))).code is C.UNAUTHENTICATED


async def test_a_stream_ends_when_its_token_is_revoked(out: Outward) -> None:
    await out.rig.submit()
    async with out.calling(ANN) as ann, out.calling(VIC) as vic:
        calls = [s.runs.WatchRun(run_service_pb2.WatchRunRequest(name=DIGITS)) for s in (ann, vic)]
        for call in calls:
            await call.read()
        out.write(*(one for one in ALL if one is not ANN))
        await out.door.tick()

        async def rest() -> None:
            async for _ in calls[0]:
                pass

        assert await refused(rest()) == Refusal(C.UNAUTHENTICATED, "TOKEN_NOT_VALID")
        assert not calls[1].done()
        calls[1].cancel()


async def test_a_stream_ends_when_its_token_expires(tmp_path: Path) -> None:
    brief = holder("brief", "vision", Role.VIEWER)
    async with outward(tmp_path, [ANN]) as out:
        now_s = out.rig.readings.wall_s()
        out.write(ANN, replace(brief, token=replace(brief.token, expires_s=now_s + 60)))
        await out.rig.submit()
        async with out.calling(brief) as stubs:
            call = stubs.runs.WatchRun(run_service_pb2.WatchRunRequest(name=DIGITS))
            await call.read()
            out.rig.readings.wait(61)
            await out.door.tick()

            async def rest() -> None:
                async for _ in call:
                    pass

            assert (await refused(rest())).code is C.UNAUTHENTICATED
            assert (await refused(ping(stubs))).code is C.UNAUTHENTICATED


async def test_who_fails_often_has_to_wait_and_a_neighbour_has_not(out: Outward) -> None:
    async with out.calling(f"{BOB.word[:-1]}9") as stubs:
        codes = [(await refused(ping(stubs))).code for _ in range(TRIES + 2)]
    assert codes == [C.UNAUTHENTICATED] * TRIES + [C.RESOURCE_EXHAUSTED] * 2
    async with out.calling(BOB) as stubs:  # the id that was guessed at waits too
        assert (await refused(ping(stubs))).reason == "TOO_MANY_TRIES"
        out.rig.readings.wait(7)
        await ping(stubs)
    async with out.calling(ANN) as stubs:
        await ping(stubs)
    assert out.refused.count("TOO_MANY_TRIES") == 3


GUESSED, NOBODYS = f"{ANN.word[:-1]}9", "brk_nobodysid000_" + "0" * 48


@pytest.mark.parametrize("tried", [GUESSED, NOBODYS, "no token"])
@pytest.mark.parametrize("pair", [(GUESSED, NOBODYS), (NOBODYS, GUESSED)])
async def test_no_refusal_tells_which_ids_there_are_however_often_one_tries(
    out: Outward, tried: str, pair: tuple[str, str]
) -> None:
    async with out.calling(tried) as stubs:
        for _ in range(TRIES):
            await refused(ping(stubs))
    async with out.calling(pair[0]) as one, out.calling(pair[1]) as other:
        for wait_s, first in (
            (0, C.RESOURCE_EXHAUSTED),
            (4, C.RESOURCE_EXHAUSTED),
            (7, C.UNAUTHENTICATED),
        ):
            out.rig.readings.wait(wait_s)
            codes = [(await refused(ping(stubs))).code for stubs in (one, other, one, other)]
            assert codes == [first, *[C.RESOURCE_EXHAUSTED] * 3]


async def test_a_new_token_is_good_at_once_where_others_have_to_wait(out: Outward) -> None:
    new = holder("new", "vision", Role.VIEWER)
    async with out.calling(new) as stubs:
        for _ in range(TRIES + 1):
            await refused(ping(stubs))
        out.write(*ALL, new)
        assert (await ping(stubs)).caller.actor == "new"


@pytest.mark.parametrize(
    "header",
    [
        "Bearer", "Bearer ", "Basic YW5uOng=", ANN.word, f"Bearer  {ANN.word} x",
        f"Bearer {ANN.word.upper()}", f"Bearer {ANN.word}~", "Bearer " + "brk_" * 3_000,
    ],
)  # fmt: skip
async def test_a_header_of_another_form_is_no_token(out: Outward, header: str) -> None:
    async with grpc.aio.secure_channel(
        out.address,
        grpc.ssl_channel_credentials(certificates.roots()),
        interceptors=stamped(header),
    ) as channel:
        assert (await refused(ping(Stubs(channel)))).code is C.UNAUTHENTICATED


async def test_two_tokens_are_none(out: Outward) -> None:
    async with grpc.aio.secure_channel(
        out.address,
        grpc.ssl_channel_credentials(certificates.roots()),
        interceptors=[*stamped(f"Bearer {ANN.word}"), *stamped(f"Bearer {OLA.word}")],
    ) as channel:
        assert (await refused(ping(Stubs(channel)))).code is C.UNAUTHENTICATED


async def test_a_stream_that_ends_slowly_is_told_once(out: Outward) -> None:
    admission, token = out.door.admission, ANN.token
    out.write(OLA)
    seen = []

    async def held() -> None:
        async with admission.held(token):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await admission.tick()
                seen.append("ended")
                raise

    task = asyncio.ensure_future(held())
    await asyncio.sleep(0)
    await admission.tick()
    with pytest.raises(Refused):
        await task
    assert seen == ["ended"]


# ---- TLS ----------------------------------------------------------------------------------------


async def test_nothing_is_served_without_tls(out: Outward) -> None:
    async with grpc.aio.insecure_channel(
        out.address, interceptors=stamped(f"Bearer {ANN.word}")
    ) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            await ping(Stubs(channel))
    assert caught.value.code() is C.UNAVAILABLE


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_no_tls_older_than_1_2_is_spoken(out: Outward) -> None:
    def shaken(version: ssl.TLSVersion) -> str | None:
        context = ssl.create_default_context(cadata=certificates.roots().decode())
        context.set_ciphers("ALL:@SECLEVEL=0")  # or this side would refuse it by itself
        context.set_alpn_protocols(["h2"])
        context.minimum_version = context.maximum_version = version
        host, _, port = out.address.rpartition(":")
        with (
            socket.create_connection((host, int(port)), timeout=10) as plain,
            context.wrap_socket(plain, server_hostname=host) as shaking,
        ):
            return shaking.version()

    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        assert await asyncio.to_thread(shaken, version) == version.name.replace("_", ".")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.to_thread(shaken, ssl.TLSVersion.TLSv1_1)


async def test_a_client_that_trusts_others_does_not_speak(out: Outward) -> None:
    async with out.calling(ANN, ca="other") as stubs:
        with pytest.raises(grpc.RpcError) as caught:
            await ping(stubs)
    assert caught.value.code() is C.UNAVAILABLE


async def test_a_renewed_certificate_is_shown_without_a_restart(out: Outward) -> None:
    async with out.calling(ANN) as open_before:
        await ping(open_before)
        certificates.write_pair(out.folder, ca="renewed")
        await out.door.tick()
        async with out.calling(ANN, ca="renewed") as stubs:
            assert (await ping(stubs)).caller.actor == "ann"
        assert (await ping(open_before)).caller.actor == "ann"


async def test_a_broken_file_changes_nothing_and_is_told(out: Outward) -> None:
    (out.folder / "tls.crt").write_text("no certificate")
    out.book.write_text("{")
    await out.door.tick()
    async with out.calling(ANN) as stubs:
        assert list((await ping(stubs)).warnings) == []
    local = await out.rig.broker.GetBroker(broker_service_pb2.GetBrokerRequest())
    tokens, pair = local.warnings
    assert tokens.endswith("tokens.json: it is not JSON; the tokens are those that it held before")
    assert pair.endswith("; the certificate shown is the former one")
    assert "tls.crt" in pair
    certificates.write_pair(out.folder)
    out.write(*ALL)
    await out.door.tick()
    local = await out.rig.broker.GetBroker(broker_service_pb2.GetBrokerRequest())
    assert list(local.warnings) == []


async def test_a_client_certificate_is_wanted_where_a_ca_is_named(tmp_path: Path) -> None:
    ca = certificates.write_roots(tmp_path, "clients")
    mine = tmp_path / "mine"
    mine.mkdir()
    pair = certificates.write_pair(mine, ca="clients", host="ann.example")
    async with outward(tmp_path, client_ca=ca) as out:
        async with out.calling(ANN, pair=pair) as stubs:
            await ping(stubs)
        async with out.calling(ANN) as stubs:
            with pytest.raises(grpc.RpcError) as caught:
                await ping(stubs)
        assert caught.value.code() is C.UNAVAILABLE
        async with out.calling(None, pair=pair) as stubs:
            assert (await refused(ping(stubs))).code is C.UNAUTHENTICATED


async def test_many_callers_at_once_are_each_themselves(out: Outward) -> None:
    async def who_am_i(who: Holder) -> str:
        async with out.calling(who) as stubs:
            answers = await asyncio.gather(*(ping(stubs) for _ in range(20)))
        (name,) = {one.caller.actor for one in answers}
        return str(name)

    said = await asyncio.gather(*(who_am_i(who) for who in ALL))
    assert said == [who.token.actor for who in ALL]


# ---- Health and reflection ----------------------------------------------------------------------


async def test_health_is_told_to_anybody_once_and_the_rest_to_holders(out: Outward) -> None:
    request = health_pb2.HealthCheckRequest()
    async with out.calling(None) as stubs:
        health: Any = health_pb2_grpc.HealthStub(stubs.channel)
        assert (await health.Check(request)).status == health_pb2.HealthCheckResponse.SERVING
        watching = health.Watch(request, timeout=10)
        with pytest.raises(grpc.RpcError) as caught:
            await anext(aiter(watching))
        assert refusal_of(caught.value).code is C.UNAUTHENTICATED
        with pytest.raises(grpc.RpcError) as caught:
            await anext(aiter(asked(stubs)))
        assert refusal_of(caught.value).code is C.UNAUTHENTICATED
    async with out.calling(VIC) as stubs:
        health = health_pb2_grpc.HealthStub(stubs.channel)
        told = await anext(aiter(health.Watch(request, timeout=10)))
        assert told.status == health_pb2.HealthCheckResponse.SERVING
        answer = await anext(aiter(asked(stubs)))
        assert "broker.v1.RunService" in {one.name for one in answer.list_services_response.service}


def asked(stubs: Stubs) -> Any:
    def requests() -> Iterator[Any]:
        yield reflection_pb2.ServerReflectionRequest(list_services="")

    reflection: Any = reflection_pb2_grpc.ServerReflectionStub(stubs.channel)
    return reflection.ServerReflectionInfo(requests(), timeout=10)
