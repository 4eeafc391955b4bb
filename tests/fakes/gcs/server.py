"""The fake as a server on a port of this machine, one thread a connection. Read ``serve``."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from replicator.stores.gcs.access import NO_LOOKUPS
from tests.fakes.gcs.cloud import Cloud
from tests.fakes.gcs.faults import Faults
from tests.fakes.gcs.routes import Handler
from tests.fakes.gcs.uploads import Uploads
from tests.fakes.threaded import threaded


@dataclass
class FakeGcs:
    """A cloud behind a door. ``tokens``: those that it lets in; None: everybody."""

    cloud: Cloud = field(default_factory=lambda: Cloud(time.time))
    faults: Faults = field(default_factory=Faults)
    tokens: set[str] | None = None
    url: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)
    uploads: Uploads = field(init=False)
    clients: list[storage.Client] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.uploads = Uploads(self.cloud)

    def client(self) -> storage.Client:
        """Return a client of Google's on this fake; it is closed with it."""
        os.environ.setdefault(NO_LOOKUPS, "true")
        client = storage.Client(
            project="p",
            credentials=AnonymousCredentials(),
            client_options={"api_endpoint": self.url},
        )
        self.clients.append(client)
        return client


@contextmanager
def serve() -> Iterator[FakeGcs]:
    """Serve a fake."""
    fake = FakeGcs()

    class Bound(Handler):
        gcs = fake

    with threaded(Bound, "gcs fake") as fake.url:
        try:
            yield fake
        finally:
            for client in fake.clients:
                client.close()
