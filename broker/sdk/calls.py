"""What is said to the broker, apart from how it is sent.

The rule: an operation is a generator. It yields calls, is sent their answers (or thrown their
errors), and returns its result. It does no I/O, so the plain client and the asynchronous one run
the very same operations. Read ``ask`` first.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from google.protobuf.message import Message

Q = TypeVar("Q", bound=Message)
R = TypeVar("R")
T_co = TypeVar("T_co", covariant=True)
A = TypeVar("A", bound=Message)

READ_S = 15.0  # the broker answers reads from memory
CHANGE_S = 30.0  # a change waits for the log's disk
UPLOAD_S = 600.0
OPEN_ENDED = None  # a stream lasts as long as somebody listens


@dataclass(frozen=True, slots=True, kw_only=True)
class Method(Generic[Q, A]):
    """One RPC.

    ``deadline_s`` is how long one attempt may take. ``is_repeatable``: it may be sent again after a
    failure without doing anything twice.
    """

    path: str
    request: type[Q]
    answer: type[A]
    deadline_s: float | None
    is_repeatable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, or several that are sent as a stream; one answer."""

    method: Method[Any, Any]
    requests: Callable[[], Iterable[Message]]
    is_stream: bool


Operation: TypeAlias = Generator[Call, Any, R]


def ask(method: Method[Q, A], request: Q) -> Operation[A]:
    """Send one request; return the answer."""
    answer: A = yield Call(method=method, requests=lambda: (request,), is_stream=False)
    return answer


def send(method: Method[Q, A], requests: Callable[[], Iterable[Q]]) -> Operation[A]:
    """Send a stream of requests, made anew for each attempt; return the answer."""
    answer: A = yield Call(method=method, requests=requests, is_stream=True)
    return answer


class Stream(Protocol[T_co]):
    """Something that goes on: where it stands, and what a message of it means.

    After a failure it is opened again with ``request``, which goes on after the last message taken.
    """

    @property
    def method(self) -> Method[Any, Any]:
        """The RPC."""
        ...

    def request(self) -> Message:
        """Return what is asked for, from where it stands."""
        ...

    def take(self, message: Any) -> Iterator[T_co]:
        """Yield what a message holds, once, and remember how far it came."""
        ...


def read(service: str, name: str, request: type[Q], answer: type[A]) -> Method[Q, A]:
    """Return an RPC that changes nothing."""
    return _method(service, name, request, answer, READ_S, is_repeatable=True)


def change(
    service: str, name: str, request: type[Q], answer: type[A], *, is_repeatable: bool = False
) -> Method[Q, A]:
    """Return an RPC that changes something."""
    return _method(service, name, request, answer, CHANGE_S, is_repeatable=is_repeatable)


def upload(service: str, name: str, request: type[Q], answer: type[A]) -> Method[Q, A]:
    """Return an RPC that takes in a stream of what is named after its content."""
    return _method(service, name, request, answer, UPLOAD_S, is_repeatable=True)


def streaming(service: str, name: str, request: type[Q], answer: type[A]) -> Method[Q, A]:
    """Return an RPC that answers with a stream."""
    return _method(service, name, request, answer, OPEN_ENDED, is_repeatable=True)


def _method(
    service: str,
    name: str,
    request: type[Q],
    answer: type[A],
    deadline_s: float | None,
    *,
    is_repeatable: bool,
) -> Method[Q, A]:
    return Method(
        path=f"/broker.v1.{service}/{name}",
        request=request,
        answer=answer,
        deadline_s=deadline_s,
        is_repeatable=is_repeatable,
    )
