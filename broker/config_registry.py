"""A registry of images, as a configuration names it.

The rule: each is one prefix under which images lie; a region pulls from one of them at most. Read
``Registry`` first.
"""

from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from replicator.errors import NameRefused
from replicator.oci.prefix import Prefix, parse_prefix

Host = Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\Z")]
# About what a node of a GPU cluster fetches and unpacks at once of layers that were compressed.
PULL_BYTES_PER_S = 100_000_000


class Registry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where images lie. ``region`` empty: no region pulls from it, but images may come from it."""

    prefix: Annotated[str, Meta(min_length=1, max_length=255)]
    region: Annotated[str, Meta(pattern=r"^([a-z]([a-z0-9-]{0,38}[a-z0-9])?)?\Z")] = ""
    login: Literal["none", "file", "google"] = "none"
    login_file: str = ""
    token_hosts: tuple[Host, ...] = ()
    upload: Literal["whole", "chunks"] = "whole"
    plain_http: bool = False
    pull_bytes_per_s: Annotated[int, Meta(ge=1_000, le=1 << 40)] = PULL_BYTES_PER_S

    @property
    def place(self) -> Prefix:
        """The prefix, read."""
        return parse_prefix(self.prefix)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Say what cannot be, as (field, sentence)."""
        try:
            host = self.place.registry.rpartition(":")[0] or self.place.registry
        except NameRefused as error:
            yield "prefix", str(error)
            return
        if self.login == "file" and not Path(self.login_file).is_absolute():
            yield "login_file", "is not an absolute path, which login = 'file' needs"
        if self.login != "file" and self.login_file:
            yield "login_file", "is read with login = 'file' alone"
        if self.plain_http and not _is_loopback(host):
            yield "plain_http", f"is for loopback alone, and {host} is another machine"
        if self.plain_http and self.login == "google":
            yield "plain_http", "would show Google's access token to whoever listens"


def problems(registries: Iterable[Registry]) -> Iterator[tuple[str, str]]:
    """Say what cannot be of all of them together, as (field, sentence)."""
    prefixes: set[str] = set()
    regions: set[str] = set()
    for at, one in enumerate(registries):
        for field, why in one.problems():
            yield f"[{at}].{field}", why
        if one.prefix in prefixes:
            yield f"[{at}].prefix", f"{one.prefix} is named twice"
        if one.region and one.region in regions:
            yield f"[{at}].region", f"{one.region} has a registry already: it pulls from one"
        prefixes.add(one.prefix)
        regions.add(one.region)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
