"""Registries that lie and refuse: what is believed, and what is said."""

import asyncio
from typing import Any

import pytest
from aiohttp import web

from replicator.errors import (
    Corrupt,
    ImageMissing,
    ImageRefused,
    RegistryBusy,
    RegistryRefused,
    RegistryUnreachable,
    ReplicatorError,
    TooLarge,
)
from replicator.oci.copies import Copied, Progress
from replicator.oci.flights import OnDone
from replicator.oci.manifest import Descriptor
from replicator.oci.plan import MAX_DEPTH
from replicator.oci.registry import MAX_REDIRECTS, UploadMode
from tests.fakes.registry import refused
from tests.unit.replicator.oci.images import child, descriptor, image, index
from tests.unit.replicator.oci.lies import (
    DIGEST,
    LARGE,
    LAYER,
    Answer,
    lying,
    nothing_came,
    stream,
)
from tests.unit.replicator.oci.registries import HERE, THERE, add_image, town


async def wrong(request: web.Request) -> web.StreamResponse:
    return web.Response(body=LAYER[:-1] + b"?")


async def short(request: web.Request) -> web.StreamResponse:
    return web.Response(body=LAYER[:-1])


async def short_in_silence(request: web.Request) -> web.StreamResponse:
    return await stream(request, LAYER[:-1])


async def long(request: web.Request) -> web.StreamResponse:
    return web.Response(body=LAYER + b"?")


async def endless(request: web.Request) -> web.StreamResponse:
    response = await stream(request, LAYER)
    while True:
        await response.write(b"?" * 65536)


@pytest.mark.parametrize("mode", UploadMode)
@pytest.mark.parametrize("answer", [wrong, short, short_in_silence, long, endless])
async def test_bytes_that_are_not_the_layers_are_never_published(
    answer: Answer, mode: UploadMode
) -> None:
    async with town(mode=mode) as there:
        digest = add_image(there.here, LAYER)
        lying(there, DIGEST, answer)
        with pytest.raises(Corrupt):
            await there.copy(digest)
        assert nothing_came(there)


@pytest.mark.parametrize(
    ("status", "headers", "kind", "wait_s"),
    [
        (429, {"Retry-After": "7"}, RegistryBusy, 7.0),
        (429, {}, RegistryBusy, None),
        (503, {"Retry-After": "7"}, RegistryBusy, 7.0),
        (403, {}, ReplicatorError, None),
        (404, {}, ImageMissing, None),
        (418, {}, RegistryRefused, None),
    ],
)
@pytest.mark.parametrize("part", ["/manifests/", DIGEST])
async def test_a_source_that_refuses_is_asked_once(
    status: int,
    headers: dict[str, str],
    kind: type[ReplicatorError],
    wait_s: float | None,
    part: str,
) -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        return refused(status, "NO", **headers)

    async with town() as there:
        digest = add_image(there.here, LAYER)
        lying(there, part, refuse)
        with pytest.raises(kind) as raised:
            await there.copy(digest)
        assert getattr(raised.value, "retry_after_s", None) == wait_s
        assert len(there.here.asked("GET", part)) == 1
        assert nothing_came(there)


@pytest.mark.parametrize("mode", UploadMode)
@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "PATCH"])
@pytest.mark.parametrize(("status", "kind"), [(429, RegistryBusy), (500, RegistryUnreachable)])
async def test_a_destination_that_refuses_says_so(
    mode: UploadMode, method: str, status: int, kind: type[ReplicatorError]
) -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        return refused(status, "NO")

    async with town(mode=mode) as there:
        digest = add_image(there.here, LARGE)
        lying(there, "", refuse, method=method)
        if method == "PATCH" and mode is UploadMode.WHOLE:
            await there.copy(digest)
            return
        with pytest.raises(kind):
            await there.copy(digest)
        assert nothing_came(there)


@pytest.mark.parametrize("mode", UploadMode)
@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "http://elsewhere.example/v2/x",
        "http://127.0.0.1:1/v2/x",
        "",
        "http://user:password@127.0.0.1/",
    ],
)
async def test_an_upload_goes_nowhere_else(mode: UploadMode, location: str) -> None:
    async def absurd(request: web.Request) -> web.StreamResponse:
        return web.Response(status=202, headers={"Location": location})

    async with town(mode=mode) as there:
        digest = add_image(there.here, LAYER)
        lying(there, "/uploads/", absurd, method="POST")
        with pytest.raises(RegistryRefused):
            await there.copy(digest)
        assert [each.method for each in there.there.heard if "sha256" not in each.path] == [
            "POST"
        ] * 2


async def test_what_a_registry_keeps_elsewhere_is_fetched_there() -> None:
    async with town() as there:
        digest = add_image(there.here, LAYER)
        there.stranger.blobs["x", DIGEST] = LAYER

        async def away(request: web.Request) -> web.StreamResponse:
            place = there.elsewhere.make_url(f"/v2/x/blobs/{DIGEST}?signature=a%2Fb")
            return web.Response(status=307, headers={"Location": str(place)})

        lying(there, DIGEST, away)
        await there.copy(digest)
        assert there.there.blobs[THERE, DIGEST] == LAYER
        assert len(there.stranger.heard) == 1


async def test_who_is_sent_elsewhere_for_a_blob_knows_that_it_is_there() -> None:
    async with town() as there:
        digest = add_image(there.here, LAYER)
        there.there.put(THERE, LAYER)

        async def away(request: web.Request) -> web.StreamResponse:
            # What it signs is for those who fetch; to ask for the size alone is refused there.
            place = there.elsewhere.make_url(f"/v2/x/blobs/{DIGEST}")
            return web.Response(status=307, headers={"Location": str(place)})

        lying(there, DIGEST, away, method="HEAD")
        copied = await there.copy(digest)
        assert (copied.sent, copied.found, there.stranger.heard) == (1, 1, [])


async def test_redirects_in_a_circle_are_left() -> None:
    async def around(request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": str(request.url)})

    async with town() as there:
        digest = add_image(there.here, LAYER)
        lying(there, DIGEST, around)
        with pytest.raises(RegistryRefused, match="circle"):
            await there.copy(digest)
        assert len(there.here.asked("GET", DIGEST)) == MAX_REDIRECTS + 1


@pytest.mark.parametrize(("status", "error"), [(200, TooLarge), (400, RegistryRefused)])
async def test_an_answer_without_end_is_left(status: int, error: type[Exception]) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = await stream(request, b"{", status)
        while True:
            await response.write(b" " * 65536)

    async with town() as there:
        digest = add_image(there.here, LAYER)
        lying(there, "/manifests/", endless)
        with pytest.raises(error):
            await there.copy(digest)


@pytest.mark.parametrize("said", [{}, {"Docker-Content-Digest": "sha256:" + "0" * 64}])
async def test_a_manifest_that_has_not_its_digest_is_corrupt(said: dict[str, str]) -> None:
    async with town() as there:
        digest = add_image(there.here, LAYER)
        _, body = there.here.manifests[HERE, digest]

        async def other(request: web.Request) -> web.StreamResponse:
            return web.Response(body=body if said else body + b" ", headers=said)

        lying(there, "/manifests/", other)
        with pytest.raises(Corrupt):
            await there.copy(digest)


async def test_a_child_that_is_larger_than_its_index_says_is_left() -> None:
    async with town() as there:
        body = image()
        there.here.put_manifest(HERE, body)
        top = there.here.put_manifest(HERE, index(child(body, size=len(body) - 1)))
        with pytest.raises(TooLarge):
            await there.copy(top)


async def test_indexes_that_are_nested_too_deep_are_refused() -> None:
    async with town() as there:
        body = image()
        for _ in range(MAX_DEPTH):
            there.here.put_manifest(HERE, body)
            body = index(child(body))
        top = there.here.put_manifest(HERE, body)
        with pytest.raises(ImageRefused, match="deep"):
            await there.copy(top)


async def test_a_layer_of_absurd_size_is_refused_before_it_is_asked_for() -> None:
    async with town() as there:
        digest = there.here.put_manifest(HERE, image(descriptor(LAYER, size=1 << 50)))
        with pytest.raises(ImageRefused):
            await there.copy(digest)
        assert there.there.heard == []


async def test_a_destination_that_says_it_has_what_it_has_not_is_found_out() -> None:
    async def created(request: web.Request) -> web.StreamResponse:
        await request.read()
        return web.Response(status=201)

    async with town() as there:
        digest = add_image(there.here, LAYER)
        lying(there, "/uploads/", created, method="PUT")
        with pytest.raises(RegistryRefused, match="does not have it"):
            await there.copy(digest)
        lying(there, "/manifests/", created, method="PUT")
        with pytest.raises(ImageMissing):
            await there.copy(digest)


async def test_what_is_no_http_is_no_answer() -> None:
    async def gibberish(reader: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(gibberish, "127.0.0.1", 0)
    async with server, town() as there:
        there.elsewhere.port = server.sockets[0].getsockname()[1]
        digest = add_image(there.here, LAYER)

        async def away(request: web.Request) -> web.StreamResponse:
            place = f"http://127.0.0.1:{there.elsewhere.port}/"
            return web.Response(status=307, headers={"Location": place})

        lying(there, DIGEST, away)
        with pytest.raises(RegistryRefused, match="no HTTP"):
            await there.copy(digest)


class Joining(Progress):
    """Progress that says when a copy began to wait for the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.has_joined = asyncio.Event()

    def of(self, blob: Descriptor) -> OnDone:
        told = super().of(blob)

        def done(done_bytes: int) -> None:
            told(done_bytes)
            if blob.digest == DIGEST:
                self.has_joined.set()

        return done


async def test_a_source_that_lies_spoils_no_other_copy() -> None:
    async with town() as there:
        digest = add_image(there.here, LAYER)
        assert add_image(there.stranger, LAYER) == digest
        first, second, go = Joining(), Joining(), asyncio.Event()

        async def wrong_and_late(request: web.Request) -> web.StreamResponse:
            await go.wait()
            return await wrong(request)

        lying(there, DIGEST, wrong_and_late)
        false = asyncio.create_task(there.copy(digest, progress=first))
        await first.has_joined.wait()
        there.source = there.other_source
        true = asyncio.create_task(there.copy(digest, progress=second))
        await second.has_joined.wait()
        assert there.stranger.asked("GET", DIGEST) == []
        go.set()
        with pytest.raises(Corrupt):
            await false
        assert (await true).digest == digest
        assert there.there.blobs[THERE, DIGEST] == LAYER


async def test_after_every_lie_the_truth_is_copied() -> None:
    async with town() as there:
        digest = add_image(there.here, LAYER, b"small")
        for answer in (wrong, short, long, endless):
            lying(there, DIGEST, answer)
            with pytest.raises(Corrupt):
                await there.copy(digest)
        there.here.lie = None
        assert await there.copy(digest) == Copied(
            digest=digest, sent=1, sent_bytes=len(LAYER), mounted=0, found=2
        )
