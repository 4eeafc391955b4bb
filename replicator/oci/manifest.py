"""What a registry says an image is made of: indexes, manifests and the descriptors in them.

The bytes of a manifest are kept as they came, for its digest is theirs; what is read here only
says what else to fetch. All of it is hostile until read: sizes, digests and counts are judged, and
a text that could be read as both an index and an image is refused. Read ``read`` first.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from replicator.errors import Corrupt, ImageRefused
from replicator.oci.reference import is_digest

OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
INDEXES = frozenset({OCI_INDEX, DOCKER_LIST})
IMAGES = frozenset({OCI_MANIFEST, DOCKER_MANIFEST})
# A registry answers 404 to who does not say that it can read what is there. The signed manifests
# of Docker's first schema are not asked for: their digest is not that of their bytes.
ACCEPT = ", ".join((OCI_INDEX, DOCKER_LIST, OCI_MANIFEST, DOCKER_MANIFEST))
_SIGNED = "application/vnd.docker.distribution.manifest.v1"

# Registries take 4 MiB. This much describes thousands of layers, and is read into memory.
MAX_MANIFEST_BYTES = 1 << 20
MAX_LAYERS = 1_000  # overlay file systems end at 128
MAX_CHILDREN = 500
MAX_BLOB_BYTES = 1 << 40

_FOREIGN = (
    "application/vnd.docker.image.rootfs.foreign.",
    "application/vnd.oci.image.layer.nondistributable.",
)


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Platform:
    """What an image runs on; an empty ``variant`` is the usual one of its architecture."""

    os: str
    architecture: str
    variant: str

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """Content by its digest and size. ``platform`` is None where none is said."""

    media_type: str
    digest: str
    size_bytes: int
    platform: Platform | None
    urls: tuple[str, ...]

    @property
    def is_foreign(self) -> bool:
        """Whether it is fetched from elsewhere, by its URLs, and not kept in registries."""
        return self.media_type.startswith(_FOREIGN) and bool(self.urls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One image for one platform: its configuration and its layers, in their order."""

    config: Descriptor
    layers: tuple[Descriptor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """Images of one name for several platforms; a child may be an index, too."""

    children: tuple[Descriptor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A manifest as it lies in a registry: its very bytes, and what they say."""

    digest: str
    media_type: str
    body: bytes
    content: Image | Index


def digest_of(body: bytes) -> str:
    """Return the name that content has everywhere."""
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def read(name: str, body: bytes, content_type: str) -> Manifest:
    """Read a manifest that came with this Content-Type. Raises ImageRefused."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ImageRefused(name, "its manifest is no JSON") from error
    if not isinstance(found, dict):
        raise ImageRefused(name, "its manifest is no JSON object")
    media_type = _media_type(name, found, content_type)
    content = _index(name, found) if media_type in INDEXES else _image(name, found)
    return Manifest(digest=digest_of(body), media_type=media_type, body=body, content=content)


def read_platform(name: str, config: bytes) -> Platform:
    """Read what an image runs on out of its configuration. Raises ImageRefused."""
    try:
        found = json.loads(config)
    except (ValueError, RecursionError) as error:
        raise ImageRefused(name, "its configuration is no JSON") from error
    platform = _platform(name, found)
    if platform is None:
        raise ImageRefused(name, "its configuration says no platform")
    return platform


def require_digest(name: str, body: bytes, digest: str) -> None:
    """Raise Corrupt unless these bytes are those of the digest."""
    if digest_of(body) != digest:
        raise Corrupt(name, f"its digest is {digest_of(body)}, not {digest}")


def _media_type(name: str, found: Mapping[str, Any], content_type: str) -> str:
    """Say which of the kinds it is, by all that speaks for one; they must agree."""
    sent = content_type.partition(";")[0].strip().lower()
    said = found.get("mediaType")
    if sent.startswith(_SIGNED) or found.get("schemaVersion") == 1:
        raise ImageRefused(name, "it is of Docker's first schema, which cannot be copied by digest")
    has_children, has_layers = "manifests" in found, "layers" in found or "config" in found
    if has_children and has_layers:
        raise ImageRefused(name, "its manifest is an index and an image at once")
    kinds = INDEXES | IMAGES
    known = [each for each in (said, sent) if isinstance(each, str) and each in kinds]
    if said is not None and said not in known:
        raise ImageRefused(name, f"its media type {_shown(said)} is not known here")
    if len(set(known)) > 1:
        raise ImageRefused(name, "its media type is not the one that it was sent as")
    media_type = known[0] if known else OCI_INDEX if has_children else OCI_MANIFEST
    if (media_type in INDEXES) is not has_children:
        raise ImageRefused(name, "its manifest is not of the kind that it says")
    return media_type


def _index(name: str, found: Mapping[str, Any]) -> Index:
    return Index(children=_descriptors(name, found["manifests"], MAX_CHILDREN))


def _image(name: str, found: Mapping[str, Any]) -> Image:
    config = _descriptor(name, found.get("config"))
    return Image(config=config, layers=_descriptors(name, found.get("layers"), MAX_LAYERS))


def _descriptors(name: str, found: object, limit: int) -> tuple[Descriptor, ...]:
    if not isinstance(found, list):
        raise ImageRefused(name, "its manifest lacks the list of what it is made of")
    if len(found) > limit:
        raise ImageRefused(name, f"it is made of {len(found)} parts, more than {limit}")
    return tuple(_descriptor(name, each) for each in found)


def _descriptor(name: str, found: object) -> Descriptor:
    if not isinstance(found, dict):
        raise ImageRefused(name, "its manifest lacks a descriptor")
    digest, size_bytes, media_type = found.get("digest"), found.get("size"), found.get("mediaType")
    if not isinstance(digest, str) or not is_digest(digest):
        raise ImageRefused(name, f"{_shown(digest)} is no sha256 digest")
    if type(size_bytes) is not int or not 0 <= size_bytes <= MAX_BLOB_BYTES:
        raise ImageRefused(name, f"{_shown(size_bytes)} is no size")
    if not isinstance(media_type, str):
        raise ImageRefused(name, "a descriptor without a media type")
    urls = found.get("urls") or []
    if not isinstance(urls, list) or not all(isinstance(url, str) for url in urls):
        raise ImageRefused(name, "URLs that are none")
    return Descriptor(
        media_type=media_type,
        digest=digest,
        size_bytes=size_bytes,
        platform=_platform(name, found.get("platform")),
        urls=tuple(urls),
    )


def _platform(name: str, found: object) -> Platform | None:
    if found is None:
        return None
    if not isinstance(found, dict):
        raise ImageRefused(name, "a platform that is none")
    parts = [found.get(key) or "" for key in ("os", "architecture", "variant")]
    if not all(isinstance(part, str) and len(part) <= 64 for part in parts):
        raise ImageRefused(name, "a platform that is none")
    os, architecture, variant = parts
    if not os and not architecture:
        return None
    return Platform(os=os, architecture=architecture, variant=variant)


def _shown(found: object) -> str:
    """What may be said of somebody's text: short, and without what a terminal obeys."""
    return ascii(found)[:80]
