"""A directory as a store: what only it can get wrong, as a lost root that is not an empty one."""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from regions.launcher.store import (
    DirectoryStore,
    InvalidKey,
    StoreUnreachable,
    location_of,
    path_of,
    read_bounded,
    uri_at,
    uri_of,
)


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore.create(str(tmp_path / "root"))


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


@pytest.mark.parametrize(
    ("text", "location", "uri"),
    [
        ("file:///a/b", "/a/b", "file:///a/b/runs/r"),
        ("/a//b/", "/a/b", "file:///a/b/runs/r"),
        ("gs://my-bucket", "gs://my-bucket", "gs://my-bucket/runs/r"),
        ("gs://my-bucket/", "gs://my-bucket", "gs://my-bucket/runs/r"),
        ("gs://my.bucket/a/b/", "gs://my.bucket/a/b", "gs://my.bucket/a/b/runs/r"),
    ],
)
def test_a_store_is_a_directory_or_a_folder_of_a_bucket(text: str, location: str, uri: str) -> None:
    assert location_of(text) == location
    assert uri_at(location, "runs/r") == uri


@pytest.mark.parametrize(
    "text", ["s3://bucket", "gs://", "gs:///a", "gs://B", "gs://bucket/../a", "gs://bucket/a b"]
)
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(InvalidKey):
        location_of(text)


@pytest.mark.parametrize("path", ["/store", "/a b/é%20#?", "/x/~y-z_.1", "/\udcff"])
def test_a_path_and_its_uri_name_the_same_place(path: str) -> None:
    uri = uri_of(path)
    assert uri == "file://" + quote(os.fsencode(path))
    if "\udcff" not in path:
        assert path_of(uri) == path
