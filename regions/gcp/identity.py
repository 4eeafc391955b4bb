"""Who we are to Google: Application Default Credentials, and tokens of them (imports google.auth).

The rule: a token is renewed before it ends, by one caller at a time, in a thread with a deadline;
while a renewal fails the old one is used for as long as it holds. No token and no file's content
stands in an error. Read ``Tokens.token`` first.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import google.auth
from google.auth.credentials import Credentials
from google.auth.exceptions import GoogleAuthError
from google.auth.transport.requests import Request

from regions.gcp.errors import AccessError

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
RENEW_AHEAD_S = 300.0
RENEW_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Credentials, and the project that they name; empty: none."""

    credentials: Credentials
    project: str


def find_identity() -> Identity:
    """Find the machine's credentials; it may ask the metadata server. Raises AccessError."""
    try:
        credentials, project = google.auth.default(scopes=SCOPES)
    except (GoogleAuthError, OSError, ValueError) as error:
        raise AccessError(
            "there are no Application Default Credentials here that can be used"
            f" ({type(error).__name__}): gcloud auth application-default login makes some, and a"
            " pod gets them from its Kubernetes service account"
        ) from error
    return Identity(credentials=credentials, project=project or "")


class Tokens:
    """Access tokens of some credentials. ``now`` tells the wall clock's Unix time."""

    def __init__(
        self,
        credentials: Credentials,
        now: Callable[[], float],
        renew: Callable[[Credentials], None] | None = None,
    ) -> None:
        self._credentials = credentials
        self._now = now
        self._renew = renew or _renew
        self._turn = asyncio.Lock()

    async def token(self) -> str:
        """Return a token that holds for some minutes. Raises AccessError."""
        async with self._turn:
            if self._left_s() < RENEW_AHEAD_S:
                await self._renewed()
            return str(self._credentials.token)

    def _left_s(self) -> float:
        """Return how long the token in hand holds; one that names no end holds on."""
        if not self._credentials.token:
            return -1.0
        end = self._credentials.expiry
        # The library keeps the time without its zone, which is UTC.
        return float("inf") if end is None else _unix_s(end) - self._now()

    async def _renewed(self) -> None:
        try:
            async with asyncio.timeout(RENEW_WITHIN_S):
                await asyncio.to_thread(self._renew, self._credentials)
        except (GoogleAuthError, TimeoutError, OSError) as error:
            if self._left_s() <= 0:
                why = f"no token could be had ({type(error).__name__})"
                raise AccessError(why) from None
        if self._left_s() <= 0:
            raise AccessError("the token that came has ended already")


def _renew(credentials: Credentials) -> None:
    credentials.refresh(Request())


def _unix_s(end: datetime) -> float:
    return end.replace(tzinfo=UTC).timestamp()
