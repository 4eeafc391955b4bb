"""A store on the fake whose troubles are planned, and what is needed to look at it."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from replicator.stores.gcs import Access, GcsStore, Notes
from tests.contract.replicator.pairs import fake_pair
from tests.fakes.gcs import FakeGcs


@dataclass(frozen=True, slots=True)
class Scene:
    """Two stores, ``east`` and ``west``, under ``broker/`` of buckets of these names."""

    fake: FakeGcs
    access: Access
    notes: Notes
    east: GcsStore
    west: GcsStore

    def held(self, name: str, bucket: str = "east") -> bytes | None:
        """Return what a bucket holds under a name, past the store."""
        found = self.fake.cloud.bucket(bucket).objects.get(f"broker/{name}")
        return found.data if found else None

    def other_writes(self, name: str, data: bytes, bucket: str = "east") -> None:
        """Let somebody else write."""
        self.fake.cloud.insert(bucket, f"broker/{name}", data, {}, {})


@pytest.fixture
def scene() -> Iterator[Scene]:
    """Two stores that are marked, and have been written to: nothing is asked before a call."""
    with fake_pair() as pair:
        assert pair.fake is not None
        pair.fake.faults.asked.clear()
        yield Scene(pair.fake, pair.access, pair.notes, pair.source, pair.destination)
