"""HTTP with what Python brings: connections that are kept, deadlines, and bodies that come whole.

The rule: whatever goes wrong between here and there is an OSError, a body that ends early too, and
nothing waits without an end. Threads may share a ``Wire``. Read ``Wire.send`` first.
"""

from __future__ import annotations

import io
import time
from collections import deque
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Deque, Mapping, Optional, Tuple
from urllib.parse import urlsplit

IDLE_S = 20.0
"""How long a connection is kept for the next call: below the time after which servers drop one."""
MAX_IDLE = 8
MAX_ANSWER_BYTES = 8 << 20
"""Of an answer that is read whole. A page of a listing is the largest."""
_PIECE_BYTES = 64 << 10


class Wire:
    """Connections to one server, ``http://host:port`` or ``https://host``."""

    def __init__(self, base: str) -> None:
        parts = urlsplit(base)
        self._is_plain = parts.scheme == "http"
        self._place = parts.netloc
        # Appending to and taking from a deque's end are whole steps, so that no lock is needed.
        self._idle: Deque[Tuple[float, HTTPConnection]] = deque()

    def send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: Optional[bytes],
        within_s: float,
    ) -> Answer:
        """Send a request and return the head of its answer. Raises OSError.

        ``within_s`` is the limit of each wait in it: for the connection, and for each next byte.
        """
        connection = self._connection(within_s)
        try:
            connection.request(method, path, body=body, headers=dict(headers))
            return Answer(self, connection, connection.getresponse())
        except HTTPException as error:
            connection.close()
            raise OSError(f"no answer ({type(error).__name__})") from None
        except BaseException:
            connection.close()
            raise

    def keep(self, connection: HTTPConnection) -> None:
        """Take back a connection on which nothing is under way."""
        if len(self._idle) < MAX_IDLE:
            self._idle.append((time.monotonic(), connection))
        else:
            connection.close()

    def close(self) -> None:
        """End the connections that are kept."""
        while self._idle:
            self._idle.pop()[1].close()

    def _connection(self, within_s: float) -> HTTPConnection:
        while self._idle:
            try:
                kept_at_s, connection = self._idle.pop()
            except IndexError:  # another thread took it
                break
            if time.monotonic() - kept_at_s < IDLE_S and connection.sock is not None:
                connection.sock.settimeout(within_s)
                return connection
            connection.close()
        kind = HTTPConnection if self._is_plain else HTTPSConnection
        return kind(self._place, timeout=within_s)


class Answer(io.RawIOBase):
    """An answer, whose body is read from it; one that ends early raises OSError.

    ``is_repeat``: a call that may have been done already was sent before the one it answers.
    """

    is_repeat = False

    def __init__(self, wire: Wire, connection: HTTPConnection, response: HTTPResponse) -> None:
        super().__init__()
        self.status = response.status
        self._wire = wire
        self._connection: Optional[HTTPConnection] = connection
        self._response = response
        length = response.getheader("Content-Length")
        self._left = int(length) if length is not None and length.isdigit() else None
        self._is_broken = False

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some of the body; see io.RawIOBase."""
        try:
            count = self._response.readinto(buffer)
        except (HTTPException, ValueError) as error:
            self._is_broken = True
            raise OSError(f"the answer broke off ({type(error).__name__})") from None
        if self._left is not None:
            self._left -= count
            # The library takes an end that comes too early for an end.
            if count == 0 and self._left > 0 and len(buffer) > 0:
                self._is_broken = True
                raise OSError(f"the answer broke off, {self._left} bytes are missing")
        return count

    def whole(self) -> bytes:
        """Read what is left, within a limit, and let go of the connection. Raises OSError."""
        body = b""
        with self:
            while len(body) <= MAX_ANSWER_BYTES:
                piece = self.read(_PIECE_BYTES)
                if not piece:
                    return body
                body += piece
        raise OSError("the answer is too long")

    def close(self) -> None:
        """Keep the connection if the body comes to its end soon, and end it otherwise."""
        connection, self._connection = self._connection, None
        if connection is not None:
            if self._is_at_end() and not self._response.will_close:
                self._wire.keep(connection)
            else:
                connection.close()
            self._response.close()
        super().close()

    def _is_at_end(self) -> bool:
        # A little that nobody wants is read: a new connection would cost more.
        if self._left is not None and self._left <= _PIECE_BYTES:
            with suppress(OSError, HTTPException):
                self._response.read()
        return self._response.isclosed() and not self._is_broken
