"""A registry of images in memory, which tells the truth until a test has it lie.

It does what Debian's docker-registry does, which ``tests/registry`` holds it against: it takes no
manifest before what that names, no blob that has not its digest, and sends ranges. ``lie`` is asked
before every answer; what it returns is sent instead. In one thing it is kinder than Debian's, and
as the specification has it: it knows what came of a chunk whose line broke. One that
``is_careless`` takes manifests before what they name, and blobs that have not their digest.
"""

import hashlib
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

# Set in a request whose answer is to be lost, once all that was asked is done.
LOST = web.RequestKey("lost", bool)
Lie = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A request as it came in."""

    method: str
    path: str
    headers: Mapping[str, str]


class FakeRegistry:
    """Serve ``app`` to have it answer."""

    def __init__(self) -> None:
        self.blobs: dict[tuple[str, str], bytes] = {}
        self.manifests: dict[tuple[str, str], tuple[str, bytes]] = {}
        self.heard: list[Heard] = []
        self.lie: Lie | None = None
        self.is_careless = False
        self.uploads: dict[str, bytearray] = {}
        self.app = web.Application(client_max_size=1 << 30, middlewares=[self._listening])
        self.app.add_routes(
            [
                web.get("/v2/", self._root),
                web.route("*", "/v2/{repository:.+}/manifests/{wanted}", self._manifest),
                web.post("/v2/{repository:.+}/blobs/uploads/", self._begin),
                web.route("*", "/v2/{repository:.+}/blobs/uploads/{upload}", self._upload),
                web.get("/v2/{repository:.+}/blobs/{digest}", self._blob),
            ]
        )

    def put(self, repository: str, content: bytes) -> str:
        """Have it hold a blob; return its digest."""
        digest = digest_of(content)
        self.blobs[repository, digest] = content
        return digest

    def put_manifest(self, repository: str, body: bytes, *tags: str) -> str:
        """Have it hold a manifest, under tags too; return its digest."""
        digest = digest_of(body)
        media_type = json.loads(body)["mediaType"]
        for name in (digest, *tags):
            self.manifests[repository, name] = (media_type, body)
        return digest

    def asked(self, method: str, part: str) -> list[Heard]:
        """Return what was asked by a method of paths with this in them."""
        return [each for each in self.heard if each.method == method and part in each.path]

    @web.middleware
    async def _listening(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        self.heard.append(
            Heard(method=request.method, path=request.path, headers=dict(request.headers))
        )
        told = None if self.lie is None else await self.lie(request)
        answer = await handler(request) if told is None else told
        if request.get(LOST):
            assert request.transport is not None
            request.transport.abort()
        return answer

    async def _root(self, _: web.Request) -> web.Response:
        return web.json_response({})

    async def _manifest(self, request: web.Request) -> web.Response:
        repository, wanted = request.match_info["repository"], request.match_info["wanted"]
        if request.method == "PUT":
            return await self._take_manifest(request, repository, wanted)
        found = self.manifests.get((repository, wanted))
        accepted = request.headers.get("Accept", "")
        if found is None or found[0] not in accepted:
            return refused(404, "MANIFEST_UNKNOWN")
        media_type, body = found
        return web.Response(
            body=body,
            headers={"Content-Type": media_type, "Docker-Content-Digest": digest_of(body)},
        )

    async def _take_manifest(
        self, request: web.Request, repository: str, wanted: str
    ) -> web.Response:
        body = await request.read()
        if wanted.startswith("sha256:") and digest_of(body) != wanted:
            return refused(400, "DIGEST_INVALID")
        found = json.loads(body)
        blobs = [found["config"], *found["layers"]] if "layers" in found else []
        missing = [each for each in blobs if not each.get("urls")] if blobs else []
        missing = [each for each in missing if (repository, each["digest"]) not in self.blobs]
        missing += [
            each
            for each in found.get("manifests", [])
            if (repository, each["digest"]) not in self.manifests
        ]
        if missing and not self.is_careless:
            return refused(400, "MANIFEST_BLOB_UNKNOWN")
        media_type = request.headers["Content-Type"]
        for name in {wanted, digest_of(body)}:
            self.manifests[repository, name] = (media_type, body)
        return web.Response(status=201, headers={"Docker-Content-Digest": digest_of(body)})

    async def _blob(self, request: web.Request) -> web.Response:
        digest = request.match_info["digest"]
        content = self.blobs.get((request.match_info["repository"], digest))
        if content is None:
            return refused(404, "BLOB_UNKNOWN")
        headers = {"Docker-Content-Digest": digest, "Content-Type": "application/octet-stream"}
        if "Range" not in request.headers:
            return web.Response(body=content, headers=headers)
        first = request.http_range.start
        headers["Content-Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
        return web.Response(status=206, body=content[first:], headers=headers)

    async def _begin(self, request: web.Request) -> web.Response:
        repository = request.match_info["repository"]
        mounted = self.blobs.get((request.query.get("from", ""), request.query.get("mount", "")))
        if mounted is not None:
            digest = self.put(repository, mounted)
            return web.Response(status=201, headers={"Docker-Content-Digest": digest})
        upload = secrets.token_hex(8)
        self.uploads[upload] = bytearray()
        return self._where(202, repository, upload)

    async def _upload(self, request: web.Request) -> web.Response:
        repository, upload = request.match_info["repository"], request.match_info["upload"]
        content = self.uploads.get(upload)
        if content is None:
            return refused(404, "BLOB_UPLOAD_UNKNOWN")
        if request.method == "GET":
            return self._where(204, repository, upload)
        if request.method == "DELETE":
            del self.uploads[upload]
            return web.Response(status=204)
        # What came before a line broke is kept.
        async for chunk in request.content.iter_any():
            content += chunk
        if request.method == "PATCH":
            return self._where(202, repository, upload)
        digest = request.query["digest"]
        if digest_of(bytes(content)) != digest and not self.is_careless:
            return refused(400, "DIGEST_INVALID")
        del self.uploads[upload]
        self.blobs[repository, digest] = bytes(content)
        return web.Response(status=201, headers={"Docker-Content-Digest": digest})

    def _where(self, status: int, repository: str, upload: str) -> web.Response:
        last = max(0, len(self.uploads[upload]) - 1)
        location = f"/v2/{repository}/blobs/uploads/{upload}?_state={secrets.token_hex(4)}%3D"
        return web.Response(status=status, headers={"Location": location, "Range": f"0-{last}"})


def digest_of(content: bytes) -> str:
    """Return the name of content."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def refused(status: int, code: str, **headers: str) -> web.Response:
    """Return an error in the protocol's form."""
    told: Any = {"errors": [{"code": code, "message": "in somebody's words"}]}
    return web.json_response(told, status=status, headers=headers)
