"""How each RPC may end, as its comment in the proto promises, held against how it does.

The rule it keeps: every call of every test of the edge is a sample. A code that a handler gives and
its comment does not name fails the test that met it. Read ``Witness.undocumented`` first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

PROTOS = Path(__file__).parents[2] / "proto" / "broker" / "v1"
_SERVICE = re.compile(r"((?:^//[^\n]*\n)*)^service (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_RPC = re.compile(r"((?:^  //.*\n)+)  rpc (\w+)\(", re.MULTILINE)
_CODE = re.compile(r"//   \* `([A-Z_]+)`:")
_MINE = frozenset({"OK", "CANCELLED"})  # what a client does by itself
_FOR_ALL = "RunService"  # its own comment says how every RPC of every service can end


@cache
def documented() -> Mapping[str, frozenset[str]]:
    """Return the codes by the path of each RPC, those that hold for all among them."""
    services = [m for p in sorted(PROTOS.glob("*.proto")) for m in _SERVICE.finditer(p.read_text())]
    for_all = next(frozenset(_CODE.findall(m[1])) for m in services if m[2] == _FOR_ALL)
    return {
        f"/broker.v1.{service[2]}/{rpc[2]}": for_all | frozenset(_CODE.findall(rpc[1]))
        for service in services
        for rpc in _RPC.finditer(service[3])
    }


class Witness:
    """Keeps every call of a channel, until it is asked."""

    def __init__(self) -> None:
        self._calls: list[tuple[str, Any]] = []

    @property
    def interceptors(self) -> list[Any]:
        """What a channel is opened with."""
        return [_Unary(self._keep), _Answers(self._keep), _Requests(self._keep)]

    def _keep(self, method: str | bytes, call: Any) -> Any:
        self._calls.append((method if isinstance(method, str) else method.decode(), call))
        return call

    async def undocumented(self) -> list[tuple[str, str]]:
        """Return (path, code) of each call that ended as its comment does not say."""
        found = []
        for method, call in self._calls:
            if call.done() and method.startswith("/broker."):
                code = (await call.code()).name
                if code not in _MINE | documented()[method]:
                    found.append((method, code))
        return found


_Keep = Callable[[str | bytes, Any], Any]


class _Kept:
    def __init__(self, keep: _Keep) -> None:
        self.keep = keep


class _Unary(_Kept, grpc.aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(self, go_on: Any, details: Any, request: Any) -> Any:
        return self.keep(details.method, await go_on(details, request))


class _Answers(_Kept, grpc.aio.UnaryStreamClientInterceptor):
    async def intercept_unary_stream(self, go_on: Any, details: Any, request: Any) -> Any:
        return self.keep(details.method, await go_on(details, request))


class _Requests(_Kept, grpc.aio.StreamUnaryClientInterceptor):
    async def intercept_stream_unary(self, go_on: Any, details: Any, requests: Any) -> Any:
        return self.keep(details.method, await go_on(details, requests))
