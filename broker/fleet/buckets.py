"""Buckets of Google's as regions' stores (imports Google's client).

The rule: one identity opens all of them, the broker's own: Application Default Credentials, or
tokens that somebody gives it and keeps fresh; gangs have theirs. It is looked for once something is
to be opened. Read ``Doors`` first.
"""

import threading
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path

from google.auth.credentials import Credentials
from google.auth.exceptions import GoogleAuthError, TransportError
from google.auth.transport.requests import Request

from broker.config import Buckets
from broker.options import StartError
from regions.launcher.bucket import ENDPOINT, BucketStore
from regions.launcher.store import Store, StoreError
from regions.launcher.tokens import NoToken, Tokens
from replicator.errors import StoreForbidden
from replicator.stores.gcs import PATIENCE, Access, GcsStore, Notes, open_access, read_location
from replicator.stores.port import ContentStore

CALL_S = 4.0
"""How long a call for a record of the start protocol is sent again: below what a look may take."""


class Doors:
    """Opens buckets, with one identity for all. Threads may share it."""

    def __init__(self, settings: Buckets, notes: Path) -> None:
        """Make them; ``notes`` is the folder for what is under way."""
        self._settings = settings
        self._notes = Notes(notes)
        self._turn = threading.Lock()
        self._access: Access | None = None
        self._records: dict[str, BucketStore] = {}

    @property
    def access(self) -> Access:
        """Google's client. Raises StartError where there is nobody to be."""
        with self._turn:
            if self._access is None:
                self._access = self._open()
            return self._access

    def control(self, location: str) -> BucketStore:
        """Return the launcher's kind of store. Raises StartError."""
        credentials = self.access.session.credentials
        with self._turn:
            if location not in self._records:
                self._records[location] = BucketStore(
                    location,
                    IdentityTokens(credentials),
                    self._settings.endpoint or ENDPOINT,
                    CALL_S,
                )
            return self._records[location]

    def content(self, location: str) -> GcsStore:
        """Return the replicator's kind of store. Raises StartError."""
        return GcsStore(self.access, read_location(location), PATIENCE, self._notes)

    def close(self) -> None:
        """Let go of all connections."""
        with self._turn:
            for store in self._records.values():
                store.close()
            if self._access is not None:
                self._access.close()

    def _open(self) -> Access:
        given = self._settings.tokens
        try:
            return open_access(
                Given(Tokens(given)) if given else None, self._settings.endpoint or None
            )
        except StoreForbidden as error:
            raise StartError(
                f"buckets cannot be opened: {error.sentence}. gcloud auth application-default login"
                " makes some, a pod gets them from its Kubernetes service account, and"
                " buckets.tokens names another source"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketPlace:
    """A folder of a bucket."""

    location: str
    doors: Doors

    @property
    def folder(self) -> Path | None:
        """None: it is no directory."""
        return None

    def control(self) -> Store:
        """Return the launcher's kind of store."""
        return self.doors.control(self.location)

    def content(self) -> ContentStore:
        """Return the replicator's kind of store."""
        return self.doors.content(self.location)

    def mark(self, region: str) -> None:
        """Mark it, unless it is marked already."""
        try:
            self.doors.control(self.location).create()
        except StoreError as error:
            raise StartError(
                f"the store of {region} cannot be written: {error}. The bucket has to be there, and"
                " the broker to be allowed to list, read, write and delete its objects"
            ) from error


class Given(Credentials):
    """Tokens that somebody gives us, as Google's library asks for them."""

    def __init__(self, tokens: Tokens) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # the library's own has no types
        self._tokens = tokens

    def before_request(
        self, request: Request, method: str, url: str, headers: MutableMapping[str, str]
    ) -> None:
        """Put the token of now into a request: who gives it knows when it is another."""
        self._take()
        self.apply(headers)  # type: ignore[no-untyped-call]  # as above

    def refresh(self, request: Request) -> None:
        """Ask for another one than that in hand."""
        if self.token:
            self._tokens.drop(self.token)
        self._take()

    def _take(self) -> None:
        try:
            self.token = self._tokens.token(CALL_S)
        except NoToken as error:
            raise TransportError(str(error)) from None


class IdentityTokens:
    """Tokens of an identity of Google's library, as the launcher's store asks for them."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._turn = threading.Lock()
        self._request = Request()

    def token(self, within_s: float) -> str:
        """Return a token that holds. Raises NoToken. How long it waits is the library's to say."""
        headers: dict[str, str] = {}
        with self._turn:
            try:
                self._credentials.before_request(self._request, "GET", "", headers)
            except (GoogleAuthError, OSError) as error:
                raise NoToken(f"no token could be had ({type(error).__name__})") from None
        return headers["authorization"].removeprefix("Bearer ")

    def drop(self, token: str) -> None:
        """Have another one made: the store did not take this one."""
        with self._turn:
            try:
                self._credentials.refresh(self._request)
            except (GoogleAuthError, OSError):
                return  # the next call says why

    def close(self) -> None:
        """Nothing is held."""
