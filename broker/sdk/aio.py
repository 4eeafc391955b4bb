"""The asynchronous client: as ``plain.Client``, for an event loop.

    async with AsyncClient() as client:
        run = await client.runs.submit("vision", intent)
        async for update in client.follow(Watch(run.name)):
            ...

The rule: it says what the plain client says, from the same operations; a test holds the two to the
same words. Read ``AsyncClient.do`` first.
"""

import functools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import grpc
import grpc.aio

from broker.sdk import channel, regions, retries, runs, settings, teams
from broker.sdk.calls import Call, Method, Operation, Stream
from broker.sdk.errors import BrokerError, error_of
from broker.sdk.plain import RETRY_FOR_S

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Outcome = TypeVar("_Outcome")


class _Spoken:
    """What a client says of one kind of thing."""

    def __init__(self, client: "AsyncClient") -> None:
        self.client = client


def _awaited(
    said: Callable[_P, Operation[_R]],
) -> Callable[Concatenate[_Spoken, _P], Awaitable[_R]]:
    @functools.wraps(said)
    async def done(self: _Spoken, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await self.client.do(said(*args, **kwargs))

    return done


class Runs(_Spoken):
    """Runs, their bundles and their checkpoints."""

    submit = _awaited(runs.submit)
    validate = _awaited(runs.validate)
    get = _awaited(runs.get)
    find = _awaited(runs.find)
    amend = _awaited(runs.amend)
    cancel = _awaited(runs.cancel)
    resume = _awaited(runs.resume)
    fork = _awaited(runs.fork)
    replace = _awaited(runs.replace)
    explain = _awaited(runs.explain)
    manifest = _awaited(runs.manifest)
    timeline = _awaited(runs.timeline)
    report = _awaited(runs.report)
    upload_bundle = _awaited(runs.upload_bundle)
    checkpoints = _awaited(runs.checkpoints)
    refused_checkpoints = _awaited(runs.refused_checkpoints)
    mark = _awaited(runs.mark)
    replicas = _awaited(runs.replicas)


class Regions(_Spoken):
    """Regions, their policies, and the faults of embedded ones."""

    find = _awaited(regions.find)
    get = _awaited(regions.get)
    check = _awaited(regions.check)
    policy = _awaited(regions.policy)
    set_policy = _awaited(regions.set_policy)
    cordon = _awaited(regions.cordon)
    uncordon = _awaited(regions.uncordon)
    drain = _awaited(regions.drain)
    waive = _awaited(regions.waive)
    accept_store = _awaited(regions.accept_store)
    remove_orphan = _awaited(regions.remove_orphan)
    inject = _awaited(regions.inject)


class Teams(_Spoken):
    """Teams, and the broker itself."""

    get = _awaited(teams.get)
    find = _awaited(teams.find)
    set_caps = _awaited(teams.set_caps)
    broker = _awaited(teams.broker)


class AsyncClient:
    """A connection to one broker, for the loop that makes it. Nothing is sent before a first call.

    The parameters are the plain client's.
    """

    def __init__(
        self,
        found: settings.Settings | None = None,
        *,
        retry_for_s: float = RETRY_FOR_S,
        on_retry: retries.OnRetry | None = None,
    ) -> None:
        self.settings = found or settings.find()
        self.runs = Runs(self)
        self.regions = Regions(self)
        self.teams = Teams(self)
        self._retry_for_s = retry_for_s
        self._on_retry = on_retry
        self._channel = channel.opened(self.settings, grpc.aio)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the connection, and every stream of it."""
        await self._channel.close()

    async def do(self, operation: Operation[_R]) -> _R:
        """Make an operation's calls, and return its result. Raises BrokerError."""
        try:
            call = next(operation)
            while True:
                try:
                    answer = await self._repeatedly(
                        call.method, functools.partial(self._once, call)
                    )
                except BrokerError as error:
                    call = operation.throw(error)
                else:
                    call = operation.send(answer)
        except StopIteration as done:
            result: _R = done.value
            return result

    async def follow(self, stream: Stream[_R]) -> AsyncIterator[_R]:
        """Yield what a stream tells; go on where it was when the broker comes back.

        Raises BrokerError when it cannot go on.
        """
        while True:
            messages = await self._repeatedly(
                stream.method, functools.partial(self._opened, stream)
            )
            try:
                async for message in messages:
                    for told in stream.take(message):
                        yield told
                return
            except grpc.RpcError as raised:
                error = error_of(raised, self.settings.server)
                if not retries.may_repeat(stream.method, error):
                    raise error from raised
                self._tell(error)
            finally:
                await messages.aclose()

    async def _once(self, call: Call) -> Any:
        method = call.method
        kind = self._channel.stream_unary if call.is_stream else self._channel.unary_unary
        send: Callable[..., Awaitable[Any]] = kind(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.answer.FromString,
        )
        requests = iter(call.requests())
        said = requests if call.is_stream else next(requests)
        try:
            return await send(
                said, timeout=method.deadline_s, metadata=channel.metadata(self.settings)
            )
        except grpc.RpcError as raised:
            raise error_of(raised, self.settings.server) from raised

    async def _opened(self, stream: Stream[Any]) -> AsyncGenerator[Any, None]:
        """Open a stream, and wait for its first message: only then is it known to be open."""
        method = stream.method
        call = self._channel.unary_stream(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.answer.FromString,
        )(stream.request(), timeout=method.deadline_s, metadata=channel.metadata(self.settings))
        try:
            first = await call.read()
        except grpc.RpcError as raised:
            raise error_of(raised, self.settings.server) from raised
        return _messages(call, first)

    async def _repeatedly(
        self, method: Method[Any, Any], attempt: Callable[[], Awaitable[_Outcome]]
    ) -> _Outcome:
        try:
            return await attempt()
        except BrokerError as error:
            if not (self._retry_for_s and retries.may_repeat(method, error)):
                raise
            self._tell(error)
        import tenacity

        policy = retries.policy(method, self._retry_for_s, self._on_retry)
        return await tenacity.AsyncRetrying(**policy)(attempt)

    def _tell(self, error: BrokerError) -> None:
        if self._on_retry is not None:
            self._on_retry(error)


async def _messages(call: Any, message: Any) -> AsyncGenerator[Any, None]:
    try:
        while message is not grpc.aio.EOF:
            yield message
            message = await call.read()
    finally:
        call.cancel()
