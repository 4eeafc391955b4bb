"""Resumable uploads: sessions that keep what came, in multiples of 256 KiB, until the last byte.

A session is the name of one write: its last piece can be sent again, and its state asked for,
without a second object. Read ``Uploads.send``.
"""

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.gcs.cloud import Cloud, Stored, require_checksums
from tests.fakes.gcs.conditions import Refused

GRAIN_BYTES = 256 << 10
_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")


@dataclass(slots=True)
class Upload:
    """One session. ``done`` is the object, once it is there."""

    bucket: str
    name: str
    fields: Mapping[str, Any]
    query: Mapping[str, str]
    data: bytearray = field(default_factory=bytearray)
    done: Stored | None = None


class Uploads:
    """The sessions of a cloud."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._numbers = itertools.count(1)
        self._sessions: dict[str, Upload] = {}

    def start(self, bucket: str, name: str, fields: Mapping[str, Any], query: Any) -> str:
        """Begin a session and return its id. Preconditions are judged now, and again at its end."""
        self._cloud.admit(bucket, name, query)
        key = f"upload-{next(self._numbers)}"
        self._sessions[key] = Upload(bucket, name, fields, query)
        return key

    def forget(self, key: str) -> None:
        """Cancel a session."""
        self._sessions.pop(key, None)

    def open(self) -> int:
        """Return how many sessions have no object yet."""
        return len([one for one in self._sessions.values() if one.done is None])

    def send(
        self, key: str, piece: bytes, content_range: str, crc32c: str | None, *, keep_half: bool
    ) -> Upload:
        """Take a piece, or none to be asked how far it is; the last one makes the object."""
        upload = self._sessions.get(key)
        if upload is None:
            raise Refused(404, "notFound", "No such upload.")
        if upload.done is not None:
            return upload
        matched = _RANGE.fullmatch(content_range)
        if matched is None:
            raise Refused(400, "invalid", f"Not a content range: {content_range!r}")
        first, last, total = matched.groups()
        if first is not None:
            if len(piece) != int(last) - int(first) + 1:
                raise Refused(400, "invalid", f"{len(piece)} bytes came as {content_range}")
            self._keep(upload, int(first), piece, total, keep_half=keep_half)
        if total != "*" and len(upload.data) == int(total):
            data = bytes(upload.data)
            require_checksums(data, crc32c, None)
            upload.done = self._cloud.insert(
                upload.bucket, upload.name, data, upload.fields, upload.query
            )
        return upload

    @staticmethod
    def _keep(upload: Upload, first: int, piece: bytes, total: str, *, keep_half: bool) -> None:
        kept = len(upload.data)
        if first > kept:
            raise Refused(400, "invalid", f"Byte {first} does not follow the {kept} that came.")
        fresh = piece[kept - first :]
        if keep_half:
            fresh = fresh[: len(fresh) // 2]
        is_last = total != "*" and kept + len(fresh) == int(total)
        whole = len(fresh) if is_last else (kept + len(fresh)) // GRAIN_BYTES * GRAIN_BYTES - kept
        upload.data += fresh[: max(0, whole)]
