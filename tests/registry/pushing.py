"""Images made by the tests, put into a registry by hand: with urllib, and with nothing of ours.

The rule: every byte is decided here, also those of manifests, so that what a copy makes of them can
be told.
"""

import hashlib
import json
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urljoin

from tests.registry.servers import Server

OCI = "application/vnd.oci.image."
DOCKER = "application/vnd.docker."
FOREIGN = {
    True: f"{OCI}layer.nondistributable.v1.tar+gzip",
    False: f"{DOCKER}image.rootfs.foreign.diff.tar.gzip",
}
# What every builder writes for a layer that changes nothing: an empty tar archive, packed.
EMPTY_TAR = bytes.fromhex("1f8b080000096e8800ff621805a360148c5800080000ffff2eafb5ef00040000")
MIB = 1 << 20
Found = dict[str, Any]


class Pusher:
    """Puts content into one repository of a registry that wants no login."""

    def __init__(self, server: Server, repository: str, *, is_oci: bool = True) -> None:
        self.server = server
        self.repository = repository
        self._is_oci = is_oci

    def blob(self, content: bytes, media_type: str, **more: Any) -> Found:
        """Put a blob; return its descriptor."""
        return self.stream([content], media_type, **more)

    def stream(self, chunks: list[bytes], media_type: str, **more: Any) -> Found:
        """Put a blob of these chunks; return its descriptor."""
        checksum = hashlib.sha256()
        for chunk in chunks:
            checksum.update(chunk)
        digest, size = f"sha256:{checksum.hexdigest()}", sum(map(len, chunks))
        base = f"http://{self.server.name}/v2/{self.repository}/blobs/uploads/"
        location = urljoin(base, self._send("POST", base, b"", {})["Location"])
        self._send(
            "PUT",
            f"{location}&digest={digest}",
            chunks,
            {"Content-Type": "application/octet-stream", "Content-Length": str(size)},
        )
        return {"mediaType": media_type, "digest": digest, "size": size, **more}

    def layer(self, content: bytes) -> Found:
        """Put a layer; return its descriptor."""
        return self.blob(content, self.layer_type)

    @property
    def layer_type(self) -> str:
        """The media type of a packed layer."""
        oci, docker = f"{OCI}layer.v1.tar+gzip", f"{DOCKER}image.rootfs.diff.tar.gzip"
        return oci if self._is_oci else docker

    def foreign(self) -> Found:
        """Return the descriptor of a layer that no registry keeps."""
        return {
            "mediaType": FOREIGN[self._is_oci],
            "digest": "sha256:" + "f0" * 32,
            "size": 123_456,
            "urls": ["https://layers.example/one"],
        }

    def image(self, *layers: Found, platform: str = "linux/amd64", tag: str | None = None) -> Found:
        """Put an image; return its descriptor with its platform."""
        os, architecture = platform.split("/")
        said = {"os": os, "architecture": architecture}
        config = self.blob(
            json.dumps(
                {**said, "rootfs": {"type": "layers", "diff_ids": []}, "config": {}}
            ).encode(),
            f"{OCI}config.v1+json" if self._is_oci else f"{DOCKER}container.image.v1+json",
        )
        media_type = (
            f"{OCI}manifest.v1+json" if self._is_oci else f"{DOCKER}distribution.manifest.v2+json"
        )
        body = {"schemaVersion": 2, "mediaType": media_type, "config": config, "layers": [*layers]}
        return self.manifest(body, tag, platform=said)

    def index(self, *children: Found, tag: str | None = None) -> Found:
        """Put an index; return its descriptor."""
        media_type = (
            f"{OCI}index.v1+json" if self._is_oci else f"{DOCKER}distribution.manifest.list.v2+json"
        )
        return self.manifest(
            {"schemaVersion": 2, "mediaType": media_type, "manifests": [*children]}, tag
        )

    def manifest(self, found: Found, tag: str | None, **more: Any) -> Found:
        """Put a manifest in bytes that nobody would write again; return its descriptor."""
        body = json.dumps(found, indent=5, separators=(" ,", " : ")).encode() + b"\n\n"
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        base = f"http://{self.server.name}/v2/{self.repository}/manifests/"
        for name in (digest, tag):
            if name is not None:
                self._send("PUT", base + name, body, {"Content-Type": found["mediaType"]})
        return {"mediaType": found["mediaType"], "digest": digest, "size": len(body), **more}

    def _send(
        self, method: str, url: str, body: bytes | list[bytes], headers: Mapping[str, str]
    ) -> Mapping[str, str]:
        request = urllib.request.Request(url, body, dict(headers), method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return dict(answer.headers)


def large(size_mib: int, seed: int = 0) -> Iterator[bytes]:
    """Yield a layer of so many MiB, each of them another, that is cheap to make."""
    for at in range(size_mib):
        yield (seed + at).to_bytes(8, "big") * (MIB // 8)


def multi_arch(pusher: Pusher, tag: str | None = None) -> Found:
    """Put an index of two images that share a layer, with an empty and a foreign one."""
    base = pusher.layer(b"".join(large(3)))
    nothing = pusher.layer(EMPTY_TAR)
    children = [
        pusher.image(
            base,
            pusher.layer(f"{architecture} {pusher.repository}".encode()),
            nothing,
            pusher.foreign(),
            platform=f"linux/{architecture}",
        )
        for architecture in ("amd64", "arm64")
    ]
    return pusher.index(*children, tag=tag)
