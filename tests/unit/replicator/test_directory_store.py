"""What only a directory can get wrong: absent disks, links, leftovers, hostile trees."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from replicator.errors import NameRefused, StoreUnreachable
from replicator.stores import DirectoryStore
from replicator.stores.unfinished import begun


@pytest.fixture
def root(tmp_path: Path) -> Path:
    DirectoryStore.create(tmp_path / "store")
    return tmp_path / "store"


def test_a_root_without_its_marker_file_is_unreachable_and_never_empty(root: Path) -> None:
    store = DirectoryStore(root)
    store.put("a/one", [b"1"])
    (root / ".store").unlink()
    for operation in (
        lambda: store.list("a/"),
        lambda: store.stat("a/one"),
        lambda: store.put("a/two", [b"2"]),
        lambda: store.delete("a/one"),
        lambda: list(store.read("a/one", "1")),
    ):
        with pytest.raises(StoreUnreachable):
            operation()
    assert sorted(path.name for path in (root / "a").iterdir()) == ["one"]


def test_a_root_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(StoreUnreachable):
        DirectoryStore(tmp_path / "unmounted").list("a/")
    assert not (tmp_path / "unmounted").exists()


def test_links_are_refused_in_a_listing_and_never_followed(root: Path, tmp_path: Path) -> None:
    store = DirectoryStore(root)
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_bytes(b"secret")
    store.put("a/one", [b"1"])
    (root / "a" / "file").symlink_to(secret / "key")
    (root / "a" / "folder").symlink_to(secret)
    os.mkfifo(root / "a" / "fifo")
    listing = store.list("a/")
    assert [entry.name for entry in listing.entries] == ["a/one"]
    assert [refused.name for refused in listing.refused] == ["a/fifo", "a/file", "a/folder"]
    for name in ("a/file", "a/folder/key", "a/fifo"):
        with pytest.raises(NameRefused):
            store.stat(name)
        with pytest.raises(NameRefused):
            list(store.read(name, "1"))
        with pytest.raises(NameRefused):
            store.delete(name)
    for name in ("a/folder/key", "a/folder/new"):
        with pytest.raises(NameRefused):
            store.put(name, [b"overwritten"])
    assert (secret / "key").read_bytes() == b"secret"
    assert list(secret.iterdir()) == [secret / "key"]


def test_a_put_over_a_link_replaces_the_link_and_not_what_it_points_to(
    root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"kept")
    (root / "a").mkdir()
    (root / "a" / "file").symlink_to(outside)
    store = DirectoryStore(root)
    with pytest.raises(NameRefused):
        store.write_if_absent("a/file", [b"new"])
    store.put("a/file", [b"new"])
    assert outside.read_bytes() == b"kept"
    assert not (root / "a" / "file").is_symlink()


def test_names_that_are_no_text_are_refused_in_a_listing(root: Path) -> None:
    (root / "a").mkdir()
    os.close(os.open(os.fsencode(root / "a") + b"/bad\xff", os.O_CREAT | os.O_WRONLY))
    listing = DirectoryStore(root).list("a/")
    assert listing.entries == ()
    assert [refused.why for refused in listing.refused] == ["it is not valid Unicode"]


def test_the_names_of_the_store_itself_cannot_be_written(root: Path) -> None:
    for name in (".store", ".tmp/x"):
        with pytest.raises(NameRefused):
            DirectoryStore(root).put(name, [b"1"])


def test_a_failed_write_leaves_no_temporary_file(root: Path) -> None:
    def failing() -> Iterator[bytes]:
        yield b"half"
        raise ValueError("as planned")

    with pytest.raises(ValueError, match="as planned"):
        DirectoryStore(root).put("a/one", failing())
    assert list((root / ".tmp").iterdir()) == []


class Killed(BaseException):
    """The process died: no handler of the store's runs."""


def until_killed(data: bytes, chunk_bytes: int, chunks: int) -> Iterator[bytes]:
    for number in range(chunks):
        yield data[number * chunk_bytes : (number + 1) * chunk_bytes]
    raise Killed


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each write to a file was of."""
    sizes: list[int] = []
    pwrite = os.pwrite

    def counted(file: int, data: bytes, at: int) -> int:
        sizes.append(pwrite(file, data, at))
        return sizes[-1]

    monkeypatch.setattr(os, "pwrite", counted)
    return sizes


def pieces(data: bytes, chunk_bytes: int) -> list[bytes]:
    return [data[at : at + chunk_bytes] for at in range(0, len(data), chunk_bytes)]


@pytest.mark.parametrize("is_new", [True, False], ids=["created", "replaced"])
def test_a_write_that_was_killed_is_taken_up_where_it_was(
    root: Path, written: list[int], is_new: bool
) -> None:
    store, data = DirectoryStore(root), bytes(range(256)) * 40
    write = store.write_if_absent if is_new else store.put
    with pytest.raises(Killed):
        write("a/one", until_killed(data, 1000, 7))
    assert store.stat("a/one") is None
    written.clear()
    entry = write("a/one", pieces(data, 1000))
    assert entry is not None
    assert b"".join(store.read("a/one", entry.generation)) == data
    assert sum(written) == len(data) - 7000
    assert list((root / ".tmp").iterdir()) == []


def test_what_was_left_of_other_bytes_is_written_over(root: Path) -> None:
    store = DirectoryStore(root)
    with pytest.raises(Killed):
        store.put("a/one", until_killed(b"x" * 9000, 1000, 9))
    entry = store.put("a/one", pieces(b"x" * 1500 + b"y" * 700, 1000))
    assert b"".join(store.read("a/one", entry.generation)) == b"x" * 1500 + b"y" * 700


def test_two_that_write_one_object_at_once_have_a_file_each(root: Path) -> None:
    store = DirectoryStore(root)

    def slow() -> Iterator[bytes]:
        yield b"first"
        assert store.put("a/one", [b"second"]).size_bytes == 6
        yield b" still"

    entry = store.put("a/one", slow())
    assert b"".join(store.read("a/one", entry.generation)) == b"first still"
    assert list((root / ".tmp").iterdir()) == []


def test_a_write_that_ends_leaves_the_file_of_the_next_one_alone(root: Path) -> None:
    (root / ".tmp").mkdir()
    folder = os.open(root / ".tmp", os.O_RDONLY)
    with ExitStack() as first, ExitStack() as second:
        name, _ = first.enter_context(begun(folder, "a/one"))
        os.rename(root / ".tmp" / name, root / "published")
        assert second.enter_context(begun(folder, "a/one"))[0] == name
        first.close()
        assert (root / ".tmp" / name).exists()
    os.close(folder)
    assert list((root / ".tmp").iterdir()) == []


def test_what_somebody_put_in_the_place_of_a_leftover_is_not_written_to(root: Path) -> None:
    store = DirectoryStore(root)
    with pytest.raises(Killed):
        store.put("a/one", until_killed(b"x" * 9, 1, 3))
    (left,) = (root / ".tmp").iterdir()
    store.put("a/other", [b"precious"])
    left.unlink()
    os.link(root / "a" / "other", left)
    store.put("a/one", [b"new"])
    assert (root / "a" / "other").read_bytes() == b"precious"
    left.unlink()
    left.symlink_to(root / "a" / "other")
    store.put("a/one", [b"newer"])
    assert (root / "a" / "other").read_bytes() == b"precious"


def test_sweeping_takes_only_what_is_old(root: Path) -> None:
    temporary = root / ".tmp"
    temporary.mkdir()
    for name, modified_s in (("old", 100.0), ("young", 190.0), ("ahead", 900.0)):
        (temporary / name).write_bytes(b"x")
        os.utime(temporary / name, (modified_s, modified_s))
    store = DirectoryStore(root)
    assert store.sweep_temporary(now_s=200.0, older_than_s=50.0) == 1
    assert sorted(path.name for path in temporary.iterdir()) == ["ahead", "young"]


def test_creating_a_store_again_keeps_what_it_holds(root: Path) -> None:
    DirectoryStore(root).put("a/one", [b"1"])
    assert DirectoryStore.create(root).stat("a/one") is not None


def test_tidying_removes_empty_folders_up_to_the_prefix_and_no_further(root: Path) -> None:
    store = DirectoryStore(root)
    store.put("a/b/c/one", [b"1"])
    store.delete("a/b/c/one")
    store.tidy("a/b/")
    assert not (root / "a" / "b").exists()
    assert (root / "a").is_dir()
