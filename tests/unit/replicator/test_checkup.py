"""A store that is tried out keeps nothing of it, whatever it failed at."""

import pytest

from replicator.errors import StoreError
from replicator.stores.checkup import try_out
from replicator.stores.port import Listing
from tests.fakes.object_store import MemoryObjectStore


class Refusing(MemoryObjectStore):
    """A store that refuses one kind of call."""

    def __init__(self, call: str) -> None:
        super().__init__()
        self._call = call

    def list(self, prefix: str) -> Listing:
        self._refuse("list")
        return super().list(prefix)

    def tidy(self, prefix: str) -> None:
        self._refuse("tidy")
        super().tidy(prefix)

    def _refuse(self, call: str) -> None:
        if call == self._call:
            raise StoreError("probes/", "it is refused")


@pytest.mark.parametrize(
    ("call", "fault"),
    [("list", "list: it is refused"), ("tidy", "remove: it is refused")],
)
def test_what_was_refused_is_told_and_the_probe_is_removed(call: str, fault: str) -> None:
    store = Refusing(call)
    assert try_out(store).fault == fault
    assert store._objects == {}
