"""Stores as the tests of this folder handle them: to be opened, cut off, and mended.

The rule: what is cut off answers nobody, launchers neither. Read ``Shelf`` first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from regions.launcher.bucket import BucketStore
from regions.launcher.store import DirectoryStore, Measured
from regions.launcher.tokens import Tokens
from tests.fakes.gcs import CUT, FakeGcs, serve
from tests.fakes.metadata_server import FakeMetadata, serve_tokens

BUCKET, FOLDER = "east", "broker"
# Of the broker's side here. Enough for troubles that pass, and no long wait for those that stay.
CALL_S = 1.0
TRAINING = "token-of-training"


class Shelf(Protocol):
    """A store that was made, and the world around it."""

    @property
    def store(self) -> Measured:
        """The store, as the broker and these tests use it."""
        ...

    @property
    def env(self) -> dict[str, str]:
        """What launchers are told of it."""
        ...

    def cut(self) -> None:
        """Let nothing of it answer."""

    def mend(self) -> None:
        """Let it answer again, as it was."""


class DirectoryShelf:
    """A directory; cut off, it is somewhere else, as a disk that is not mounted."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.parent.mkdir(parents=True, exist_ok=True)
        self.store: Measured = DirectoryStore.create(str(root))
        self.env = {"BROKER_STORE": f"file://{root}"}

    def cut(self) -> None:
        self.root.rename(self.root.with_name("away"))

    def mend(self) -> None:
        self.root.with_name("away").rename(self.root)


class BucketShelf:
    """A bucket; cut off, every connection to it ends without an answer."""

    def __init__(self, fake: FakeGcs, metadata: FakeMetadata, store: BucketStore) -> None:
        self.fake = fake
        self.metadata = metadata
        self.store: Measured = store
        self.env = {
            "BROKER_STORE": store.location,
            "BROKER_STORE_ENDPOINT": fake.url,
            "BROKER_STORE_TOKENS": metadata.url,
            "TRAIN_ENDPOINT": fake.url,
            "TRAIN_TOKEN": TRAINING,
        }

    def cut(self) -> None:
        self.fake.faults.always = CUT

    def mend(self) -> None:
        self.fake.faults.always = None


@contextmanager
def buckets() -> Iterator[tuple[FakeGcs, FakeMetadata, BucketStore]]:
    """Serve a bucket, and the tokens that open it."""
    known = {TRAINING}
    with serve() as fake, serve_tokens(known.add) as metadata:
        fake.tokens = known
        fake.cloud.make_bucket(BUCKET, "us-east4", "STANDARD")
        store = BucketStore(f"gs://{BUCKET}/{FOLDER}", Tokens(metadata.url), fake.url, CALL_S)
        store.create()
        try:
            yield fake, metadata, store
        finally:
            store.close()
