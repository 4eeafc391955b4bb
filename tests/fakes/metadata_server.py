"""A metadata server of Google's on this machine: it gives out tokens, late or not if a script says.

The rule: each token is a new one, and is told to whoever must know it, here the fake store that it
opens. Read ``serve_tokens``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from tests.fakes.gcs.faults import CUT, Faults
from tests.fakes.gcs.wire import cut, json_answer, send
from tests.fakes.threaded import threaded

PATH = "/computeMetadata/v1/instance/service-accounts/default/token"


@dataclass
class FakeMetadata:
    """Its operation is ``token``. ``expires_in_s`` is what it says of the next one."""

    issue: Callable[[str], None]
    faults: Faults = field(default_factory=Faults)
    expires_in_s: float = 3599.0
    url: str = ""


@contextmanager
def serve_tokens(issue: Callable[[str], None]) -> Iterator[FakeMetadata]:
    """Serve tokens; ``issue`` hears of each before it is given out."""
    fake = FakeMetadata(issue)

    class Bound(_Handler):
        metadata = fake

    with threaded(Bound, "metadata fake") as root:
        fake.url = root + PATH
        yield fake


class _Handler(BaseHTTPRequestHandler):
    metadata: FakeMetadata
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self) -> None:
        fault = self.metadata.faults.befalls("token", {})
        if fault is CUT:
            return cut(self)
        # Without the header it refuses, so that a page in a browser gets no token.
        is_asked = self.path == PATH and self.headers.get("metadata-flavor") == "Google"
        if isinstance(fault, int) or not is_asked:
            status = fault if isinstance(fault, int) else 403
            return send(self, json_answer({}, status), is_half=False)
        token = f"token-{self.metadata.faults.calls('token')}"
        self.metadata.issue(token)
        told = {
            "access_token": token,
            "expires_in": self.metadata.expires_in_s,
            "token_type": "Bearer",
        }
        return send(self, json_answer(told), is_half=False)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
