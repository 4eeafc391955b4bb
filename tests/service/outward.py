"""A server with a door, and callers of every kind before it.

Read ``outward`` first.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from broker.access import book
from broker.access.certificates import Certificates
from broker.access.keyring import Keyring
from broker.access.tokens import Role, Token, digest_of, word_of
from broker.runtime.clock import SystemClock
from broker.service.door import Door
from broker.v1 import (
    broker_service_pb2_grpc,
    local_service_pb2_grpc,
    region_service_pb2_grpc,
    run_service_pb2_grpc,
    team_service_pb2_grpc,
)
from tests.fakes import certificates
from tests.service.documented import Witness
from tests.service.rig import Rig, serving

LOOK_PAST_S = 3_600.0


@dataclass(frozen=True)
class Holder:
    """Somebody with a token: the word, and what is kept of it."""

    word: str
    token: Token


def holder(
    actor: str, team: str, role: Role, *, token_id: str = "", expires_s: float | None = None
) -> Holder:
    """Return somebody with a token; the id follows from the name."""
    token_id = token_id or f"{actor:a<12.12}"
    word = word_of(token_id, f"{actor}{team}{role}".encode().hex().ljust(48, "0")[:48])
    token = Token(
        id=token_id,
        digest=digest_of(word),
        team=team,
        role=role,
        actor=actor,
        created_s=0.0,
        expires_s=expires_s,
    )
    return Holder(word, token)


ANN = holder("ann", "vision", Role.MEMBER)
VIC = holder("vic", "vision", Role.VIEWER)
BOB = holder("bob", "speech", Role.MEMBER)
EVE = holder("eve", "-", Role.VIEWER)
OLA = holder("ola", "vision", Role.OPERATOR)
ALL = (ANN, VIC, BOB, EVE, OLA)


class Stubs:
    """What one caller says, by service."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.runs: Any = run_service_pb2_grpc.RunServiceStub(channel)
        self.regions: Any = region_service_pb2_grpc.RegionServiceStub(channel)
        self.teams: Any = team_service_pb2_grpc.TeamServiceStub(channel)
        self.local: Any = local_service_pb2_grpc.LocalServiceStub(channel)
        self.broker: Any = broker_service_pb2_grpc.BrokerServiceStub(channel)


@dataclass
class Outward:
    """A server with a door."""

    rig: Rig
    folder: Path
    address: str
    door: Door
    refused: list[str]
    witness: Witness = field(default_factory=Witness)

    @property
    def book(self) -> Path:
        """The file of tokens."""
        return self.folder / "tokens.json"

    @asynccontextmanager
    async def calling(
        self, who: Holder | str | None, *, ca: str = "one", pair: tuple[Path, Path] | None = None
    ) -> AsyncIterator[Stubs]:
        """Call as somebody, or with any text as a token, over TLS."""
        word = who.word if isinstance(who, Holder) else who
        shown = () if pair is None else (pair[1].read_bytes(), pair[0].read_bytes())
        credentials = grpc.ssl_channel_credentials(certificates.roots(ca), *shown)
        stamps = [] if word is None else stamped(f"Bearer {word}")
        async with grpc.aio.secure_channel(
            self.address,
            credentials,
            options=(("grpc.use_local_subchannel_pool", 1),),
            interceptors=[*stamps, *self.witness.interceptors],
        ) as channel:
            yield Stubs(channel)

    def write(self, *holders: Holder) -> None:
        """Put other tokens in the file, as ``brokerd tokens`` does."""
        write_book(self.book, holders)


def write_book(path: Path, holders: Sequence[Holder]) -> None:
    """Write a file of tokens."""
    path.with_suffix(".new").write_bytes(book.render(tuple(one.token for one in holders)))
    path.with_suffix(".new").chmod(0o600)
    os.replace(path.with_suffix(".new"), path)


@asynccontextmanager
async def outward(
    folder: Path, holders: Sequence[Holder] = ALL, *, client_ca: Path | None = None
) -> AsyncIterator[Outward]:
    """Serve this machine and others for the length of a block."""
    pair = certificates.write_pair(folder)
    write_book(folder / "tokens.json", holders)
    refused: list[str] = []
    made: list[Door] = []

    def door_of(clock: SystemClock) -> Door:
        made.append(
            Door(
                "127.0.0.1:0",
                keyring=Keyring(folder / "tokens.json"),
                certificates=Certificates(*pair, client_ca),
                clock=lambda: clock.now().elapsed_s,
                wall=lambda: clock.now().wall_s,
                note=refused.append,
            )
        )
        return made[0]

    async with serving(folder, door_of=door_of) as rig:
        found = Outward(rig, folder, await rig.server.open_door(), made[0], refused)
        yield found
        undocumented = await found.witness.undocumented()
        assert undocumented == [], undocumented


def stamped(header: str, key: str = "authorization") -> list[Any]:
    """Return interceptors that put a header on every call."""
    return [kind(key, header) for kind in (_Unary, _Answers, _Requests, _Both)]


class _Stamp:
    def __init__(self, key: str, header: str) -> None:
        self._item = (key, header)

    def _with(self, details: grpc.aio.ClientCallDetails) -> grpc.aio.ClientCallDetails:
        metadata = grpc.aio.Metadata(*(details.metadata or ()), self._item)
        return grpc.aio.ClientCallDetails(
            details.method, details.timeout, metadata, details.credentials, details.wait_for_ready
        )


class _Unary(_Stamp, grpc.aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(self, go_on: Any, details: Any, request: Any) -> Any:
        return await go_on(self._with(details), request)


class _Answers(_Stamp, grpc.aio.UnaryStreamClientInterceptor):
    async def intercept_unary_stream(self, go_on: Any, details: Any, request: Any) -> Any:
        return await go_on(self._with(details), request)


class _Requests(_Stamp, grpc.aio.StreamUnaryClientInterceptor):
    async def intercept_stream_unary(self, go_on: Any, details: Any, requests: Any) -> Any:
        return await go_on(self._with(details), requests)


class _Both(_Stamp, grpc.aio.StreamStreamClientInterceptor):
    async def intercept_stream_stream(self, go_on: Any, details: Any, requests: Any) -> Any:
        return await go_on(self._with(details), requests)
