"""Bundles: being there is being right."""

import hashlib

import pytest

from replicator.bundle import bundle_name, check_bundle, copy_bundle, has_bundle, store_bundle
from replicator.errors import Corrupt, NameRefused, NotFound
from tests.fakes.checkpoints import unheard
from tests.fakes.object_store import Interrupted, Killed, MemoryObjectStore

DATA = b"a packed working directory"
SHA256 = hashlib.sha256(DATA).hexdigest()


def test_a_bundle_is_stored_once_and_copied_verified() -> None:
    here, there = MemoryObjectStore(), MemoryObjectStore()
    assert not has_bundle(here, SHA256)
    store_bundle(here, SHA256, [DATA[:5], DATA[5:]], len(DATA))
    store_bundle(here, SHA256, [DATA], len(DATA))
    assert copy_bundle(here, there, SHA256, unheard) == len(DATA)
    assert has_bundle(there, SHA256)
    check_bundle(there, SHA256, unheard)
    heard: list[int] = []
    assert copy_bundle(here, there, SHA256, heard.append) == len(DATA)
    assert heard == []


@pytest.mark.parametrize(
    ("chunks", "size_bytes"),
    [([b"other bytes of no such sum!"], 27), ([DATA], 5), ([DATA], 99), ([], len(DATA))],
)
def test_bytes_that_are_not_those_promised_are_not_stored(
    chunks: list[bytes], size_bytes: int
) -> None:
    store = MemoryObjectStore()
    with pytest.raises(Corrupt):
        store_bundle(store, SHA256, chunks, size_bytes)
    assert not has_bundle(store, SHA256)


def test_a_damaged_bundle_is_not_spread_and_a_missing_one_is_said() -> None:
    here, there = MemoryObjectStore(), MemoryObjectStore()
    with pytest.raises(NotFound):
        copy_bundle(here, there, SHA256, unheard)
    with pytest.raises(NotFound):
        check_bundle(here, SHA256, unheard)
    here.put(bundle_name(SHA256), [DATA[:-1] + b"?"])
    with pytest.raises(Corrupt):
        copy_bundle(here, there, SHA256, unheard)
    with pytest.raises(Corrupt):
        check_bundle(here, SHA256, unheard)
    assert not has_bundle(there, SHA256)


@pytest.mark.parametrize("point", range(7))
def test_a_bundle_copy_killed_anywhere_leaves_all_or_nothing(point: int) -> None:
    here, there = MemoryObjectStore(), MemoryObjectStore()
    store_bundle(here, SHA256, [DATA], len(DATA))

    def kill(at: int) -> None:
        if at == point:
            raise Killed

    with pytest.raises(Killed):
        copy_bundle(here, Interrupted(there, kill), SHA256, unheard)
    if has_bundle(there, SHA256):
        check_bundle(there, SHA256, unheard)
    copy_bundle(here, there, SHA256, unheard)
    check_bundle(there, SHA256, unheard)


@pytest.mark.parametrize("name", ["", "../x", SHA256.upper(), SHA256[:-1], SHA256 + "\n"])
def test_only_a_sha256_names_a_bundle(name: str) -> None:
    with pytest.raises(NameRefused):
        bundle_name(name)
