"""Checkpoints in a bucket of Google's, with the standard library alone.

The rule it keeps: what was sent is what is there: the store holds it against its MD5 before it is
visible. A large file goes up piece by piece, and after an answer that was lost the store is asked
how much it has. A file that is there already, of the same MD5, is not sent again. Images need no
library of Google's for it, and no mount. Read `BucketFolder.take_in` first.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlencode, urlsplit

from broker.sdk.training.durable import CHUNK_BYTES, Digest
from broker.sdk.training.folders import STORE_MARKER
from broker.sdk.training.shelf import Folder
from broker.sdk.training.wire import Answer, Door, NoAnswer, Request, Wire

SCHEME = "gs"
SMALL_BYTES = 4 << 20
"""Up to so much goes in one request."""
PIECE_BYTES = 16 << 20
"""A multiple of the 256 KiB in which the store keeps what comes."""
TRIES = 5
"""How often a piece is sent of which the store takes nothing."""
PAUSE_S = 0.5
_DEEP = 4
"""`runs/<run>/<epoch>/checkpoints` lies so deep in a store."""
_KEPT = re.compile(r"bytes=0-(\d+)")


class BucketPlace(NamedTuple):
    """A folder of a bucket; `folder` has no slash at its ends. `door` is how it is reached."""

    bucket: str
    folder: str
    door: Door

    @classmethod
    def read(cls, uri: str, door: Door) -> BucketPlace | None:
        """The place of `gs://bucket/folder`, None if it is none."""
        parts = urlsplit(uri)
        folder = unquote(parts.path).strip("/")
        if parts.scheme != SCHEME or not parts.netloc or not folder:
            return None
        return cls(parts.netloc, folder, door)

    @property
    def name(self) -> str:
        """The last part."""
        return self.folder.rpartition("/")[2]

    def __truediv__(self, name: str) -> BucketPlace:
        return self._replace(folder=f"{self.folder}/{name}")

    def __str__(self) -> str:
        return f"{SCHEME}://{self.bucket}/{self.folder}"


class Seen(NamedTuple):
    """What the store says of a file; `md5` is empty for one that was composed."""

    size_bytes: int
    md5: str
    crc32c: str


class BucketShelf:
    """The checkpoints of one epoch in a bucket. A look costs money."""

    poll_s = 1.0

    def __init__(self, place: BucketPlace) -> None:
        self._place = place
        self._wire = Wire(place.door)
        self._is_there = False

    def require(self) -> None:
        """Return once the store's marker was seen: a bucket has no folders to be made."""
        if not self._is_there:
            root = self._place.folder.split("/")[:-_DEEP]
            marker = BucketFolder(self._place._replace(folder="/".join(root)), self._wire)
            if marker.size(STORE_MARKER) is None:
                raise FileNotFoundError(f"no store is there, or its marker is gone: {self._place}")
            self._is_there = True

    def names(self) -> tuple[str, ...]:
        """The names of the folders."""
        prefix = self._place.folder + "/"
        query = {"prefix": prefix, "delimiter": "/", "fields": "prefixes,nextPageToken"}
        found = []
        for page in _pages(self._wire, self._place.bucket, query):
            found += [str(one)[len(prefix) :].strip("/") for one in page.get("prefixes", ())]
        return tuple(found)

    def folder(self, name: str) -> Folder:
        """One of them."""
        return BucketFolder(self._place / name, self._wire)

    def close(self) -> None:
        """Let go of the connection."""
        self._wire.close()


class BucketFolder:
    """One checkpoint in a bucket."""

    def __init__(self, place: BucketPlace, wire: Wire) -> None:
        self._place = place
        self._wire = wire
        self._there: Mapping[str, Seen] | None = None

    def __str__(self) -> str:
        return str(self._place)

    def make(self) -> None:
        """Look at what is there already, once: it need not be sent again."""
        self._there = self.seen()

    def read(self, name: str) -> bytes | None:
        """The bytes of an object."""
        answer = self._wire.call(Request("GET", self._object(name, alt="media")))
        if answer.status == 404:
            return None
        _expect(answer, name, 200)
        return answer.body

    def size(self, name: str) -> int | None:
        """The size of an object."""
        answer = self._wire.call(Request("GET", self._object(name, fields="size")))
        if answer.status == 404:
            return None
        _expect(answer, name, 200)
        return int(_told(answer, name)["size"])

    def sizes(self) -> Mapping[str, int]:
        """The sizes of all objects."""
        return {name: one.size_bytes for name, one in self.seen().items()}

    def seen(self) -> Mapping[str, Seen]:
        """What the store says of all that is here, by name. Raises OSError."""
        prefix = self._place.folder + "/"
        query = {"prefix": prefix, "fields": "items(name,size,md5Hash,crc32c),nextPageToken"}
        found = {}
        for page in _pages(self._wire, self._place.bucket, query):
            for one in page.get("items", ()):
                seen = Seen(
                    int(one["size"]), str(one.get("md5Hash", "")), str(one.get("crc32c", ""))
                )
                found[str(one["name"])[len(prefix) :]] = seen
        return found

    def take_in(self, source: Path, name: str) -> Digest:
        """Send a file, unless its bytes are there."""
        sha256, md5, size_bytes = hashlib.sha256(), _md5(), 0
        with source.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                sha256.update(chunk)
                md5.update(chunk)
                size_bytes += len(chunk)
        wanted = size_bytes, base64.b64encode(md5.digest()).decode()
        there = None if self._there is None else self._there.get(name)
        if there is None or (there.size_bytes, there.md5) != wanted:
            if size_bytes <= SMALL_BYTES:
                self._put(name, source.read_bytes(), wanted[1])
            else:
                self._send(name, source, *wanted)
        return Digest(size_bytes, sha256.hexdigest())

    def settle(self) -> None:
        """What a bucket answered for is there to stay."""

    def write(self, name: str, data: bytes) -> None:
        """Put an object."""
        self._put(name, data, base64.b64encode(_md5(data).digest()).decode())

    def remove(self, name: str) -> None:
        """Remove an object."""
        answer = self._wire.call(Request("DELETE", self._object(name)))
        _expect(answer, name, 200, 204, 404)

    def fetch(self, name: str, target: Path) -> tuple[Digest, str]:
        """Bring an object here; its digest, and its MD5 as the store writes it. Raises OSError.

        One that breaks off is taken up where it did.
        """
        sha256, md5, kept, tries = hashlib.sha256(), _md5(), 0, 0
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as out:
            while True:
                before = kept
                try:
                    for piece in self._pieces(name, kept):
                        out.write(piece)
                        sha256.update(piece)
                        md5.update(piece)
                        kept += len(piece)
                    break
                except NoAnswer:
                    tries = tries + 1 if kept == before else 0
                    if tries >= TRIES:
                        raise
                    time.sleep(PAUSE_S * (tries + 1))
        return Digest(kept, sha256.hexdigest()), base64.b64encode(md5.digest()).decode()

    def _pieces(self, name: str, start: int) -> Iterator[bytes]:
        ranged = {"Range": f"bytes={start}-"} if start else {}
        request = Request("GET", self._object(name, alt="media"), ranged)
        with self._wire.opened(request) as answer:
            if answer.status != (206 if start else 200):
                answer.read()
                raise NoAnswer(f"{name}: the store answers {answer.status}")
            while piece := answer.piece():
                yield piece

    def _put(self, name: str, data: bytes, md5: str) -> None:
        border = os.urandom(16).hex().encode()
        said = {"name": f"{self._place.folder}/{name}", "md5Hash": md5}
        body = b"".join(
            (
                *(b"--", border, b"\r\nContent-Type: application/json\r\n\r\n"),
                *(json.dumps(said).encode(), b"\r\n--", border),
                *(b"\r\nContent-Type: application/octet-stream\r\n\r\n", data),
                *(b"\r\n--", border, b"--\r\n"),
            )
        )
        kind = {"Content-Type": f"multipart/related; boundary={border.decode()}"}
        answer = self._wire.call(Request("POST", self._uploads("multipart"), kind, body))
        _expect(answer, name, 200)

    def _send(self, name: str, source: Path, size_bytes: int, md5: str) -> None:
        """Send a file piece by piece, in a session that makes one object however often it is sent
        to."""
        said = {"name": f"{self._place.folder}/{name}", "md5Hash": md5}
        head = {
            "Content-Type": "application/json",
            "X-Upload-Content-Type": "application/octet-stream",
            "X-Upload-Content-Length": str(size_bytes),
        }
        begun = Request("POST", self._uploads("resumable"), head, json.dumps(said).encode())
        answer = self._wire.call(begun)
        _expect(answer, name, 200)
        address = next((v for k, v in answer.headers.items() if k.lower() == "location"), "")
        start, tries = 0, 0
        with source.open("rb") as file:
            while True:
                file.seek(start)
                piece = file.read(PIECE_BYTES)
                kept = self._send_piece(name, address, piece, (start, size_bytes))
                if kept is None:
                    return
                tries = tries + 1 if kept <= start else 0
                if tries >= TRIES:
                    raise OSError(f"{name}: the store took no byte of a piece")
                time.sleep(PAUSE_S * tries)
                start = kept

    def _send_piece(self, name: str, address: str, piece: bytes, at: tuple[int, int]) -> int | None:
        """Send a piece of so many bytes; how many the store has then, None: the object is there."""
        start, total = at
        sent = {"Content-Range": f"bytes {start}-{start + len(piece) - 1}/{total}"}
        try:
            answer = self._wire.call(Request("PUT", address, sent, piece), is_sent_once=True)
        except OSError:
            answer = None
        if answer is None or answer.status not in (200, 201, 308):
            # Some of it may have come: what there is is asked for, and only the rest is sent.
            asked = {"Content-Range": f"bytes */{total}"}
            answer = self._wire.call(Request("PUT", address, asked))
        if answer.status in (200, 201):
            return None
        _expect(answer, name, 308)
        kept = next((v for k, v in answer.headers.items() if k.lower() == "range"), "")
        matched = _KEPT.fullmatch(kept)
        return int(matched[1]) + 1 if matched else 0

    def _object(self, name: str, **query: str) -> str:
        key = quote(f"{self._place.folder}/{name}".lstrip("/"), safe="")
        path = f"/storage/v1/b/{self._place.bucket}/o/{key}"
        return f"{path}?{urlencode(query)}" if query else path

    def _uploads(self, kind: str) -> str:
        return f"/upload/storage/v1/b/{self._place.bucket}/o?{urlencode({'uploadType': kind})}"


def _pages(wire: Wire, bucket: str, query: Mapping[str, str]) -> list[Mapping[str, Any]]:
    pages: list[Mapping[str, Any]] = []
    token = ""
    while True:
        asked = {**query, "pageToken": token} if token else query
        answer = wire.call(Request("GET", f"/storage/v1/b/{bucket}/o?{urlencode(asked)}"))
        _expect(answer, query["prefix"], 200)
        pages.append(_told(answer, query["prefix"]))
        token = str(pages[-1].get("nextPageToken", ""))
        if not token:
            return pages


def _told(answer: Answer, name: str) -> Mapping[str, Any]:
    try:
        told = json.loads(answer.body)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise OSError(f"{name}: the answer is none")
    return told


def _expect(answer: Answer, name: str, *statuses: int) -> None:
    if answer.status not in statuses:
        raise OSError(f"{name}: the store answers {answer.status}")


def _md5(data: bytes = b"") -> Any:
    """What Google compares; the markers have SHA-256."""
    # Python 3.8 has no word for a digest that guards against accidents alone.
    return hashlib.md5(data)
