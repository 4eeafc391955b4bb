"""What the fake holds: buckets, objects with their generations, and rewrites under way.

The rule: every call is judged by its preconditions before it changes anything, and an object is
visible whole or not at all. No versions are kept: a generation that was replaced is gone. Read
``Cloud.insert`` and ``Cloud.rewrite`` first.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import google_crc32c

from tests.fakes.gcs.conditions import Refused, judge

Fields = Mapping[str, Any]
REWRITE_BYTES = 1 << 20
WRITABLE = (
    *("contentType", "contentEncoding", "contentDisposition", "contentLanguage"),
    *("cacheControl", "customTime", "metadata", "storageClass"),
)


@dataclass(frozen=True, slots=True)
class Stored:
    """One generation of one object. ``fields`` are those that a client may write."""

    data: bytes
    fields: Fields
    generation: int
    metageneration: int
    created: str
    updated: str
    crc32c: str
    md5: str


@dataclass(slots=True)
class Bucket:
    """A bucket, which stands in one location."""

    name: str
    location: str
    storage_class: str
    objects: dict[str, Stored] = field(default_factory=dict)

    def resource(self) -> dict[str, Any]:
        """Return what the API says of it."""
        return {
            "kind": "storage#bucket",
            "id": self.name,
            "name": self.name,
            "location": self.location,
            "locationType": "region",
            "storageClass": self.storage_class,
        }


class Cloud:
    """All that the fake holds. ``now_s`` is its clock, in seconds since 1970."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._buckets: dict[str, Bucket] = {}
        # Microseconds of a late year, as the real ones are: too large for 32 bits, and for floats
        # that are written with few digits.
        self._generations = itertools.count(1_790_000_000_000_001)
        self._rewrites: dict[str, tuple[str, int]] = {}

    def make_bucket(self, name: str, location: str, storage_class: str) -> Bucket:
        """Make a bucket; one of that name is 409."""
        if name in self._buckets:
            raise Refused(409, "conflict", "Your previous request to create the bucket succeeded.")
        self._buckets[name] = Bucket(name, location.upper(), storage_class)
        return self._buckets[name]

    def bucket(self, name: str) -> Bucket:
        """Return a bucket, or 404."""
        if name not in self._buckets:
            raise Refused(404, "notFound", "The specified bucket does not exist.")
        return self._buckets[name]

    def drop_bucket(self, name: str) -> None:
        """Be without a bucket and all that is in it."""
        del self._buckets[name]

    def find(self, bucket: str, name: str, query: Fields) -> Stored:
        """Return an object as a read of it may see it, or 404, 412 or 304."""
        found = self._live(bucket, name, query.get("generation"))
        judge(found, query, is_read=True)
        return found

    def insert(self, bucket: str, name: str, data: bytes, fields: Fields, query: Fields) -> Stored:
        """Create or replace an object whole. ``fields`` may promise checksums."""
        self.admit(bucket, name, query)
        require_checksums(data, fields.get("crc32c"), fields.get("md5Hash"))
        return self._write(
            bucket, name, data, {"contentType": "application/octet-stream", **fields}
        )

    def admit(self, bucket: str, name: str, query: Fields) -> None:
        """Refuse a write whose preconditions do not hold now."""
        judge(self.bucket(bucket).objects.get(name), query, is_read=False)

    def patch(self, bucket: str, name: str, fields: Fields, query: Fields) -> Stored:
        """Change some fields; the content and its generation stay. Null takes a field away."""
        found = self._live(bucket, name, query.get("generation"))
        judge(found, query, is_read=False)
        merged = {**found.fields, **{k: v for k, v in fields.items() if k in WRITABLE}}
        if "metadata" in fields and fields["metadata"] is not None:
            both = {**(found.fields.get("metadata") or {}), **fields["metadata"]}
            merged["metadata"] = {key: value for key, value in both.items() if value is not None}
        kept = {key: value for key, value in merged.items() if value is not None}
        patched = replace(
            found, fields=kept, metageneration=found.metageneration + 1, updated=self._now()
        )
        self.bucket(bucket).objects[name] = patched
        return patched

    def delete(self, bucket: str, name: str, query: Fields) -> None:
        """Remove an object, or 404."""
        judge(self._live(bucket, name, query.get("generation")), query, is_read=False)
        del self.bucket(bucket).objects[name]

    def rewrite(
        self, source: tuple[str, str], target: tuple[str, str], fields: Fields, query: Fields
    ) -> dict[str, Any]:
        """Copy one more piece, from one location to another; within one, all at once.

        The token stands for the arguments of the calls before: with others it is refused.
        """
        found = self._live(*source, query.get("sourceGeneration"))
        judge(found, query, is_read=False, source=True)
        here, there = self.bucket(source[0]), self.bucket(target[0])
        steady = {key: value for key, value in query.items() if key != "rewriteToken"}
        meant = json.dumps([source, target, found.generation, dict(fields), steady], sort_keys=True)
        before, done = self._rewrites.get(query.get("rewriteToken", ""), (meant, 0))
        if before != meant or ("rewriteToken" in query and done == 0):
            raise Refused(400, "invalid", "The rewrite token is not one of these arguments.")
        total = len(found.data)
        is_near = (here.location, here.storage_class) == (there.location, there.storage_class)
        done = total if is_near else min(total, done + REWRITE_BYTES)
        answer = {"totalBytesRewritten": str(done), "objectSize": str(total), "done": done == total}
        if done < total:
            token = hashlib.sha256(f"{done} {meant}".encode()).hexdigest()
            self._rewrites[token] = (meant, done)
            return {**answer, "rewriteToken": token}
        self.admit(*target, query)
        # A body is the whole of what the copy's fields will be; without one they are the source's.
        own = {key: value for key, value in fields.items() if key in WRITABLE}
        written = self._write(*target, found.data, own or found.fields)
        return {**answer, "resource": resource(*target, written)}

    def _live(self, bucket: str, name: str, generation: Any) -> Stored:
        found = self.bucket(bucket).objects.get(name)
        if found is None or (generation is not None and int(generation) != found.generation):
            raise Refused(404, "notFound", f"No such object: {bucket}/{name}")
        return found

    def _write(self, bucket: str, name: str, data: bytes, fields: Fields) -> Stored:
        kept = {key: value for key, value in fields.items() if key in WRITABLE}
        now = self._now()
        found = Stored(data, kept, next(self._generations), 1, now, now, crc32c(data), md5(data))
        self.bucket(bucket).objects[name] = found
        return found

    def _now(self) -> str:
        return datetime.fromtimestamp(self._now_s(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def crc32c(data: bytes) -> str:
    """Return the checksum as the API writes it."""
    return base64.b64encode(google_crc32c.Checksum(data).digest()).decode()


def require_checksums(data: bytes, promised_crc32c: str | None, promised_md5: str | None) -> None:
    """Refuse bytes that are not those of the checksums that came with them."""
    if promised_crc32c is not None and promised_crc32c != crc32c(data):
        raise Refused(
            400,
            "invalid",
            f'Provided CRC32C "{promised_crc32c}" doesn\'t match calculated CRC32C'
            f' "{crc32c(data)}".',
        )
    if promised_md5 is not None and promised_md5 != md5(data):
        raise Refused(400, "invalid", "Provided MD5 hash doesn't match calculated MD5 hash.")


def md5(data: bytes) -> str:
    """Return the hash as the API writes it."""
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def resource(bucket: str, name: str, stored: Stored) -> dict[str, Any]:
    """Return what the API says of an object."""
    return {
        "kind": "storage#object",
        "storageClass": "STANDARD",
        **stored.fields,
        "id": f"{bucket}/{name}/{stored.generation}",
        "name": name,
        "bucket": bucket,
        "generation": str(stored.generation),
        "metageneration": str(stored.metageneration),
        "size": str(len(stored.data)),
        "crc32c": stored.crc32c,
        "md5Hash": stored.md5,
        "etag": f"{stored.generation}/{stored.metageneration}",
        "timeCreated": stored.created,
        "updated": stored.updated,
    }
