"""What every store of content must do: a fake, a directory, a bucket of Google's."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from replicator.errors import Changed, Corrupt, NameRefused, NotFound
from replicator.stores import CHUNK_BYTES, ContentStore, Entry
from replicator.stores.checkup import try_out


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


def test_a_trial_finds_no_fault_and_leaves_nothing(store: ContentStore) -> None:
    assert try_out(store).fault == ""
    assert names(store, "probes/") == []


def test_a_large_object_comes_in_bounded_chunks(store: ContentStore) -> None:
    data = bytes(range(256)) * 4096 + b"!"
    entry = store.put("big", [data * 2])
    with closing(store.read("big", entry.generation)) as chunks:
        pieces = list(chunks)
    assert b"".join(pieces) == data * 2
    assert max(len(piece) for piece in pieces) <= CHUNK_BYTES


@pytest.mark.parametrize("size_bytes", [0, 1, 8 << 20, (16 << 20) + 1])
@pytest.mark.parametrize("replaces", [False, True])
def test_an_object_of_any_size_is_read_back_as_it_was_written(
    store: ContentStore, size_bytes: int, replaces: bool
) -> None:
    data = bytes(range(251)) * (size_bytes // 251 + 1)
    data = data[:size_bytes]
    chunks = [data[at : at + 3_000_000] for at in range(0, size_bytes, 3_000_000)]
    write = store.put if replaces else store.write_if_absent
    entry = write("a/one", chunks)
    assert entry is not None
    assert (entry.size_bytes, entry) == (size_bytes, store.stat("a/one"))
    assert read(store, entry) == data


def test_a_large_object_is_neither_created_again_nor_kept_from_being_replaced(
    store: ContentStore,
) -> None:
    first = store.put("a/one", [b"1" * (9 << 20)])
    assert store.write_if_absent("a/one", [b"2" * (9 << 20)]) is None
    assert store.stat("a/one") == first
    second = store.put("a/one", [b"3" * (9 << 20)])
    assert store.stat("a/one") == second
    assert second.generation != first.generation


def test_of_many_that_create_an_object_one_wins(store: ContentStore) -> None:
    def create(number: int) -> Entry | None:
        return store.write_if_absent("a/one", [b"%d" % number])

    with ThreadPoolExecutor(4) as threads:
        won = [entry for entry in threads.map(create, range(8)) if entry is not None]
    assert [store.stat("a/one")] == won


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


@pytest.mark.parametrize("name", [".store", ".tmp/one"])
def test_what_a_store_keeps_for_itself_is_refused(store: ContentStore, name: str) -> None:
    with pytest.raises(NameRefused):
        store.put(name, [b"1"])
    with pytest.raises(NameRefused):
        store.write_if_absent(name, [b"1"])


@pytest.mark.parametrize("name", ["x" * 256, "a/" * 600 + "b"])
def test_names_that_cannot_be_kept_everywhere_are_refused(store: ContentStore, name: str) -> None:
    with pytest.raises(NameRefused):
        store.put(name, [b"1"])
