"""A directory as a store: one winner, whole records, and a lost root that is not an empty one."""

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from regions.launcher.store import (
    MARKER,
    DirectoryStore,
    InvalidKey,
    StoreUnreachable,
    path_of,
    read_bounded,
    uri_of,
)


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore.create(str(tmp_path / "root"))


def test_what_is_put_is_read_and_listed_one_level_at_a_time(store: DirectoryStore) -> None:
    store.put("runs/r/e000001/owner", b"1")
    store.put("runs/r/placements/p/grant", b"2")
    store.put("runs/r/placements/p/grant", b"3")
    assert read_bounded(store, "runs/r/placements/p/grant", 10) == b"3"
    assert read_bounded(store, "runs/r/placements/p/grant", 0) == b"3"
    assert read_bounded(store, "runs/r/placements/q/grant", 10) is None
    assert store.list("") == ("runs/",)
    assert store.list("runs/r/") == ("e000001/", "placements/")
    assert store.list("runs/r/placements/p/") == ("grant",)
    assert store.list("runs/none/") == ()
    store.delete("runs/r/placements/p/grant")
    store.delete("runs/r/placements/p/grant")
    assert store.list("runs/r/placements/p/") == ()


def test_create_if_absent_has_one_winner_and_its_record_stands(store: DirectoryStore) -> None:
    won: list[int] = []
    barrier = threading.Barrier(8)

    def create(number: int) -> None:
        barrier.wait()
        if store.create_if_absent("owner", str(number).encode() * 1000):
            won.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert read_bounded(store, "owner", 10_000) == str(won[0]).encode() * 1000
    assert os.listdir(Path(store.root, ".tmp")) == []


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/",
        "/etc/passwd",
        "..",
        "a/../b",
        "a//b",
        "a/",
        "a/.",
        "a\0b",
        "a b",
        "x" * 300,
        MARKER,
        ".tmp/x",
        "a/ü",
    ],
)
def test_a_key_that_climbs_or_is_the_stores_own_is_refused(store: DirectoryStore, key: str) -> None:
    for call in (
        store.get,
        store.delete,
        lambda k: store.put(k, b""),
        lambda k: store.create_if_absent(k, b""),
        lambda k: store.list(k + "/"),
    ):
        with pytest.raises(InvalidKey):
            call(key)


def test_a_root_that_went_away_is_unreachable_and_never_made_again(
    store: DirectoryStore, tmp_path: Path
) -> None:
    store.put("a/b", b"1")
    os.rename(store.root, tmp_path / "away")
    for call in (
        store.get,
        store.delete,
        lambda k: store.put(k, b""),
        lambda k: store.create_if_absent(k, b""),
        lambda k: store.list(k + "/"),
    ):
        with pytest.raises(StoreUnreachable):
            call("a/c")
    assert not os.path.exists(store.root)


def test_an_empty_folder_where_the_store_was_mounted_is_no_store(tmp_path: Path) -> None:
    store = DirectoryStore(str(tmp_path))
    for call in (
        store.get,
        store.delete,
        lambda k: store.put(k, b""),
        lambda k: store.create_if_absent(k, b""),
        lambda k: store.list(k + "/"),
    ):
        with pytest.raises(StoreUnreachable):
            call("a")
    assert os.listdir(tmp_path) == []


def test_a_write_that_fails_leaves_nothing_behind(store: DirectoryStore) -> None:
    store.put("a/b", b"1")
    with pytest.raises(StoreUnreachable):
        store.put("a", b"2")
    with pytest.raises(StoreUnreachable):
        store.put("a/b/c", b"2")
    assert not store.create_if_absent("a", b"2")
    assert os.listdir(Path(store.root, ".tmp")) == []


def test_what_can_be_no_record_is_there_and_reads_as_empty(
    store: DirectoryStore, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("x")
    os.symlink(tmp_path / "secret", Path(store.root, "link"))
    os.symlink("nowhere", Path(store.root, "dangling"))
    os.mkfifo(Path(store.root, "pipe"))
    os.mkdir(Path(store.root, "folder"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(Path(store.root, "socket")))
        for key in ("link", "dangling", "pipe", "folder", "socket"):
            assert read_bounded(store, key, 10) == b""
            assert not store.create_if_absent(key, b"mine")


def test_no_folder_that_is_a_link_leads_out_of_the_store(
    store: DirectoryStore, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "owner").write_text("x")
    os.symlink(outside, Path(store.root, "runs"))
    calls: list[Callable[[], object]] = [
        lambda: store.get("runs/owner"),
        lambda: store.list("runs/"),
        lambda: store.list("runs/deeper/"),
        lambda: store.put("runs/owner", b"y"),
        lambda: store.create_if_absent("runs/fence", b"y"),
        lambda: store.delete("runs/owner"),
    ]
    for call in calls:
        with pytest.raises(StoreUnreachable):
            call()
    assert [(one.name, one.read_text()) for one in outside.iterdir()] == [("owner", "x")]


@pytest.mark.parametrize(
    ("location", "path"),
    [("file:///a/b", "/a/b"), ("/a//b/", "/a/b"), ("file:///a%20b", "/a b")],
)
def test_a_location_is_a_file_uri_or_a_path(location: str, path: str) -> None:
    assert path_of(location) == path


@pytest.mark.parametrize("location", ["gs://bucket/x", "a/b", "", "file://host/a", "file:///a%00"])
def test_a_location_that_is_no_directory_is_refused(location: str) -> None:
    with pytest.raises(InvalidKey):
        path_of(location)


@pytest.mark.parametrize("path", ["/store", "/a b/é%20#?", "/x/~y-z_.1", "/\udcff"])
def test_a_path_and_its_uri_name_the_same_place(path: str) -> None:
    uri = uri_of(path)
    assert uri == "file://" + quote(os.fsencode(path))
    if "\udcff" not in path:
        assert path_of(uri) == path
