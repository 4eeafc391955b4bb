"""Two stores of Google's in two locations: on the fake, or real ones.

Real buckets join when ``BROKER_TEST_BUCKETS`` names two, as ``one,two``, best in two locations; the
machine's Application Default Credentials must be allowed to write there. What is written lies under
a folder of its own, and is removed again. Read ``fake_pair`` first.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from google.auth.credentials import AnonymousCredentials

from replicator.stores.gcs import PATIENCE, Access, GcsStore, Location, Notes, open_access
from tests.fakes.gcs import FakeGcs, serve

BUCKETS = tuple(filter(None, os.environ.get("BROKER_TEST_BUCKETS", "").split(",")))
REAL = ("buckets",) if len(BUCKETS) == 2 else ()

# On the fake, whose troubles are planned and over at once.
BRIEF = replace(PATIENCE, longest_pause_s=0.01)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two stores of Google's, in two locations. ``fake`` is None for real buckets."""

    source: GcsStore
    destination: GcsStore
    access: Access
    notes: Notes
    fake: FakeGcs | None


@contextmanager
def fake_pair() -> Iterator[Pair]:
    """Serve two buckets that do not last."""
    with serve() as fake, TemporaryDirectory() as folder:
        access, notes = open_access(AnonymousCredentials(), fake.url), Notes(Path(folder))
        stores = []
        for bucket, location in (("east", "us-east4"), ("west", "us-west1")):
            fake.cloud.make_bucket(bucket, location, "STANDARD")
            stores.append(GcsStore(access, Location(bucket=bucket, folder="broker/"), BRIEF, notes))
            stores[-1].create()
        try:
            yield Pair(stores[0], stores[1], access, notes, fake)
        finally:
            access.close()


@contextmanager
def real_pair() -> Iterator[Pair]:
    """Use folders of two buckets that do, and leave them as they were."""
    access = open_access(None, None)
    prefix = f"broker-test-{secrets.token_hex(8)}/"
    with TemporaryDirectory() as folder:
        notes = Notes(Path(folder))
        stores = [
            GcsStore(access, Location(bucket=bucket, folder=prefix), PATIENCE, notes)
            for bucket in BUCKETS
        ]
        try:
            for store in stores:
                store.create()
            yield Pair(stores[0], stores[1], access, notes, None)
        finally:
            for bucket in BUCKETS:
                for blob in access.client.list_blobs(bucket, prefix=prefix):
                    blob.delete()
            access.close()
