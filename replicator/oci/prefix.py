"""Where a registry's own names begin: a host, or a host and the first parts of a path. Pure.

``europe-west4-docker.pkg.dev/acme/train`` holds all that ends up under it. A name moves from one
prefix to another by what follows it, and keeps its digest. Read ``Prefix.rest_of`` first.
"""

from dataclasses import dataclass

from replicator.errors import NameRefused
from replicator.oci.reference import RepositoryName, repository_name

_UNDER = "/a/b"  # of two parts: Docker Hub has a place of its own for names of one


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Prefix:
    """``path`` is empty where a whole registry is meant."""

    registry: str
    path: str

    def __str__(self) -> str:
        return f"{self.registry}/{self.path}" if self.path else self.registry

    def rest_of(self, name: RepositoryName) -> str | None:
        """Return what follows the prefix in a repository's name, None when it is not under it."""
        if name.registry != self.registry:
            return None
        if not self.path:
            return name.path
        head = f"{self.path}/"
        return name.path.removeprefix(head) if name.path.startswith(head) else None

    def repository(self, rest: str) -> str:
        """Return the path of a repository under it, as its registry is asked for it."""
        return f"{self.path}/{rest}" if self.path else rest


def parse_prefix(text: str) -> Prefix:
    """Read a prefix. Raises NameRefused, when no image could be under it by this very name."""
    try:
        found = repository_name(f"{text}{_UNDER}")
    except NameRefused:
        why = "it is no host of a registry, with or without a path"
        raise NameRefused(repr(text[:200]), why) from None
    prefix = Prefix(registry=found.registry, path=f"/{found.path}".removesuffix(_UNDER)[1:])
    if str(prefix) != text:
        raise NameRefused(repr(text[:200]), f"its full name is {prefix}")
    return prefix
