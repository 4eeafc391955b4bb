"""Names of images, as people write them, and as a registry is asked for them.

``host[:port]/path[:tag][@digest]``. A first part without a dot, a colon or a capital is no host,
so ``ubuntu`` is ``docker.io/library/ubuntu:latest``, as every tool has it. Read ``parse`` first.
"""

import re
from dataclasses import dataclass

from replicator.errors import NameRefused

DOCKER_HUB = "docker.io"
_HUB_NAMES = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})
_MAX_NAME = 255  # characters of registry and path together, as registries have it
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_REGISTRY = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{{1,5}})?")
_SEGMENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_PATH = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class RepositoryName:
    """Where images of one name lie: ``registry`` is a host with its port, in small letters."""

    registry: str
    path: str

    def __str__(self) -> str:
        return f"{self.registry}/{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One image by its tag, its digest, or both; the digest counts then, the tag is a remark."""

    repository: RepositoryName
    tag: str | None
    digest: str | None

    def __str__(self) -> str:
        tag = "" if self.tag is None else f":{self.tag}"
        digest = "" if self.digest is None else f"@{self.digest}"
        return f"{self.repository}{tag}{digest}"

    @property
    def wanted(self) -> str:
        """What a registry is asked for in the repository."""
        wanted = self.digest or self.tag
        assert wanted is not None, "parse gives every reference one of them"
        return wanted


def parse(text: str) -> Reference:
    """Read the name of an image. Raises NameRefused."""
    name, at, digest = text.partition("@")
    if at and not is_digest(digest):
        raise _refused(text, "what follows the @ is no sha256 digest")
    rest, tag = _without_tag(name)
    if tag is not None and not is_tag(tag):
        raise _refused(text, "what follows the last colon is no tag")
    repository = repository_name(rest)
    if tag is None and not at:
        tag = "latest"
    return Reference(repository=repository, tag=tag, digest=digest if at else None)


def repository_name(text: str) -> RepositoryName:
    """Read the name of a repository, which has neither tag nor digest. Raises NameRefused."""
    first, slash, rest = text.partition("/")
    if slash and _is_host(first):
        registry, path = first.lower(), rest
    else:
        registry, path = DOCKER_HUB, text
    if registry in _HUB_NAMES:
        registry = DOCKER_HUB
        path = path if "/" in path else f"library/{path}"
    if not is_registry(registry):
        raise _refused(text, f"{registry[:100]!r} is no host of a registry")
    if not _PATH.fullmatch(path):
        raise _refused(text, "its path is not of small letters, digits and single . _ - between")
    if len(registry) + 1 + len(path) > _MAX_NAME:
        raise _refused(text, f"it has more than {_MAX_NAME} characters")
    return RepositoryName(registry=registry, path=path)


def is_registry(text: str) -> bool:
    """Whether this is a host that can be asked, with or without a port."""
    _, colon, port = text.rpartition(":")
    is_port = colon and port.isdigit()
    return bool(_REGISTRY.fullmatch(text)) and (not is_port or 0 < int(port) < 65536)


def is_digest(text: object) -> bool:
    """Whether this is a digest of the one kind that is used here."""
    return isinstance(text, str) and bool(_DIGEST.fullmatch(text))


def is_tag(text: str) -> bool:
    """Whether this can be a tag."""
    return bool(_TAG.fullmatch(text))


def _is_host(first: str) -> bool:
    return "." in first or ":" in first or first == "localhost" or first != first.lower()


def _without_tag(name: str) -> tuple[str, str | None]:
    """Divide at the last colon, unless it is the one before a port."""
    rest, colon, tag = name.rpartition(":")
    return (rest, tag) if colon and "/" not in tag else (name, None)


def _refused(text: str, why: str) -> NameRefused:
    return NameRefused(repr(text[:200]), f"it names no image: {why}")
