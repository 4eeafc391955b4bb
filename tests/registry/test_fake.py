"""The registry that other tests use instead does what a real one does, request by request."""

import hashlib
import re
from collections.abc import Mapping
from urllib.parse import urljoin

import aiohttp
from aiohttp.test_utils import TestServer

from tests.fakes.registry import FakeRegistry
from tests.registry.conftest import Town
from tests.registry.pushing import OCI
from tests.unit.replicator.oci.images import child, descriptor, image, index

CONTENT = b"0123456789" * 1_000
HALF = len(CONTENT) // 2
DIGEST = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
NONE = "sha256:" + "0" * 64
KEPT = ("Content-Length", "Content-Range", "Docker-Content-Digest", "Range")
MANIFEST = {"Content-Type": f"{OCI}manifest.v1+json"}
INDEX = {"Content-Type": f"{OCI}index.v1+json"}


class Talk:
    """Asks one registry, and keeps what it answered."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self._session = session
        self._base = base
        self.answers: list[object] = []

    async def ask(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> str:
        """Ask, note the answer, and return where it leads."""
        url = urljoin(self._base, path)
        async with self._session.request(
            method, url, data=body or None, headers=headers, allow_redirects=False
        ) as answer:
            told = await answer.read()
            code = re.search(rb'"code":\s*"(\w+)"', told)
            kept = {name: answer.headers[name] for name in KEPT if name in answer.headers}
            if method != "HEAD" and (answer.status >= 400 or "blobs/sha256" not in path):
                kept.pop("Content-Length", None)
            if method == "HEAD" and answer.status >= 400:
                kept = {}
            self.answers.append((method, answer.status, code and code[1], kept))
            return urljoin(url, answer.headers.get("Location", ""))


async def conversation(talk: Talk) -> None:
    """Say all that a copy says, and what a copy must not say."""
    blobs, uploads = "/v2/a/b/blobs/", "/v2/a/b/blobs/uploads/"
    await talk.ask("HEAD", blobs + DIGEST)
    await talk.ask("GET", blobs + DIGEST)
    where = await talk.ask("POST", uploads)
    where = await talk.ask("PATCH", where, CONTENT[:HALF])
    await talk.ask("GET", where)
    where = await talk.ask("PATCH", where, CONTENT[HALF:])
    await talk.ask("PUT", f"{where}&digest={DIGEST}")
    await talk.ask("GET", where)
    await talk.ask("HEAD", blobs + DIGEST)
    await talk.ask("GET", blobs + DIGEST, headers={"Range": f"bytes={HALF}-"})
    where = await talk.ask("POST", uploads)
    await talk.ask("PUT", f"{where}&digest={NONE}", CONTENT)
    where = await talk.ask("POST", uploads)
    config = hashlib.sha256(b"{}").hexdigest()
    await talk.ask("PUT", f"{where}&digest=sha256:{config}", b"{}")
    await talk.ask("POST", f"/v2/c/blobs/uploads/?mount={DIGEST}&from=a/b")
    await talk.ask("POST", f"/v2/c/blobs/uploads/?mount={NONE}&from=a/b")
    body = image(descriptor(CONTENT))
    digest = hashlib.sha256(body).hexdigest()
    manifests = "/v2/a/b/manifests/"
    await talk.ask("GET", manifests + "v1", headers={"Accept": MANIFEST["Content-Type"]})
    await talk.ask("PUT", manifests + "v1", index(child(body)), INDEX)
    await talk.ask("PUT", manifests + "v1", image(descriptor(b"nowhere")), MANIFEST)
    await talk.ask("PUT", manifests + NONE, body, MANIFEST)
    await talk.ask("PUT", f"{manifests}sha256:{digest}", body, MANIFEST)
    await talk.ask("PUT", manifests + "v1", body, MANIFEST)
    await talk.ask("PUT", manifests + "all", index(child(body)), INDEX)
    await talk.ask("HEAD", manifests + "v1", headers={"Accept": MANIFEST["Content-Type"]})
    await talk.ask("GET", manifests + "all", headers={"Accept": INDEX["Content-Type"]})
    await talk.ask("GET", manifests + "all", headers={"Accept": MANIFEST["Content-Type"]})


async def test_the_fake_answers_as_a_real_one(town: Town) -> None:
    fresh = town.servers.start("fresh")
    async with aiohttp.ClientSession() as session, TestServer(FakeRegistry().app) as fake:
        real, ours = Talk(session, f"http://{fresh.name}"), Talk(session, str(fake.make_url("/")))
        await conversation(real)
        await conversation(ours)
    assert ours.answers == real.answers
