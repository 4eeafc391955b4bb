"""The one place that lets calls in from other machines, or refuses them.

The rule: nothing is answered before it is known whose call it is, whether its role allows it, and
whose the thing is that it names; and no refusal tells more than that. A stream ends when its token
does. The token itself is looked at here and goes no further. Read ``Admission.admit`` first.
"""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeAlias

import grpc
import grpc.aio

from broker.access import tokens
from broker.access.keyring import Keyring
from broker.access.tokens import Token
from broker.access.tries import Tries, peer_of
from broker.history.refusals import Code, Refused
from broker.model.reasons import Reason
from broker.service.caller import calling
from broker.service.edge import Context, refuse
from broker.service.errors import invalid
from broker.service.rights import RIGHTS, Right, check_role, narrowed

FIRST_MESSAGE_S = 30.0  # until a call has said what it is about
UNKNOWNS_MESSAGE_S = 5.0  # the same, where no token is wanted
HEADER = "authorization"
_SCHEME = "bearer "
_log = logging.getLogger(__name__)

# gRPC's own class takes no parameters where the program runs. None: there is no such method.
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"


class Note(Protocol):
    """Counts a refusal."""

    def __call__(self, reason: str, /) -> None:
        """Count one for a reason."""
        ...


class Admission(grpc.aio.ServerInterceptor):
    """Stands before every handler of the server that other machines reach."""

    def __init__(
        self, keyring: Keyring, tries: Tries, *, wall: Callable[[], float], note: Note
    ) -> None:
        """``wall`` returns Unix seconds; ``note`` counts refusals by reason."""
        self._keyring = keyring
        self._tries = tries
        self._wall = wall
        self._note = note
        self._held: dict[asyncio.Timeout, Token] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """Return the handler of a method behind the checks of its row."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None  # there is no such method, and gRPC says so: the API is no secret
        return _Guarded(self, handler, handler_call_details.method).handler()

    def admit(self, right: Right | None, method: str, context: Context) -> Token | None:
        """Return the token of a call, None where none is wanted. Raises Refused."""
        if right is not None and right.role is None:
            return None
        peer, token_id = context.peer(), ""
        try:
            token = self._identified(context, peer_of(peer))
            token_id = token.id
            if right is None:
                raise Refused(
                    reason=Reason.ROLE_NOT_ENOUGH,
                    message="nobody may call this from another machine",
                    code=Code.PERMISSION_DENIED,
                )
            check_role(right, token, method)
        except Refused as refusal:
            self.tell(refusal, method, peer, token_id)
            raise
        return token

    def _identified(self, context: Context, peer: str) -> Token:
        shown = tokens.read(_word_of(context))
        token = None if shown is None else self._keyring.find(shown, self._wall())
        # What is told depends on the peer alone: not on whether there is a token of that id, and
        # while that one waits not on whether the secret was right.
        wait_s = self._tries.wait_s((peer, ""))
        if token is None:
            self._tries.failed((peer, ""))
            if shown is not None and self._keyring.knows(shown.id):
                self._tries.failed((peer, shown.id))
            raise _too_many(wait_s) if wait_s else _not_valid()
        if self._tries.wait_s((peer, token.id)):
            raise _too_many(wait_s)
        return token

    def tell(self, refusal: Refused, method: str, peer: str, token_id: str = "") -> None:
        """Count a refusal and log it, with the id of the token if it was a valid one."""
        self._note(refusal.reason.value)
        # What has to wait was told of when it failed: a flood of calls is no flood of lines.
        if refusal.reason is not Reason.TOO_MANY_TRIES:
            _log.warning(
                "a call was refused",
                extra={
                    "peer": peer,
                    "method": method,
                    "reason": refusal.reason.value,
                    "token": token_id,
                },
            )

    @asynccontextmanager
    async def held(self, token: Token | None) -> AsyncIterator[None]:
        """Keep a stream's block until it ends or its token does; then raise Refused."""
        if token is None:
            yield
            return
        try:
            async with asyncio.timeout(None) as limit:
                self._held[limit] = token
                try:
                    yield
                finally:
                    self._held.pop(limit, None)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise _not_valid() from error

    async def tick(self) -> None:
        """Look at the tokens, and end the streams of those that are not valid any more."""
        self._keyring.refresh()
        wall_s = self._wall()
        over = [
            limit
            for limit, token in self._held.items()
            if not self._keyring.still_holds(token, wall_s)
        ]
        for limit in over:
            limit.reschedule(asyncio.get_running_loop().time())
            del self._held[limit]  # once: what unwinds slowly must not be told again


class _Guarded:
    """One handler behind the checks.

    To gRPC each is one that reads a stream of requests, also where a single one comes: such a
    handler begins before the first has come, so that who has no token takes no place by sending
    nothing.
    """

    def __init__(self, admission: Admission, inner: Any, method: str) -> None:
        self._admission = admission
        self._inner = inner
        self._method = method
        self._right = RIGHTS.get(method)

    def handler(self) -> Handler:
        """Return it in the form that gRPC wants."""
        inner = self._inner
        if inner.response_streaming:
            make, work = grpc.stream_stream_rpc_method_handler, self._many
        else:
            make, work = grpc.stream_unary_rpc_method_handler, self._one
        return make(
            work,
            request_deserializer=inner.request_deserializer,
            response_serializer=inner.response_serializer,
        )

    async def _one(self, requests: Any, context: Context) -> Any:
        async with self._admitted(context) as token, self._admission.held(token):
            asked = await self._asked(token, requests, context)
            inner = self._inner
            work = inner.stream_unary if inner.request_streaming else inner.unary_unary
            return await work(asked, context)

    async def _many(self, requests: Any, context: Context) -> None:
        async with self._admitted(context) as token, self._admission.held(token):
            asked = await self._asked(token, requests, context)
            inner = self._inner
            work = inner.stream_stream if inner.request_streaming else inner.unary_stream
            await _written(work(asked, context), context)

    async def _asked(self, token: Token | None, requests: Any, context: Context) -> Any:
        """Return what the handler is to be asked, once it is known that it may be."""
        limit_s = UNKNOWNS_MESSAGE_S if token is None else FIRST_MESSAGE_S
        async with asyncio.timeout(limit_s):
            first = await anext(requests, None)
        if first is None:
            raise invalid("request", "did not come")
        if token is not None and self._right is not None:
            try:
                first = narrowed(self._right, token, first)
            except Refused as refusal:
                self._admission.tell(refusal, self._method, context.peer(), token.id)
                raise
        return _chained(first, requests) if self._inner.request_streaming else first

    @asynccontextmanager
    async def _admitted(self, context: Context) -> AsyncIterator[Token | None]:
        try:
            token = self._admission.admit(self._right, self._method, context)
            with calling(token):
                yield token
        except Exception as error:  # noqa: BLE001 - the edge: nothing may leave as it is
            await refuse(context, error, self._method)


async def _written(answer: Any, context: Context) -> None:
    """Write what a handler yields, or wait for one that writes by itself."""
    if not hasattr(answer, "__aiter__"):
        await answer
        return
    async for message in answer:
        await context.write(message)


async def _chained(first: Any, rest: Any) -> AsyncIterator[Any]:
    yield first
    async for message in rest:
        yield message


def _word_of(context: Context) -> str:
    """Return the token that came with a call, "" for none, or for more than one."""
    metadata = context.invocation_metadata() or ()
    found = [value for key, value in metadata if key == HEADER]
    match found:
        case [str(value)] if value[: len(_SCHEME)].lower() == _SCHEME:
            return value[len(_SCHEME) :].strip()
        case _:
            return ""


def _too_many(wait_s: float) -> Refused:
    return Refused(
        reason=Reason.TOO_MANY_TRIES,
        message=f"too many calls without a valid token; wait {math.ceil(wait_s)} s",
        code=Code.RESOURCE_EXHAUSTED,
    )


def _not_valid() -> Refused:
    return Refused(
        reason=Reason.TOKEN_NOT_VALID,
        message="no valid token came with the call",
        code=Code.UNAUTHENTICATED,
    )
