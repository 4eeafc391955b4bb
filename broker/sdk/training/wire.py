"""Calls to a bucket of Google's over HTTP, with what Python brings: tokens, deadlines, repeats.

The rule it keeps: whatever goes wrong is a NoAnswer, and no token stands in one, and no address of
an upload, which is the right to write it. A call is sent again for some seconds; who calls it tries
again later. Read `Wire.call` first.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import NamedTuple
from urllib.parse import urlsplit

ENDPOINT = "https://storage.googleapis.com"
METADATA = (
    "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token"
)
ANSWER_S = 60.0
CALL_S = 30.0
PAUSE_FIRST_S, PAUSE_MOST_S = 0.2, 4.0
TOKEN_AHEAD_S = 240.0
MAX_TOKEN_BYTES = 16 << 10
PIECE_BYTES = 1 << 20
_TRANSIENT = (408, 429, 500, 502, 503, 504)
_DENIED = 401


class NoAnswer(OSError):
    """The store did not answer, or not what it should; as an OSError it is one of the world's."""


class Door(NamedTuple):
    """Who serves a bucket, and where the token that opens it is: a file, or an address that answers
    as the metadata server. Empty: Google."""

    endpoint: str = ""
    tokens: str = ""


class Answer(NamedTuple):
    """An answer that was read whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Request(NamedTuple):
    """A call; `url` is a path of the endpoint, or an address that it gave."""

    method: str
    url: str
    headers: Mapping[str, str] = {}
    body: bytes | memoryview = b""


class Wire:
    """Calls over one connection, one at a time. Threads may share it."""

    def __init__(self, door: Door) -> None:
        self._endpoint = door.endpoint or ENDPOINT
        self._tokens = _Tokens(door.tokens or METADATA)
        self._connection: HTTPConnection | None = None
        self._turn = threading.Lock()

    def call(self, request: Request, *, is_sent_once: bool = False) -> Answer:
        """Send a call until its answer says something, and read it. Raises NoAnswer.

        `is_sent_once`: whether it was done is asked for in another way when there is no answer.
        """
        give_up_at = time.monotonic() + CALL_S
        pause_s = PAUSE_FIRST_S
        may_renew = True
        while True:
            try:
                with self.opened(request) as response:
                    answer = Answer(
                        response.status, dict(response.headers.items()), response.read()
                    )
                trouble = f"the store answers {answer.status}"
            except OSError as error:
                if is_sent_once:
                    raise
                answer, trouble = None, str(error)
            if answer is not None and answer.status == _DENIED and may_renew:
                self._tokens.drop()
                may_renew = False
                continue
            if answer is not None and (is_sent_once or answer.status not in _TRANSIENT):
                return answer
            wait_s = pause_s * random.uniform(0.5, 1.0)
            if time.monotonic() + wait_s >= give_up_at:
                raise NoAnswer(trouble)
            time.sleep(wait_s)
            pause_s = min(PAUSE_MOST_S, pause_s * 2)

    @contextmanager
    def opened(self, request: Request) -> Iterator[Body]:
        """Send a call once; its answer is read within. Raises NoAnswer."""
        with self._turn:
            try:
                body = Body(self._send(request))
            except BaseException as error:
                self._drop()
                if isinstance(error, NoAnswer):
                    raise
                if isinstance(error, (HTTPException, OSError)):
                    raise NoAnswer(f"no answer ({type(error).__name__})") from None
                raise
            try:
                yield body
            finally:
                # What was not read whole stands in the way of the next answer.
                if not body.is_whole:
                    self._drop()

    def close(self) -> None:
        """Let go of the connection; the next call makes another."""
        with self._turn:
            self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _send(self, request: Request) -> HTTPResponse:
        parts = urlsplit(request.url if "://" in request.url else self._endpoint + request.url)
        own = urlsplit(self._endpoint)
        if (parts.scheme, parts.netloc) != (own.scheme, own.netloc):
            raise NoAnswer("the store sends us elsewhere")
        if self._connection is None:
            kind = HTTPConnection if own.scheme == "http" else HTTPSConnection
            self._connection = kind(own.netloc, timeout=ANSWER_S)
        headers = {"Authorization": f"Bearer {self._tokens.token()}", **request.headers}
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        self._connection.request(request.method, path, body=request.body, headers=headers)
        return self._connection.getresponse()


class Body:
    """The head of an answer, and its bytes; those that end too early raise NoAnswer."""

    def __init__(self, response: HTTPResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers = response.headers
        length = response.headers.get("Content-Length", "")
        self._left = int(length) if length.isdigit() else None
        self.is_whole = False

    def read(self) -> bytes:
        """All that is left."""
        found = bytearray()
        while piece := self.piece():
            found += piece
        return bytes(found)

    def piece(self) -> bytes:
        """Some more bytes, none at the end."""
        try:
            piece = self._response.read(PIECE_BYTES)
        except (HTTPException, OSError, ValueError) as error:
            raise NoAnswer(f"the answer broke off ({type(error).__name__})") from None
        if self._left is not None:
            self._left -= len(piece)
        if not piece:
            if self._left:
                raise NoAnswer(f"the answer broke off, {self._left} bytes are missing")
            self.is_whole = True
        return piece


class _Tokens:
    """The token of now. One that is about to end is renewed ahead."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._token = ""
        self._renew_at = self._ends_at = 0.0

    def token(self) -> str:
        """A token that holds. Raises NoAnswer."""
        if "://" not in self._source:
            return self._read()
        now = time.monotonic()
        if now >= self._renew_at:
            try:
                self._ask(now)
            except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
                if now >= self._ends_at:
                    raise NoAnswer(f"no token could be had ({type(error).__name__})") from None
        return self._token

    def drop(self) -> None:
        """Use the token in hand no more."""
        self._renew_at = self._ends_at = 0.0

    def _ask(self, now: float) -> None:
        parts = urlsplit(self._source)
        connection = HTTPConnection(parts.netloc, timeout=5.0)
        try:
            connection.request("GET", parts.path, headers={"Metadata-Flavor": "Google"})
            answer = connection.getresponse()
            if answer.status != 200:
                raise NoAnswer(f"{answer.status}")
            told = json.loads(answer.read(MAX_TOKEN_BYTES))
        finally:
            connection.close()
        self._token = str(told["access_token"])
        self._ends_at = now + float(told["expires_in"])
        self._renew_at = self._ends_at - TOKEN_AHEAD_S

    def _read(self) -> str:
        try:
            with open(self._source, encoding="ascii") as file:
                token = file.read(MAX_TOKEN_BYTES).strip()
        except (OSError, ValueError) as error:
            raise NoAnswer(f"no token could be read ({type(error).__name__})") from None
        if not token or not token.isprintable() or " " in token:
            raise NoAnswer("the file of the token holds none")
        return token
