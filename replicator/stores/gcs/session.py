"""A resumable upload: pieces go out one after the other, and the last one makes the object.

The rule: the address of a session is the right to write, so it goes into no error and no log. A
piece whose answer was lost is asked for before it is sent again, and only what did not come is.
Read ``Session.send`` first.
"""

import re
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus

import requests

from replicator.errors import StoreError
from replicator.stores.gcs.calls import Caller, Missing, Passing, refusal
from replicator.stores.gcs.pieces import Piece

_KEPT = re.compile(r"bytes=0-(\d+)")
_DONE = (HTTPStatus.OK, HTTPStatus.CREATED)


@dataclass(slots=True, kw_only=True)
class Session:
    """One write under way. ``kept_bytes`` is what the store is known to have."""

    name: str
    address: str = field(repr=False)
    transport: requests.Session
    caller: Caller
    kept_bytes: int = 0
    is_unsure: bool = False

    def send(self, piece: Piece, crc32c: str) -> None:
        """Send a piece until the store has it. ``crc32c``: of all bytes up to its end.

        Raises Unmet when the last piece met an object that should not be there, and StoreError.
        """
        try:
            self.caller.ask(self.name, lambda: self._send(piece, crc32c))
        except Missing:
            raise StoreError(self.name, "its upload is not known any more") from None

    def ask(self) -> None:
        """Learn how much the store has, of a session that was begun before.

        Raises StoreError when it knows it no more.
        """
        self.is_unsure = True
        try:
            self.caller.ask(self.name, lambda: self._put(b"", "bytes */*", ""))
        except Missing:
            raise StoreError(self.name, "its upload is not known any more") from None

    def cancel(self) -> None:
        """Let the store forget what came. It would by itself, after a week."""
        with suppress(requests.RequestException):
            self._request("DELETE", {}, b"")

    def _send(self, piece: Piece, crc32c: str) -> None:
        if self.is_unsure:
            total = piece.end if piece.is_last else "*"
            if self._put(b"", f"bytes */{total}", crc32c) is None:
                return
        while self.kept_bytes < piece.end:
            before = self.kept_bytes
            self.is_unsure = True
            total = piece.end if piece.is_last else "*"
            rest = memoryview(piece.data)[before - piece.start :]
            if self._put(rest, f"bytes {before}-{piece.end - 1}/{total}", crc32c) is None:
                return
            if self.kept_bytes <= before:
                raise Passing(self.name, "the store took no byte of a piece")
        self.is_unsure = False

    def _put(self, data: bytes | memoryview, content_range: str, crc32c: str) -> int | None:
        """Send bytes or a question; return how many the store has now, None when it is done."""
        headers = {"Content-Range": content_range}
        if not content_range.endswith("/*"):
            headers["x-goog-hash"] = f"crc32c={crc32c}"
        answer = self._request("PUT", headers, data)
        if answer.status_code in _DONE:
            return None
        if answer.status_code != HTTPStatus.PERMANENT_REDIRECT:
            raise refusal(self.name, answer.status_code, answer)
        kept = _KEPT.fullmatch(answer.headers.get("Range", ""))
        self.kept_bytes = int(kept[1]) + 1 if kept else 0
        return self.kept_bytes

    def _request(
        self, method: str, headers: dict[str, str], data: bytes | memoryview
    ) -> requests.Response:
        return self.transport.request(
            method,
            self.address,
            data=bytes(data),
            headers=headers,
            timeout=self.caller.patience.timeout,
            allow_redirects=False,
        )
