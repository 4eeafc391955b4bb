"""Manifests as tests want them: each argument left out is valid."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from replicator.oci.manifest import DOCKER_LIST, OCI_INDEX, OCI_MANIFEST

LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
CONFIG = "application/vnd.oci.image.config.v1+json"


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def descriptor(content: bytes = b"content", media_type: str = LAYER, **more: Any) -> dict[str, Any]:
    """Describe content; ``more`` is added, or stands instead of what would be there."""
    return {
        "mediaType": media_type,
        "digest": digest_of(content),
        "size": len(content),
        **more,
    }


def image(*layers: Mapping[str, Any], config: bytes = b"{}", **more: Any) -> bytes:
    """Return an image's manifest."""
    return encoded(
        {
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": descriptor(config, CONFIG),
            "layers": list(layers),
            **more,
        }
    )


def index(*children: Mapping[str, Any], media_type: str = OCI_INDEX, **more: Any) -> bytes:
    """Return an index."""
    return encoded(
        {"schemaVersion": 2, "mediaType": media_type, "manifests": list(children), **more}
    )


def child(body: bytes, platform: str = "linux/amd64", **more: Any) -> dict[str, Any]:
    """Describe a manifest for a platform, such as ``linux/arm64/v8``."""
    os, architecture, *variant = platform.split("/")
    said = {"os": os, "architecture": architecture}
    if variant:
        said["variant"] = variant[0]
    media_type = json.loads(body).get("mediaType", OCI_MANIFEST)
    return descriptor(body, media_type, platform=said, **more)


def encoded(found: object) -> bytes:
    return json.dumps(found, indent=3).encode()


__all__ = [
    "CONFIG",
    "DOCKER_LIST",
    "LAYER",
    "OCI_INDEX",
    "OCI_MANIFEST",
    "child",
    "descriptor",
    "digest_of",
    "encoded",
    "image",
    "index",
]
