"""An upload in chunks, taken up where it broke.

The registry hands out a new address with every answer, and says what it has; that is believed
rather than what was sent, and its digest of the whole is the proof. Read ``Session.send`` first.
"""

from collections.abc import Mapping
from dataclasses import replace

import aiohttp
from yarl import URL

from replicator.errors import RegistryUnreachable
from replicator.oci import headers, locations
from replicator.oci.manifest import Descriptor
from replicator.oci.registry import Call, Registry

MAX_BREAKS = 3


class Session:
    """An upload in chunks: where it goes on, and how much of it the registry has."""

    def __init__(
        self, registry: Registry, repository: str, blob: Descriptor, location: URL
    ) -> None:
        self._registry = registry
        self._repository = repository
        self._blob = blob
        self._location = location
        self.sent_bytes = 0

    async def send(self, piece: bytes) -> None:
        """Send a piece, what is missing of it again when the line breaks. Raises RegistryError."""
        begun, breaks = self.sent_bytes, 0
        while (rest := piece[self.sent_bytes - begun :]) != b"":
            try:
                has_bytes = await self._patch(rest)
            except RegistryUnreachable:
                breaks += 1
                if breaks > MAX_BREAKS:
                    raise
                has_bytes = await self._ask()
            if not begun <= has_bytes <= begun + len(piece):
                name = self._registry.name_of(self._repository, self._blob.digest)
                raise RegistryUnreachable(name, "the registry lost a part of what it was sent")
            self.sent_bytes = has_bytes

    async def publish(self) -> None:
        """Say that it was all, and what it was. Raises Corrupt when other bytes arrived."""
        url = locations.with_query(self._location, "digest", self._blob.digest)
        call = self._call("PUT", url, about_body(0), b"")
        async with self._registry.asking(call) as answer:
            await self._registry.require(call, answer, 201, 202, 204)

    async def _patch(self, rest: bytes) -> int:
        """Send bytes that follow; return how many the registry has then, by what it says."""
        first, end = self.sent_bytes, self.sent_bytes + len(rest)
        about = about_body(len(rest)) | {"Content-Range": f"{first}-{end - 1}"}
        call = self._call("PATCH", self._location, about, rest)
        async with self._registry.asking(call) as answer:
            await self._registry.require(call, answer, 202, 204)
            has_bytes = self._heard(call, answer)
        return end if has_bytes is None else has_bytes

    async def _ask(self) -> int:
        """Ask how much of it the registry has, and where it goes on."""
        call = self._call("GET", self._location, {}, None)
        async with self._registry.asking(call) as answer:
            await self._registry.require(call, answer, 200, 204)
            has_bytes = self._heard(call, answer)
        if has_bytes is None:
            raise RegistryUnreachable(call.name, "the registry does not say what it has of it")
        return has_bytes

    def _heard(self, call: Call, answer: aiohttp.ClientResponse) -> int | None:
        location = answer.headers.get("Location")
        if location is not None:
            self._location = locations.upload(call.name, self._location, location)
        return headers.received_bytes(answer.headers.get("Range"))

    def _call(self, method: str, url: URL, about: Mapping[str, str], body: bytes | None) -> Call:
        call = self._registry.call(
            method,
            self._repository,
            self._blob.digest,
            url=url,
            headers=about,
            body=None if body is None else lambda: body,
        )
        # To ask how an upload stands takes the right to push, whatever the method.
        scopes = (f"repository:{self._repository}:pull,push",)
        return replace(call, scopes=scopes, within_s=self._bound_s(body))

    def _bound_s(self, body: bytes | None) -> float:
        return self._registry.bounds.transfer_s(0 if body is None else len(body))


def about_body(size_bytes: int) -> dict[str, str]:
    """Return the headers of a body of so many bytes."""
    return {"Content-Type": "application/octet-stream", "Content-Length": str(size_bytes)}
