"""Who is let in from other machines, RPC by RPC, and what the others learn: nothing."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pool, message_factory
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from hypothesis import given
from hypothesis import strategies as st

from broker.access.tokens import Role
from broker.access.tries import REFILL_S
from broker.history.refusals import Refused
from broker.service.errors import InvalidArgument
from broker.service.rights import RIGHTS, OfRun, OfTeam, Right, narrowed
from broker.v1 import (
    broker_service_pb2,
    local_service_pb2,
    region_service_pb2,
    run_service_pb2,
    team_service_pb2,
)
from tests.fakes import certificates
from tests.service.outward import (
    ALL,
    ANN,
    BOB,
    OLA,
    VIC,
    Outward,
    Stubs,
    holder,
    outward,
    stamped,
)
from tests.service.rig import DIGITS, Refusal, make_request, refusal_of, refused

C = grpc.StatusCode
OURS = {path: right for path, right in RIGHTS.items() if path.startswith("/broker.")}
PROTOS = (
    run_service_pb2, region_service_pb2, team_service_pb2, local_service_pb2, broker_service_pb2,
)  # fmt: skip


@pytest.fixture
async def out(tmp_path: Path) -> AsyncIterator[Outward]:
    async with outward(tmp_path) as found:
        yield found


# ---- Every RPC, by a table that is made of the protos -------------------------------------------


def method_of(path: str) -> Any:
    """Return what the protos say of an RPC."""
    assert PROTOS
    return descriptor_pool.Default().FindMethodByName(path[1:].replace("/", "."))


def filled(path: str, right: Right, team: str) -> Any:
    """Return a request that names what it is about, of a team, and nothing else."""
    request: Any = message_factory.GetMessageClass(method_of(path).input_type)()
    match right.whose:
        case OfRun(field):
            setattr(request, field, f"teams/{team}/runs/digits")
        case OfTeam("header.parent"):
            request.header.parent = f"teams/{team}"
        case whose if hasattr(whose, "field"):
            ending = f"/bundles/{'0' * 64}" if "Bundle" in path else ""
            setattr(request, whose.field, f"teams/{team}{ending}")
        case _:
            pass
    return request


async def called(stubs: Stubs, path: str, request: Any) -> Refusal | None:
    """Make one call of any form; return how it was refused, None when it was not."""
    method, channel = method_of(path), stubs.channel
    answer = message_factory.GetMessageClass(method.output_type)
    forms = {
        (False, False): "unary_unary", (True, False): "stream_unary", (False, True): "unary_stream",
    }  # fmt: skip
    form = forms[(method.client_streaming, method.server_streaming)]
    call = getattr(channel, form)(
        path,
        request_serializer=type(request).SerializeToString,
        response_deserializer=answer.FromString,
    )
    try:
        if form == "unary_stream":
            async for _ in call(request, timeout=10):
                return None
        else:
            await call(iter([request]) if form == "stream_unary" else request, timeout=10)
    except grpc.RpcError as error:
        return refusal_of(error)
    return None


async def all_called(stubs: Stubs, team: str) -> dict[str, Refusal | None]:
    """Make every call there is, about a team."""
    return {path: await called(stubs, path, filled(path, r, team)) for path, r in OURS.items()}


def test_every_rpc_of_every_service_has_a_row_and_no_row_is_left_over() -> None:
    declared = {
        f"/{service.full_name}/{method.name}"
        for module in (*PROTOS, health_pb2, reflection_pb2)
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    assert set(RIGHTS) == declared


WORDS = [
    "teams",
    "/",
    "vision",
    "speech",
    "runs",
    "bundles",
    "digits",
    "-",
    "..",
    "0" * 64,
    "\n",
    "É",
]


@given(
    path=st.sampled_from([path for path, right in OURS.items() if hasattr(right.whose, "field")]),
    name=st.lists(st.sampled_from(WORDS), max_size=8).map("".join) | st.text(max_size=30),
)
def test_no_name_is_of_ones_team_but_that_of_ones_team(path: str, name: str) -> None:
    right = OURS[path]
    request: Any = message_factory.GetMessageClass(method_of(path).input_type)()
    holder, field = request, getattr(right.whose, "field")  # noqa: B009 - OfNobody has none
    if field == "header.parent":
        holder, field = request.header, "parent"
    setattr(holder, field, name)
    try:
        narrowed(right, BOB.token, request)
    except (Refused, InvalidArgument):
        return
    assert re.match("teams/speech(/|$)", getattr(holder, field))


@pytest.mark.parametrize("word", [None, "", "brk_", "x" * 4_000, BOB.word[:-1], f"{BOB.word}0"])
async def test_without_a_valid_token_no_rpc_answers(out: Outward, word: str | None) -> None:
    async with out.calling(word) as stubs:
        for path, right in OURS.items():
            out.rig.readings.wait(REFILL_S)
            said = await called(stubs, path, filled(path, right, "vision"))
            assert said == Refusal(C.UNAUTHENTICATED, "TOKEN_NOT_VALID"), path


async def test_a_viewer_changes_nothing_and_a_member_operates_nothing(out: Outward) -> None:
    await out.rig.submit()
    for who, role in ((VIC, Role.VIEWER), (ANN, Role.MEMBER)):
        async with out.calling(who) as stubs:
            said = await all_called(stubs, "vision")
        denied = {path for path, one in said.items() if one and one.code is C.PERMISSION_DENIED}
        beyond = {p for p, r in OURS.items() if r.role is not None and not role.reaches(r.role)}
        assert denied == beyond
        assert {said[path] for path in denied} == {Refusal(C.PERMISSION_DENIED, "ROLE_NOT_ENOUGH")}


async def test_what_is_of_another_team_is_as_if_it_were_not_there(out: Outward) -> None:
    bob = replace(BOB.token, role=Role.MEMBER)
    async with out.calling(BOB) as stubs:
        before = await all_called(stubs, "vision")
        await out.rig.submit()
        after = await all_called(stubs, "vision")
    assert before == after
    for path, right in OURS.items():
        if right.role is None or not bob.role.reaches(right.role):
            continue
        if isinstance(right.whose, OfRun) or path.endswith("/GetBundle"):
            assert after[path] == Refusal(C.NOT_FOUND, "NOT_FOUND"), path
        elif hasattr(right.whose, "field"):
            assert after[path] == Refusal(C.PERMISSION_DENIED, "NOT_YOUR_TEAM"), path
    assert out.rig.run().stream_version == 1


async def test_the_words_for_another_teams_run_are_those_for_none(out: Outward) -> None:
    await out.rig.submit()
    said = []
    async with out.calling(BOB) as stubs:
        for name in (DIGITS, "teams/vision/runs/nobodys", "teams/speech/runs/nobodys"):
            with pytest.raises(grpc.RpcError) as caught:
                await stubs.runs.GetRun(run_service_pb2.GetRunRequest(name=name))
            said.append(str(caught.value.details()).replace(name, "IT"))
    assert said == ["there is no IT"] * 3
    assert out.refused == ["NOT_FOUND"] * 2  # of others' runs; one's own is the handler's to miss


async def test_an_operator_may_call_everything(out: Outward) -> None:
    await out.rig.submit()
    async with out.calling(OLA) as stubs:
        said = await all_called(stubs, "vision")
        codes = {one.code for one in said.values() if one}
        assert codes.isdisjoint({C.PERMISSION_DENIED, C.UNAUTHENTICATED})
        await stubs.runs.GetRun(run_service_pb2.GetRunRequest(name=DIGITS))


async def test_a_method_without_a_row_is_refused(
    out: Outward, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(RIGHTS, "/broker.v1.BrokerService/GetBroker")
    async with out.calling(OLA) as stubs:
        said = await refused(stubs.broker.GetBroker(broker_service_pb2.GetBrokerRequest()))
    assert said == Refusal(C.PERMISSION_DENIED, "ROLE_NOT_ENOUGH")


# ---- In whose name ----------------------------------------------------------


async def test_the_actor_is_the_tokens_and_not_what_the_client_says(out: Outward) -> None:
    async with grpc.aio.secure_channel(
        out.address,
        grpc.ssl_channel_credentials(certificates.roots()),
        interceptors=[*stamped(f"Bearer {ANN.word}"), *stamped("root", "broker-user")],
    ) as channel:
        stubs = Stubs(channel)
        run = (await stubs.runs.SubmitRun(make_request(run_id="digits"))).run
        await stubs.runs.CancelRun(run_service_pb2.CancelRunRequest(name=run.name))
        await refused(stubs.regions.CordonRegion(
            region_service_pb2.CordonRegionRequest(name="regions/alpha")
        ))  # fmt: skip
    events = await out.rig.log.read(run.name, 0, 100)
    assert {recorded.actor.name for recorded in events} == {"ann"}
    assert out.rig.run().intent.owner == "ann"
    async with out.calling(OLA) as stubs:
        request = region_service_pb2.CordonRegionRequest(name="regions/alpha")
        await stubs.regions.CordonRegion(request)
    (cordoned,) = await out.rig.log.read("regions/alpha", 0, 100)
    assert (cordoned.actor.kind.value, cordoned.actor.name) == ("OPS", "ola")


async def test_who_asks_is_told_who_that_is(out: Outward) -> None:
    async with out.calling(ANN) as stubs:
        found = (await stubs.broker.GetBroker(broker_service_pb2.GetBrokerRequest())).caller
    assert (found.actor, found.team, found.role) == ("ann", "teams/vision", "member")
    assert not found.HasField("expire_time")
    local = await out.rig.broker.GetBroker(broker_service_pb2.GetBrokerRequest())
    assert not local.HasField("caller")


async def test_the_socket_of_this_machine_wants_no_token(out: Outward) -> None:
    await out.rig.submit()
    request = region_service_pb2.CordonRegionRequest(name="regions/alpha")
    await out.rig.regions.CordonRegion(request)
    assert out.refused == []


async def test_a_path_on_the_brokers_machine_is_not_for_others(out: Outward) -> None:
    right = RIGHTS["/broker.v1.RunService/FetchCheckpoint"]
    request = run_service_pb2.FetchCheckpointRequest(parent=DIGITS, prefer_local_path=True)
    assert not narrowed(right, ANN.token, request).prefer_local_path


# ---- What is no request, and what nobody is told ------------------------------------------------


async def test_who_has_no_token_is_refused_before_a_word_was_said(out: Outward) -> None:
    for path in OURS:
        out.rig.readings.wait(REFILL_S)
        async with out.calling("brk_guessed") as stubs:

            async def nothing() -> AsyncIterator[bytes]:
                await asyncio.Event().wait()
                yield b""

            call = stubs.channel.stream_stream(path)(nothing(), timeout=10)
            with pytest.raises(grpc.RpcError) as caught:
                await anext(aiter(call))
            assert refusal_of(caught.value).code is C.UNAUTHENTICATED


async def test_bytes_that_are_no_message_are_refused_as_such(
    out: Outward, caplog: pytest.LogCaptureFixture
) -> None:
    async def noise() -> AsyncIterator[bytes]:
        yield b"\xff\xff\xff"

    async with grpc.aio.secure_channel(
        out.address,
        grpc.ssl_channel_credentials(certificates.roots()),
        interceptors=stamped(f"Bearer {OLA.word}"),
    ) as channel:
        for path in OURS:
            method: Any = channel.stream_stream(path)
            with pytest.raises(grpc.RpcError) as caught:
                await anext(aiter(method(noise(), timeout=10)))
            assert refusal_of(caught.value) == Refusal(C.INVALID_ARGUMENT, "INVALID_FIELD"), path
    assert "Traceback" not in caplog.text


def naming(*secrets: str, account: str = "") -> Any:
    request = make_request(run_id="naming")
    request.parent = "teams/vision"
    for name in secrets:
        request.intent.workload.secrets.add(name=name, env=re.sub(r"\W", "_", name.upper()))
    request.intent.workload.service_account = account
    return request


async def test_a_run_names_what_is_its_teams_own_or_was_lent(out: Outward) -> None:
    lent = holder("len", "vision", Role.MEMBER)
    token = replace(lent.token, secrets=("hub", "wandb-*"), service_accounts=("trainer",))
    lent = replace(lent, token=token)
    out.write(*ALL, lent)
    foreign = naming("vision.hub", "hub", "vision-two.key", account="trainer")
    async with out.calling(ANN) as stubs:
        told = await refused(stubs.runs.SubmitRun(foreign))
        assert told == Refusal(
            C.INVALID_ARGUMENT,
            "POLICY_DISALLOWS",
            (
                "intent.workload.secrets[1].name",
                "intent.workload.secrets[2].name",
                "intent.workload.service_account",
            ),
        )
        await stubs.runs.SubmitRun(naming("vision", "vision.hub", account="vision.trainer"))
        fork = run_service_pb2.ForkRunRequest(
            name="teams/vision/runs/naming", intent=foreign.intent, beginning=True
        )
        assert await refused(stubs.runs.ForkRun(fork)) == told
    async with out.calling(lent) as stubs:
        both = naming("hub", "wandb-key", account="trainer")
        both.run_id = "lent"
        await stubs.runs.SubmitRun(both)
    async with out.calling(OLA) as stubs:
        foreign.run_id = "operators"
        await stubs.runs.SubmitRun(foreign)


async def test_no_secret_is_in_a_log_an_event_or_an_answer(
    out: Outward, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    said: list[str] = []

    def fails(*_: Any) -> Any:
        raise RuntimeError("a fault of ours")

    for who in (ANN, BOB, OLA, holder("nobody", "vision", Role.MEMBER)):
        async with out.calling(who) as stubs:
            answers = await all_called(stubs, "vision")
            said += [str(one) for one in answers.values()]
    monkeypatch.setattr(out.rig.loops, "regions", fails)
    async with out.calling(ANN) as stubs:
        request = broker_service_pb2.GetBrokerRequest()
        said.append(str(await refused(stubs.broker.GetBroker(request))))
    assert "a fault of ours" in caplog.text
    for stream in ("regions/alpha", DIGITS, "teams/vision"):
        said += [repr(one) for one in await out.rig.log.read(stream, 0, 100)]
    secrets = [one for who in ALL for one in (who.word, who.word[17:], who.token.digest)]
    text = caplog.text + "".join(said)
    assert [one for one in secrets if one in text] == []
