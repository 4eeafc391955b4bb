"""The calls of the fake's API: each is named, befallen by its script, and answered.

Read ``Handler._serve`` first; ``_named`` is the list of the calls.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.fakes.gcs.cloud import Stored, resource
from tests.fakes.gcs.conditions import Refused
from tests.fakes.gcs.faults import CUT, HALF, LOST, WRONG, Befalls
from tests.fakes.gcs.listing import page_of
from tests.fakes.gcs.wire import Answer, cut, json_answer, multipart, read_body, send

if TYPE_CHECKING:
    from tests.fakes.gcs.server import FakeGcs

_BUCKETS = re.compile(r"/storage/v1/b")
_BUCKET = re.compile(r"/storage/v1/b/([^/]+)")
_LIST = re.compile(r"/storage/v1/b/([^/]+)/o")
_UPLOAD = re.compile(r"/upload/storage/v1/b/([^/]+)/o")
_OBJECT = re.compile(r"(/download)?/storage/v1/b/([^/]+)/o/([^/]+)")
_REWRITE = re.compile(r"/storage/v1/b/([^/]+)/o/([^/]+)/rewriteTo/b/([^/]+)/o/([^/]+)")


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    gcs: FakeGcs
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # one answer, one packet: halves would wait for each other

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def do_PATCH(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a test reads what was asked."""

    def _serve(self) -> None:
        self.parts = urlsplit(self.path)
        self.query = dict(parse_qsl(self.parts.query, keep_blank_values=True))
        self.body = read_body(self)
        operation, act = self._named()
        told = {"range": piece} if (piece := self.headers.get("content-range")) else {}
        befalls = self.gcs.faults.befalls(operation, {**self.query, **told})
        if befalls is CUT:
            return cut(self)
        answer = self._answer(act, befalls)
        if befalls is LOST:
            return cut(self)
        if befalls is WRONG and answer.body:
            answer.body = answer.body[:-1] + bytes([answer.body[-1] ^ 1])
        return send(self, answer, is_half=befalls is HALF and operation == "objects.media")

    def _answer(self, act: Callable[[], Answer], befalls: int | Befalls | None) -> Answer:
        self.keep_half = befalls is HALF
        try:
            if isinstance(befalls, int):
                raise Refused(befalls, "planned", f"As the script says: {befalls}.")
            self._require_token()
            with self.gcs.lock:
                return act()
        except Refused as refused:
            body = {
                "error": {
                    "code": refused.status,
                    "message": refused.message,
                    "errors": [{"reason": refused.reason, "message": refused.message}],
                }
            }
            return json_answer(body, refused.status)

    def _named(self) -> tuple[str, Callable[[], Answer]]:
        """Name the operation that a request is of, and what it does."""
        path, method, cloud = self.parts.path, self.command, self.gcs.cloud
        if path.startswith("/upload/"):
            return self._upload()
        if matched := _REWRITE.fullmatch(path):
            a, b, c, d = (unquote(part) for part in matched.groups())
            return "objects.rewrite", lambda: json_answer(
                cloud.rewrite((a, b), (c, d), self._fields(), self.query)
            )
        if matched := _OBJECT.fullmatch(path):
            bucket, name = unquote(matched[2]), unquote(matched[3])
            if method == "GET" and (matched[1] or self.query.get("alt") == "media"):
                return "objects.media", lambda: self._media(cloud.find(bucket, name, self.query))
            if method == "GET":
                return "objects.get", lambda: json_answer(
                    resource(bucket, name, cloud.find(bucket, name, self.query))
                )
            if method == "PATCH":
                return "objects.patch", lambda: json_answer(
                    resource(bucket, name, cloud.patch(bucket, name, self._fields(), self.query))
                )
            if method == "DELETE":
                return "objects.delete", lambda: self._deleted(bucket, name)
        if (matched := _LIST.fullmatch(path)) and method == "GET":
            return "objects.list", lambda: json_answer(
                page_of(cloud.bucket(matched[1]), self.query)
            )
        if (matched := _BUCKET.fullmatch(path)) and method == "GET":
            return "buckets.get", lambda: json_answer(cloud.bucket(matched[1]).resource())
        if _BUCKETS.fullmatch(path) and method == "POST":
            return "buckets.insert", self._make_bucket
        return "unknown", self._unknown

    def _upload(self) -> tuple[str, Callable[[], Answer]]:
        if key := self.query.get("upload_id"):
            if self.command == "DELETE":
                return "uploads.cancel", lambda: self._cancelled(key)
            return "uploads.send", lambda: self._piece(key)
        matched = _UPLOAD.fullmatch(self.parts.path)
        if matched is None or self.command != "POST":
            return "unknown", self._unknown
        bucket = unquote(matched[1])
        match self.query.get("uploadType"):
            case "resumable":
                return "uploads.start", lambda: self._start(bucket)
            case "multipart":
                return "objects.insert", lambda: self._insert(
                    bucket, *multipart(self.headers["content-type"], self.body)
                )
            case "media":
                return "objects.insert", lambda: self._insert(bucket, {}, self.body)
        return "unknown", self._unknown

    def _make_bucket(self) -> Answer:
        fields = self._fields()
        location = fields.get("location", "US")
        made = self.gcs.cloud.make_bucket(
            fields["name"], location, fields.get("storageClass", "STANDARD")
        )
        return json_answer(made.resource())

    def _insert(self, bucket: str, fields: dict[str, Any], data: bytes) -> Answer:
        name = self.query.get("name") or fields["name"]
        stored = self.gcs.cloud.insert(bucket, name, data, fields, self.query)
        return json_answer(resource(bucket, name, stored))

    def _start(self, bucket: str) -> Answer:
        fields = self._fields()
        if kind := self.headers.get("x-upload-content-type"):
            fields.setdefault("contentType", kind)
        name = self.query.get("name") or fields["name"]
        key = self.gcs.uploads.start(bucket, name, fields, self.query)
        where = (
            f"{self.gcs.url}/upload/storage/v1/b/{bucket}/o?uploadType=resumable&upload_id={key}"
        )
        return Answer(200, headers={"Location": where})

    def _piece(self, key: str) -> Answer:
        promised = dict(
            one.strip().split("=", 1) for one in self.headers.get("x-goog-hash", "=").split(",")
        )
        upload = self.gcs.uploads.send(
            key,
            self.body,
            self.headers.get("content-range", ""),
            promised.get("crc32c"),
            keep_half=self.keep_half,
        )
        if upload.done is not None:
            return json_answer(resource(upload.bucket, upload.name, upload.done))
        kept = len(upload.data)
        return Answer(308, headers={"Range": f"bytes=0-{kept - 1}"} if kept else {})

    def _cancelled(self, key: str) -> Answer:
        self.gcs.uploads.forget(key)
        return Answer(499)

    def _deleted(self, bucket: str, name: str) -> Answer:
        self.gcs.cloud.delete(bucket, name, self.query)
        return Answer(204)

    def _media(self, stored: Stored) -> Answer:
        data, total = stored.data, len(stored.data)
        headers = {
            "Content-Type": stored.fields["contentType"],
            "x-goog-generation": str(stored.generation),
            "x-goog-metageneration": str(stored.metageneration),
            "x-goog-stored-content-length": str(total),
            "x-goog-hash": f"crc32c={stored.crc32c},md5={stored.md5}",
        }
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
        if asked is None:
            return Answer(200, data, headers)
        first, last = int(asked[1]), min(int(asked[2] or total), total - 1)
        if first >= total:
            raise Refused(416, "requestedRangeNotSatisfiable", "Requested range not satisfiable")
        headers["Content-Range"] = f"bytes {first}-{last}/{total}"
        return Answer(206, data[first : last + 1], headers)

    def _unknown(self) -> Answer:
        raise Refused(501, "notImplemented", f"The fake knows no {self.command} {self.parts.path}")

    def _require_token(self) -> None:
        if self.gcs.tokens is None:
            return
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or token not in self.gcs.tokens:
            raise Refused(401, "authError", "Invalid Credentials")

    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = json.loads(self.body or b"{}")
        return fields
