"""One call to Google's store: with deadlines, repeated while that can help, its failure translated.

The rule: the client's own retries are off and these count, so that a call takes a bounded time;
and no address goes into an error, as that of an upload is the right to write it. Whoever hands in
a call has made sure, by a precondition, that it may be sent twice. Read ``Caller.ask`` first.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar

import requests
import tenacity
import urllib3
from google.api_core.exceptions import GoogleAPICallError
from google.auth.exceptions import GoogleAuthError, TransportError

from replicator.errors import StoreError, StoreForbidden, StoreUnreachable

T = TypeVar("T")

_TRANSIENT = (408, 429, 500, 502, 503, 504)
_DENIED = (401, 403)
_MAX_WORDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a call may take, and how often it is sent. ``pause`` waits some seconds."""

    connect_s: float
    answer_s: float
    attempts: int
    longest_pause_s: float
    pause: Callable[[float], None]

    @property
    def timeout(self) -> tuple[float, float]:
        """The two limits of one attempt, as requests takes them."""
        return (self.connect_s, self.answer_s)


# A call of a rewrite takes up to half a minute by itself. Six attempts and pauses of up to eight
# seconds bridge what Google asks clients to bridge; beyond, the store counts as silent.
PATIENCE = Patience(
    connect_s=10.0, answer_s=60.0, attempts=6, longest_pause_s=8.0, pause=time.sleep
)


class Passing(StoreUnreachable):
    """A failure that may be over when the call is sent again."""


class Missing(StoreUnreachable):
    """404: there is no such object, generation or upload, or no such bucket at all."""


class Unmet(StoreError):
    """412: what the call expected to be there was not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Makes calls, as patiently as it was told."""

    patience: Patience

    def ask(self, name: str, call: Callable[[], T]) -> T:
        """Return what the call returns, about the object ``name``.

        Raises Missing and Unmet, which are for the caller to judge, and StoreError.
        """
        patience = self.patience
        sent = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(Passing),
            stop=tenacity.stop_after_attempt(patience.attempts),
            wait=tenacity.wait_random_exponential(multiplier=0.5, max=patience.longest_pause_s),
            sleep=patience.pause,
            reraise=True,
        )
        result: T = sent(_translated, name, call)
        return result


def _translated(name: str, call: Callable[[], T]) -> T:
    try:
        return call()
    except GoogleAPICallError as error:
        raise refusal(name, int(error.code or 0), error.response) from None
    except TransportError:
        raise Passing(name, "no token could be had for it") from None
    except GoogleAuthError as error:
        raise StoreForbidden(name, f"the credentials fail ({type(error).__name__})") from None
    except (requests.RequestException, urllib3.exceptions.HTTPError, ConnectionError) as error:
        raise Passing(name, f"no answer ({type(error).__name__})") from None


def refusal(name: str, status: int, response: requests.Response | None) -> StoreError:
    """Return what an answer that refuses means."""
    words = f"{status} {_words(status, response)}"
    if status in _TRANSIENT:
        return Passing(name, words)
    if status in _DENIED:
        return StoreForbidden(name, words)
    if status == HTTPStatus.NOT_FOUND:
        return Missing(name, words)
    if status == HTTPStatus.PRECONDITION_FAILED:
        return Unmet(name, words)
    return StoreError(name, words)


def _words(status: int, response: requests.Response | None) -> str:
    """Return Google's own sentence, without the address that its client puts before it."""
    try:
        told: Any = response.json()["error"]["message"] if response is not None else ""
    except (ValueError, KeyError, TypeError, requests.RequestException):
        told = ""
    if isinstance(told, str) and told:
        return " ".join(told.split())[:_MAX_WORDS]
    return HTTPStatus(status).phrase if status in set(HTTPStatus) else "an answer it should not be"
