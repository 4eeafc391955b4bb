"""Google's client, and the session it speaks through.

The rule: one session for both, so that the pieces of a long upload go out with the same identity,
renewed when it ends, as all other calls. Read ``open_access``.
"""

import os
from dataclasses import dataclass

import google.auth
from google.auth.credentials import Credentials
from google.auth.exceptions import GoogleAuthError
from google.auth.transport.requests import AuthorizedSession
from google.cloud import storage
from requests.adapters import HTTPAdapter

from replicator.errors import StoreForbidden

SCOPES = ("https://www.googleapis.com/auth/devstorage.read_write",)
# Without it the client looks each bucket up in a thread of its own, for traces that nobody takes:
# calls that are billed, tried again for minutes, and need a right that nothing else here needs.
NO_LOOKUPS = "DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA"
# Connections that are kept open: above what a broker copies at once, or each call would make anew.
MAX_CONNECTIONS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What calls are made with. It is shared by threads, and by all stores of one identity."""

    client: storage.Client
    session: AuthorizedSession

    def close(self) -> None:
        """Let go of the connections."""
        self.client.close()


def open_access(credentials: Credentials | None, endpoint: str | None) -> Access:
    """Make a client. Raises StoreForbidden when there are no credentials.

    ``credentials`` None: the machine's Application Default Credentials; ``endpoint`` None:
    Google's own.
    """
    if credentials is None:
        credentials = _default_credentials()
    os.environ.setdefault(NO_LOOKUPS, "true")
    session = AuthorizedSession(credentials)
    session.mount("https://", HTTPAdapter(pool_maxsize=MAX_CONNECTIONS))
    client = storage.Client(
        project=None,
        credentials=credentials,
        _http=session,
        client_options={"api_endpoint": endpoint} if endpoint else None,
    )
    return Access(client=client, session=session)


def _default_credentials() -> Credentials:
    try:
        credentials, _ = google.auth.default(scopes=SCOPES)
    except (GoogleAuthError, OSError, ValueError) as error:
        # Not what it says: it can quote the file in which it looked.
        why = f"no Application Default Credentials can be used here ({type(error).__name__})"
        raise StoreForbidden("gs://", why) from None
    found: Credentials = credentials
    return found
