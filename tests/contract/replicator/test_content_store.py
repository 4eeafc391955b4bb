"""What every store of content must do, on the fake and on a real directory."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from replicator.errors import Changed, Corrupt, NameRefused, NotFound
from replicator.stores import CHUNK_BYTES, ContentStore, DirectoryStore, Entry
from tests.fakes.object_store import MemoryObjectStore


@pytest.fixture(params=["memory", "directory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ContentStore:
    if request.param == "memory":
        return MemoryObjectStore()
    return DirectoryStore.create(tmp_path / "store")


def names(store: ContentStore, prefix: str) -> list[str]:
    return [entry.name for entry in store.list(prefix).entries]


def read(store: ContentStore, entry: Entry) -> bytes:
    with closing(store.read(entry.name, entry.generation)) as chunks:
        return b"".join(chunks)


def test_what_was_written_is_read_back_and_listed(store: ContentStore) -> None:
    written = store.write_if_absent("a/b/one", [b"12", b"", b"345"])
    assert written is not None
    assert (written.name, written.size_bytes) == ("a/b/one", 5)
    assert store.stat("a/b/one") == written
    assert store.list("a/").entries == (written,)
    assert read(store, written) == b"12345"


def test_a_large_object_comes_in_bounded_chunks(store: ContentStore) -> None:
    data = bytes(range(256)) * 4096 + b"!"
    entry = store.put("big", [data * 2])
    with closing(store.read("big", entry.generation)) as chunks:
        pieces = list(chunks)
    assert b"".join(pieces) == data * 2
    assert max(len(piece) for piece in pieces) <= CHUNK_BYTES


def test_an_object_that_is_there_is_not_created_again(store: ContentStore) -> None:
    first = store.write_if_absent("a/one", [b"first"])
    assert first is not None
    assert store.write_if_absent("a/one", [b"second"]) is None
    assert read(store, first) == b"first"


def test_put_replaces_and_the_generation_tells(store: ContentStore) -> None:
    first = store.put("a/one", [b"first"])
    second = store.put("a/one", [b"other"])
    assert first.generation != second.generation
    assert read(store, second) == b"other"
    with pytest.raises(Changed):
        read(store, first)


def test_an_object_replaced_while_it_is_read_is_changed(store: ContentStore) -> None:
    entry = store.put("a/one", [b"12345678"])
    with closing(store.read("a/one", entry.generation)) as chunks:
        next(chunks)
        store.put("a/one", [b"abcdefgh"])
        with pytest.raises(Changed):
            list(chunks)


@pytest.mark.parametrize("replaces", [False, True])
def test_chunks_that_fail_leave_nothing_visible(store: ContentStore, replaces: bool) -> None:
    def failing() -> Iterator[bytes]:
        yield b"half"
        raise Corrupt("a/one", "as planned")

    before = store.put("a/one", [b"whole"]) if replaces else None
    with pytest.raises(Corrupt):
        store.put("a/one", failing())
    assert store.stat("a/one") == before
    with pytest.raises(Corrupt):
        store.write_if_absent("a/two", failing())
    assert names(store, "a/") == (["a/one"] if replaces else [])


def test_a_deleted_object_is_gone_and_deleting_again_says_so(store: ContentStore) -> None:
    entry = store.put("a/one", [b"1"])
    assert store.delete("a/one") is True
    assert store.delete("a/one") is False
    assert store.stat("a/one") is None
    with pytest.raises(NotFound):
        read(store, entry)


def test_nothing_under_a_prefix_is_an_empty_listing(store: ContentStore) -> None:
    assert store.list("nothing/here/").entries == ()
    assert store.stat("nothing/here") is None
    assert store.delete("nothing/here") is False


def test_a_prefix_is_a_folder_and_not_the_beginning_of_a_name(store: ContentStore) -> None:
    for name in ("step-1/a", "step-10/a", "step-1/b/c"):
        store.put(name, [b"1"])
    assert names(store, "step-1/") == ["step-1/a", "step-1/b/c"]


def test_tidying_removes_no_object(store: ContentStore) -> None:
    store.put("a/b/one", [b"1"])
    store.put("a/c/two", [b"2"])
    store.delete("a/c/two")
    store.tidy("a/")
    assert names(store, "a/") == ["a/b/one"]
    store.tidy("never/was/")


@pytest.mark.parametrize(
    "name",
    ["", "/a", "a/", "a//b", "..", "a/../b", "./a", "a\\b", "a\x00b", "a\nb", "\ud800"],
)
def test_names_that_could_climb_out_are_refused(store: ContentStore, name: str) -> None:
    with pytest.raises(NameRefused):
        store.put(name, [b"1"])
    with pytest.raises(NameRefused):
        store.write_if_absent(name, [b"1"])
    with pytest.raises(NameRefused):
        store.stat(name)
    with pytest.raises(NameRefused):
        store.delete(name)
    with pytest.raises(NameRefused):
        list(store.read(name, "1"))
    with pytest.raises(NameRefused):
        store.list(name + "/")


@pytest.mark.parametrize("name", ["x" * 256, "a/" * 600 + "b"])
def test_names_that_cannot_be_kept_everywhere_are_refused(store: ContentStore, name: str) -> None:
    with pytest.raises(NameRefused):
        store.put(name, [b"1"])
