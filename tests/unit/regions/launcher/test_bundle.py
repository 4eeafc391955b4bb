"""A bundle is unpacked only if it is the one that was named, and only inside its folder."""

import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from regions.launcher import bundle, layout
from regions.launcher.bundle import BundleBad
from regions.launcher.store import DirectoryStore


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore.create(str(tmp_path / "root"))


def archive(fill: Callable[[tarfile.TarFile], None]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as writer:
        fill(writer)
    return packed.getvalue()


def put(store: DirectoryStore, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    store.create_if_absent(layout.bundle_key(digest), data)
    return digest


def unpack(store: DirectoryStore, digest: str, tmp_path: Path) -> Path:
    bundle.prepare(store, digest, str(tmp_path / "out"), str(tmp_path / "scratch"))
    return tmp_path / "out"


def entry(
    name: str, data: bytes = b"", mode: int = 0o644, kind: bytes = tarfile.REGTYPE
) -> Callable[[tarfile.TarFile], None]:
    member = tarfile.TarInfo(name)
    member.mode, member.type, member.size = mode, kind, len(data)
    member.linkname = "/etc/passwd"
    return lambda writer: writer.addfile(member, io.BytesIO(data))


def both(
    first: Callable[[tarfile.TarFile], None], second: Callable[[tarfile.TarFile], None]
) -> Callable[[tarfile.TarFile], None]:
    def fill(writer: tarfile.TarFile) -> None:
        first(writer)
        second(writer)

    return fill


def test_files_folders_and_the_executable_bit_are_kept(
    store: DirectoryStore, tmp_path: Path
) -> None:
    def fill(writer: tarfile.TarFile) -> None:
        entry("src", kind=tarfile.DIRTYPE)(writer)
        entry("./src/train.py", b"print()")(writer)
        entry("run.sh", b"#!/bin/sh", mode=0o6775)(writer)

    out = unpack(store, put(store, archive(fill)), tmp_path)
    assert (out / "src/train.py").read_bytes() == b"print()"
    assert (out / "run.sh").stat().st_mode & 0o7777 == 0o755
    assert not (tmp_path / "scratch").exists()


@pytest.mark.parametrize(
    "fill",
    [
        entry("../out-of-here", b"x"),
        entry("a/../../b", b"x"),
        entry("/etc/cron.d/x", b"x"),
        entry("link", kind=tarfile.SYMTYPE),
        entry("hard", kind=tarfile.LNKTYPE),
        entry("pipe", kind=tarfile.FIFOTYPE),
        entry("device", kind=tarfile.CHRTYPE),
        entry("a/" * 600 + "deep", b"x"),
        entry("a/" * 100 + "deep", b"x"),
        entry(".", b"x"),
        both(entry("twice", b"1"), entry("twice", b"2")),
        both(entry("a", b"1"), entry("a/b", b"2")),
    ],
)
def test_what_climbs_links_or_collides_is_refused(
    store: DirectoryStore, tmp_path: Path, fill: Callable[[tarfile.TarFile], None]
) -> None:
    digest = put(store, archive(fill))
    with pytest.raises(BundleBad):
        unpack(store, digest, tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["out", "root"]


def test_a_bomb_is_defused(
    store: DirectoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "MAX_UNPACKED_BYTES", 1 << 20)
    digest = put(store, archive(entry("zeros", b"\0" * (8 << 20))))
    with pytest.raises(BundleBad, match="unpacks to over"):
        unpack(store, digest, tmp_path)


def test_a_header_that_claims_gigabytes_is_refused(store: DirectoryStore, tmp_path: Path) -> None:
    member = tarfile.TarInfo("long")
    member.type, member.size = tarfile.GNUTYPE_LONGNAME, 3 << 30
    digest = put(store, gzip.compress(member.tobuf(tarfile.GNU_FORMAT) + b"\0" * 4096))
    with pytest.raises(BundleBad):
        unpack(store, digest, tmp_path)


def extended(kind: bytes, body: bytes) -> bytes:
    """A header that says more of the file behind it, as its writer likes."""
    member = tarfile.TarInfo("h")
    member.type, member.size = kind, len(body)
    return member.tobuf(tarfile.USTAR_FORMAT) + body + b"\0" * (-len(body) % 512)


@pytest.mark.parametrize(
    "said",
    [
        extended(tarfile.XHDTYPE, b"26 GNU.sparse.realsize=zz\n"),
        extended(tarfile.XHDTYPE, b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"),
        extended(tarfile.XHDTYPE, b"99999999999999999999 a=b\n"),
        extended(tarfile.XHDTYPE, b"9" * 9000 + b" a=b\n"),
        extended(tarfile.XHDTYPE, b"18 comment=xxxxxx\n") * 3000,
        extended(tarfile.GNUTYPE_LONGNAME, b"aa\0") * 3000,
    ],
    ids=["no number", "no sparse map", "a long length", "a longer one", "a chain", "names"],
)
def test_a_header_that_no_parser_stands_is_refused(
    store: DirectoryStore, tmp_path: Path, said: bytes
) -> None:
    file = tarfile.TarInfo("f").tobuf(tarfile.USTAR_FORMAT)
    digest = put(store, gzip.compress(said + file + b"\0" * 1024))
    with pytest.raises(BundleBad):
        unpack(store, digest, tmp_path)


@pytest.mark.parametrize(
    "data",
    [b"", b"not gzip", gzip.compress(b"not tar" * 200)],
    ids=["nothing", "no gzip", "no tar"],
)
def test_garbage_is_refused_or_empty(store: DirectoryStore, tmp_path: Path, data: bytes) -> None:
    with pytest.raises(BundleBad):
        unpack(store, put(store, data), tmp_path)


def test_other_bytes_than_the_digest_says_are_never_looked_at(
    store: DirectoryStore, tmp_path: Path
) -> None:
    store.put(layout.bundle_key("0" * 64), archive(entry("x", b"x")))
    with pytest.raises(BundleBad, match="other bytes"):
        unpack(store, "0" * 64, tmp_path)
    assert not (tmp_path / "out").exists()


def test_a_bundle_that_is_not_there_is_said(store: DirectoryStore, tmp_path: Path) -> None:
    with pytest.raises(BundleBad, match="not in this region"):
        unpack(store, "1" * 64, tmp_path)
