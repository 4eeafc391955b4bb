"""The stores that the suites of this folder run on.

Real buckets join when ``BROKER_TEST_BUCKETS`` names two, as ``one,two``, best in two locations; the
machine's Application Default Credentials must be allowed to write there. What is written lies under
a folder of its own, and is removed again.
"""

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from google.auth.credentials import AnonymousCredentials

from replicator.stores import ContentStore, DirectoryStore
from replicator.stores.gcs import PATIENCE, Access, GcsStore, Location, open_access
from tests.fakes.gcs import FakeGcs, serve
from tests.fakes.object_store import MemoryObjectStore

BUCKETS = tuple(filter(None, os.environ.get("BROKER_TEST_BUCKETS", "").split(",")))
REAL = ("buckets",) if len(BUCKETS) == 2 else ()
KINDS = ("memory", "directory", "gcs", *REAL)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say whether it was about real buckets."""
    told = " and ".join(BUCKETS) if REAL else "none, BROKER_TEST_BUCKETS does not name two"
    terminalreporter.write_line(f"real buckets: {told}")


# On the fake, whose troubles are planned and over at once.
BRIEF = replace(PATIENCE, longest_pause_s=0.01)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two stores of Google's, in two locations. ``fake`` is None for real buckets."""

    source: GcsStore
    destination: GcsStore
    access: Access
    fake: FakeGcs | None


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ContentStore]:
    """A store of each kind."""
    with ExitStack() as stack:
        yield _open(str(request.param), tmp_path / "store", stack)


@pytest.fixture(params=["gcs", *REAL])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Two stores that copy by themselves."""
    opened = real_pair() if request.param == "buckets" else fake_pair()
    with opened as found:
        yield found


def _open(kind: str, folder: Path, stack: ExitStack) -> ContentStore:
    made: dict[str, Callable[[], ContentStore]] = {
        "memory": MemoryObjectStore,
        "directory": lambda: DirectoryStore.create(folder),
        "gcs": lambda: stack.enter_context(fake_pair()).source,
        "buckets": lambda: stack.enter_context(real_pair()).source,
    }
    return made[kind]()


@contextmanager
def fake_pair() -> Iterator[Pair]:
    """Serve two buckets that do not last."""
    with serve() as fake:
        access = open_access(AnonymousCredentials(), fake.url)
        stores = []
        for bucket, location in (("east", "us-east4"), ("west", "us-west1")):
            fake.cloud.make_bucket(bucket, location, "STANDARD")
            stores.append(GcsStore(access, Location(bucket=bucket, folder="broker/"), BRIEF))
            stores[-1].create()
        try:
            yield Pair(stores[0], stores[1], access, fake)
        finally:
            access.close()


@contextmanager
def real_pair() -> Iterator[Pair]:
    """Use folders of two buckets that do, and leave them as they were."""
    access = open_access(None, None)
    folder = f"broker-test-{secrets.token_hex(8)}/"
    stores = [
        GcsStore(access, Location(bucket=bucket, folder=folder), PATIENCE) for bucket in BUCKETS
    ]
    try:
        for store in stores:
            store.create()
        yield Pair(stores[0], stores[1], access, None)
    finally:
        for bucket in BUCKETS:
            for blob in access.client.list_blobs(bucket, prefix=folder):
                blob.delete()
        access.close()
