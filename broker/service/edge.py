"""Around every handler: who asks, how long it may take, and how an error leaves.

The rule: a handler returns its answer or raises; here every exception becomes one status with its
details, and a fault of ours is logged once, whole, while the client learns only that. Cancellation
passes through untouched. Read ``unary`` first.
"""

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NoReturn, Protocol, TypeVar, cast

import grpc.aio

from broker.history.refusals import Code, Refused
from broker.model.actor import Actor, ActorKind
from broker.model.reasons import Reason
from broker.service.caller import caller
from broker.service.errors import code_of, is_ours, metadata_of, status_of

ANSWER_LIMIT_S = 30.0  # a unary call that takes longer waits for something that is broken
USER_KEY = "broker-user"  # metadata: who asks, of this machine's user: a label, and no proof
USER_MAX = 64
NOBODY = "somebody"

_S = TypeVar("_S")
_Q = TypeVar("_Q")
_R = TypeVar("_R")
_W = TypeVar("_W", bound="HasStreams")
_Q_contra = TypeVar("_Q_contra", contravariant=True)
_log = logging.getLogger(__name__)

Context = grpc.aio.ServicerContext[Any, Any]


class Send(Protocol[_Q_contra]):
    """Sends one message of a stream; waits while the client is slow."""

    def __call__(self, message: _Q_contra, /) -> Awaitable[None]:
        """Return once the message is on its way."""
        ...


class Streams:
    """The streams that are open, so that a server that stops can end them with a word."""

    def __init__(self) -> None:
        self._open: set[asyncio.Timeout] = set()

    def end(self) -> None:
        """End every open stream UNAVAILABLE; the clients come back where they were."""
        for limit in self._open:
            limit.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Keep a stream's block until it ends or ``end`` is called; then raise Refused."""
        try:
            async with asyncio.timeout(None) as limit:
                self._open.add(limit)
                try:
                    yield
                finally:
                    self._open.discard(limit)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise Refused(
                reason=Reason.SHUTTING_DOWN,
                message="the server is stopping; come back in a moment",
                code=Code.UNAVAILABLE,
            ) from error


class HasStreams(Protocol):
    """A service with streams."""

    streams: Streams


def unary(
    handler: Callable[[_S, _Q, Actor], Awaitable[_R]], limit_s: float = ANSWER_LIMIT_S
) -> Callable[[_S, _Q, Context], Awaitable[_R]]:
    """Make a handler that answers once, within ``limit_s`` seconds, of one that knows no gRPC."""

    @functools.wraps(handler)
    async def answer(self: _S, request: _Q, context: Context) -> _R:
        try:
            async with asyncio.timeout(limit_s):
                return await handler(self, request, actor_of(context))
        except Exception as error:  # noqa: BLE001 - the edge: nothing may leave as it is
            await refuse(context, error, handler.__name__)

    return answer


def unary_within(
    limit_s: float,
) -> Callable[
    [Callable[[_S, _Q, Actor], Awaitable[_R]]], Callable[[_S, _Q, Context], Awaitable[_R]]
]:
    """As ``unary``, for a handler that may take longer."""
    return lambda handler: unary(handler, limit_s)


def streaming(
    handler: Callable[[_W, _Q, Actor, Send[_R]], Awaitable[None]],
) -> Callable[[_W, _Q, Context], AsyncIterator[_R]]:
    """Make a handler that answers with a stream. It lasts as long as the client listens.

    It is a coroutine that writes, not a generator: cancelled, it unwinds at once and in its own
    task, where a generator would be left suspended.
    """

    @functools.wraps(handler)
    async def answer(self: _W, request: _Q, context: Context) -> None:
        try:
            async with self.streams.held():
                await handler(self, request, actor_of(context), _Outgoing(context).send)
        except Exception as error:  # noqa: BLE001 - the edge: nothing may leave as it is
            await refuse(context, error, handler.__name__)

    # gRPC tells the two forms apart by inspection; the stubs know the generator only.
    return cast(Callable[[_W, _Q, Context], AsyncIterator[_R]], answer)


class _Outgoing:
    """What one stream sends, one message at a time, so that a status can follow at any moment.

    gRPC opens an answer with its metadata, in one step with the first message. A call that was
    cancelled within that step takes no status any more, and its client waits for good: so the
    opening is a step of its own, which is over before a cancellation goes on.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._is_begun = False
        self._opened = asyncio.Event()

    async def send(self, message: object) -> None:
        """Send one message; wait while the client is slow."""
        if not self._is_begun:
            self._is_begun = True
            try:
                await asyncio.shield(self._open())
            except asyncio.CancelledError:
                await self._opened.wait()
                raise
        await self._context.write(message)

    async def _open(self) -> None:
        try:
            await self._context.send_initial_metadata(())
        finally:
            self._opened.set()


async def refuse(context: Context, error: Exception, method: str) -> NoReturn:
    """End the call with the status of an error."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, grpc.aio.AbortError):
        raise error
    if is_ours(error):
        _log.error("%s failed", method, exc_info=error)
    status = status_of(error)
    await context.abort(code_of(status), status.message, metadata_of(status))


def actor_of(context: Context, kind: ActorKind = ActorKind.USER) -> Actor:
    """Return who asks: whom the token names, or without one whom the client does."""
    token = caller()
    if token is not None:
        return Actor(kind=kind, name=token.actor)
    for key, value in context.invocation_metadata() or ():
        if key == USER_KEY and isinstance(value, str) and value.isprintable():
            return Actor(kind=kind, name=value[:USER_MAX] or NOBODY)
    return Actor(kind=kind, name=NOBODY)
