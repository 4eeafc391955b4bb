"""The plain client: each call returns when it is done.

    with Client() as client:
        run = client.runs.submit("vision", intent)
        for update in client.follow(Watch(run.name)):
            ...

The rule: what is said stands in ``runs``, ``regions`` and ``teams``, once; here is only how it is
sent. ``aio.AsyncClient`` sends the same. It may be used from several threads. Read ``Client.do``
first.
"""

import functools
from collections.abc import Callable, Generator, Iterator
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import grpc

from broker.sdk import channel, regions, retries, runs, settings, teams
from broker.sdk.calls import Call, Method, Operation, Stream
from broker.sdk.errors import BrokerError, error_of

RETRY_FOR_S = 20.0  # as long as a broker may take to be started again

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Outcome = TypeVar("_Outcome")


class _Spoken:
    """What a client says of one kind of thing."""

    def __init__(self, client: "Client") -> None:
        self.client = client


def _plain(said: Callable[_P, Operation[_R]]) -> Callable[Concatenate[_Spoken, _P], _R]:
    @functools.wraps(said)
    def done(self: _Spoken, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return self.client.do(said(*args, **kwargs))

    return done


class Runs(_Spoken):
    """Runs, their bundles and their checkpoints."""

    submit = _plain(runs.submit)
    validate = _plain(runs.validate)
    get = _plain(runs.get)
    find = _plain(runs.find)
    amend = _plain(runs.amend)
    cancel = _plain(runs.cancel)
    resume = _plain(runs.resume)
    fork = _plain(runs.fork)
    replace = _plain(runs.replace)
    explain = _plain(runs.explain)
    manifest = _plain(runs.manifest)
    timeline = _plain(runs.timeline)
    report = _plain(runs.report)
    upload_bundle = _plain(runs.upload_bundle)
    checkpoints = _plain(runs.checkpoints)
    refused_checkpoints = _plain(runs.refused_checkpoints)
    mark = _plain(runs.mark)
    replicas = _plain(runs.replicas)


class Regions(_Spoken):
    """Regions, their policies, and the faults of embedded ones."""

    find = _plain(regions.find)
    get = _plain(regions.get)
    check = _plain(regions.check)
    policy = _plain(regions.policy)
    set_policy = _plain(regions.set_policy)
    cordon = _plain(regions.cordon)
    uncordon = _plain(regions.uncordon)
    drain = _plain(regions.drain)
    waive = _plain(regions.waive)
    accept_store = _plain(regions.accept_store)
    remove_orphan = _plain(regions.remove_orphan)
    inject = _plain(regions.inject)


class Teams(_Spoken):
    """Teams, and the broker itself."""

    get = _plain(teams.get)
    find = _plain(teams.find)
    set_caps = _plain(teams.set_caps)
    broker = _plain(teams.broker)


class Client:
    """A connection to one broker. Nothing is sent before the first call.

    ``retry_for_s`` is how long a call that may be repeated is tried again while nobody answers;
    ``on_retry`` is told of each failure before the next attempt.
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
        self._channel = channel.opened(self.settings, grpc)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, and every stream of it."""
        self._channel.close()

    def do(self, operation: Operation[_R]) -> _R:
        """Make an operation's calls, and return its result. Raises BrokerError."""
        try:
            call = next(operation)
            while True:
                try:
                    answer = self._repeatedly(call.method, functools.partial(self._once, call))
                except BrokerError as error:
                    call = operation.throw(error)
                else:
                    call = operation.send(answer)
        except StopIteration as done:
            result: _R = done.value
            return result

    def follow(self, stream: Stream[_R]) -> Iterator[_R]:
        """Yield what a stream tells; go on where it was when the broker comes back.

        Raises BrokerError when it cannot go on.
        """
        while True:
            messages = self._repeatedly(stream.method, functools.partial(self._opened, stream))
            try:
                for message in messages:
                    yield from stream.take(message)
                return
            except grpc.RpcError as raised:
                error = error_of(raised, self.settings.server)
                if not retries.may_repeat(stream.method, error):
                    raise error from raised
                self._tell(error)
            finally:
                messages.close()

    def _once(self, call: Call) -> Any:
        method = call.method
        kind = self._channel.stream_unary if call.is_stream else self._channel.unary_unary
        send = kind(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.answer.FromString,
        )
        requests = iter(call.requests())
        said: Any = requests if call.is_stream else next(requests)
        try:
            return send(said, timeout=method.deadline_s, metadata=channel.metadata(self.settings))
        except grpc.RpcError as raised:
            raise error_of(raised, self.settings.server) from raised

    def _opened(self, stream: Stream[Any]) -> Generator[Any, None, None]:
        """Open a stream, and wait for its first message: only then is it known to be open."""
        method = stream.method
        call = self._channel.unary_stream(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.answer.FromString,
        )(stream.request(), timeout=method.deadline_s, metadata=channel.metadata(self.settings))
        try:
            first = next(call)
        except StopIteration:
            return _messages(call)
        except grpc.RpcError as raised:
            raise error_of(raised, self.settings.server) from raised
        return _messages(call, first)

    def _repeatedly(self, method: Method[Any, Any], attempt: Callable[[], _Outcome]) -> _Outcome:
        try:
            return attempt()
        except BrokerError as error:
            if not (self._retry_for_s and retries.may_repeat(method, error)):
                raise
            self._tell(error)
        import tenacity

        policy = retries.policy(method, self._retry_for_s, self._on_retry)
        return tenacity.Retrying(**policy)(attempt)

    def _tell(self, error: BrokerError) -> None:
        if self._on_retry is not None:
            self._on_retry(error)


def _messages(call: Any, *first: Any) -> Generator[Any, None, None]:
    try:
        yield from first
        yield from call
    finally:
        call.cancel()
