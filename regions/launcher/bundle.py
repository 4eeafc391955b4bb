"""The user's working directory: fetched by its digest, and unpacked without trusting it.

The rule: nothing of a bundle is looked at before its digest was verified, and nothing of it lands
outside its folder: plain files and folders only, every size bounded. Read ``prepare`` first.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
from typing import BinaryIO, Tuple, cast

from regions.launcher.layout import bundle_key
from regions.launcher.store import Store, StoreUnreachable

MAX_PACKED_BYTES = 512 << 20
MAX_UNPACKED_BYTES = 4 << 30
MAX_MEMBERS = 100_000
MAX_PATH = 1024
MAX_DEPTH = 64
"""Folders in folders: names of 1 KiB could each ask for five hundred of them."""
_CHUNK_BYTES = 256 << 10
_MAX_HEADER_BYTES = 1 << 20


class BundleBad(Exception):
    """The bundle is not there, is not what its digest says, or holds what it may not."""


def prepare(store: Store, digest: str, folder: str, scratch: str) -> None:
    """Unpack a bundle of the store into a new folder; ``scratch`` is a file name to use meanwhile.

    Raises StoreUnreachable, after which it can be called again, and BundleBad.
    """
    try:
        _fetch(store, digest, scratch)
        _unpack(scratch, folder)
    except (BundleBad, StoreUnreachable):
        raise
    except Exception as error:
        raise BundleBad(f"bundle {digest[:12]}: {error}") from error
    finally:
        if os.path.exists(scratch):
            os.unlink(scratch)


def _fetch(store: Store, digest: str, scratch: str) -> None:
    stream = store.get(bundle_key(digest))
    if stream is None:
        raise BundleBad(f"bundle {digest[:12]} is not in this region's store")
    found, size = hashlib.sha256(), 0
    with stream, open(scratch, "wb") as out:
        while True:
            chunk = _read_chunk(stream)
            if not chunk:
                break
            size += len(chunk)
            if size > MAX_PACKED_BYTES:
                raise BundleBad(f"bundle {digest[:12]} is over {MAX_PACKED_BYTES} bytes")
            found.update(chunk)
            out.write(chunk)
    if found.hexdigest() != digest:
        raise BundleBad(f"bundle {digest[:12]} holds other bytes: {found.hexdigest()[:12]}")


def _read_chunk(stream: BinaryIO) -> bytes:
    try:
        return stream.read(_CHUNK_BYTES)
    except OSError as error:
        raise StoreUnreachable(str(error)) from error


class _Bounded:
    """A decompressed stream that ends with an error before it fills a memory or a disk."""

    def __init__(self, inner: gzip.GzipFile) -> None:
        self._inner = inner

    def read(self, size: int = -1) -> bytes:
        # tarfile reads the headers it extends in one piece, whatever size they claim.
        if not 0 <= size <= _MAX_HEADER_BYTES:
            raise tarfile.ReadError("a header is too large")
        data = self._inner.read(size)
        if self._inner.tell() > MAX_UNPACKED_BYTES:
            raise tarfile.ReadError(f"unpacks to over {MAX_UNPACKED_BYTES} bytes")
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        if offset > MAX_UNPACKED_BYTES:
            raise tarfile.ReadError(f"unpacks to over {MAX_UNPACKED_BYTES} bytes")
        return self._inner.seek(offset, whence)

    def tell(self) -> int:
        return self._inner.tell()


def _unpack(packed: str, folder: str) -> None:
    os.mkdir(folder)
    with gzip.open(packed, "rb") as inner:
        bounded = cast(BinaryIO, _Bounded(inner))
        with tarfile.open(fileobj=bounded, mode="r:") as archive:
            for count, member in enumerate(archive):
                if count >= MAX_MEMBERS:
                    raise BundleBad(f"over {MAX_MEMBERS} files")
                _unpack_member(archive, member, folder)


def _unpack_member(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: str) -> None:
    parts = _parts(member.name)
    target = os.path.join(folder, *parts)
    if member.isdir():
        os.makedirs(target, exist_ok=True)
        return
    source = archive.extractfile(member) if member.isfile() and not member.issparse() else None
    if source is None or not parts:
        raise BundleBad(f"neither a file nor a folder: {member.name[:200]!r}")
    os.makedirs(os.path.dirname(target), exist_ok=True)
    # Exclusive, and no member can be a link: what is written to is always new, and inside.
    mode = 0o755 if member.mode & 0o100 else 0o644
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with source, os.fdopen(descriptor, "wb") as out:
        while True:
            chunk = source.read(_CHUNK_BYTES)
            if not chunk:
                break
            out.write(chunk)


def _parts(name: str) -> Tuple[str, ...]:
    if name.startswith("/") or "\0" in name or len(name) > MAX_PATH:
        raise BundleBad(f"not a path inside a bundle: {name[:200]!r}")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if len(parts) > MAX_DEPTH:
        raise BundleBad(f"over {MAX_DEPTH} folders deep: {name[:200]!r}")
    if ".." in parts:
        raise BundleBad(f"climbs out: {name[:200]!r}")
    return parts
