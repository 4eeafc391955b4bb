"""Tokens that open a bucket: from a file that somebody keeps fresh, or from the metadata server.

The rule: a token stands in no error and in no environment. One that is about to end is renewed
ahead; while that fails it is used for as long as it holds. Read ``Tokens.token``.
"""

from __future__ import annotations

import json
import time
from typing import Optional, Protocol
from urllib.parse import urlsplit

from regions.launcher.wire import Wire

METADATA = (
    "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token"
)
AHEAD_S = 240.0
"""How long before its end a token is renewed. The metadata server has a new one from 300 s on."""
AGAIN_S = 5.0
"""How long a renewal that failed is left alone, while the token in hand holds."""
AHEAD_WAIT_S = 1.0
"""How long a renewal ahead may keep the caller waiting."""
_MAX_TOKEN_BYTES = 16 << 10


class NoToken(OSError):
    """None could be had."""


class TokenSource(Protocol):
    """Who gives a store's calls their tokens."""

    def token(self, within_s: float) -> str:
        """Return a token. Raises NoToken. ``within_s`` is the limit of each wait."""

    def drop(self, token: str) -> None:
        """Use a token no more: the store did not take it, whatever its end was said to be."""

    def close(self) -> None:
        """Let go of what is held to have tokens."""


class Tokens:
    """Tokens from ``source``: an absolute path, or a URL that answers as the metadata server."""

    def __init__(self, source: str) -> None:
        parts = urlsplit(source)
        self._path: Optional[str] = None if parts.scheme else source
        self._wire = Wire(f"{parts.scheme}://{parts.netloc}") if parts.scheme else None
        self._where = parts.path
        self._token = ""
        self._ends_at_s = 0.0
        self._renew_at_s = 0.0

    def token(self, within_s: float) -> str:
        """Return a token. Raises NoToken. ``within_s`` is the limit of each wait."""
        if self._wire is None:
            return self._read()
        now_s = time.monotonic()
        if now_s < self._renew_at_s and now_s < self._ends_at_s:
            return self._token
        holds = now_s < self._ends_at_s
        try:
            self._ask(self._wire, min(within_s, AHEAD_WAIT_S) if holds else within_s)
        except (OSError, ValueError, KeyError, TypeError) as error:
            if not holds:
                raise NoToken(f"no token could be had ({type(error).__name__})") from None
            self._renew_at_s = now_s + AGAIN_S
        return self._token

    def drop(self, token: str) -> None:
        """Use a token no more: the store did not take it, whatever its end was said to be."""
        if token == self._token:
            self._ends_at_s = 0.0

    def close(self) -> None:
        """Let go of the connection."""
        if self._wire is not None:
            self._wire.close()

    def _ask(self, wire: Wire, within_s: float) -> None:
        now_s = time.monotonic()
        answer = wire.send("GET", self._where, {"Metadata-Flavor": "Google"}, None, within_s)
        body = answer.whole()
        if answer.status != 200:
            raise NoToken(f"{answer.status}")
        told = json.loads(body)
        self._token = str(told["access_token"])
        self._ends_at_s = now_s + float(told["expires_in"])
        self._renew_at_s = self._ends_at_s - AHEAD_S

    def _read(self) -> str:
        # Anew for each call: who keeps it fresh replaces it, and it is in the page cache.
        try:
            with open(str(self._path), encoding="ascii") as file:
                token = file.read(_MAX_TOKEN_BYTES).strip()
        except (OSError, ValueError) as error:
            raise NoToken(f"no token could be read ({type(error).__name__})") from None
        if not token or not token.isprintable() or " " in token:
            raise NoToken("the file of the token holds none")
        return token
