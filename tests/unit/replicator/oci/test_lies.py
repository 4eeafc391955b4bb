"""Registries that lie, break and stall: what is believed, what is tried again, and what is said."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
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
from replicator.oci.copies import Copied
from replicator.oci.download import MAX_BREAKS, WORTH_BYTES
from replicator.oci.plan import MAX_DEPTH
from replicator.oci.registry import MAX_REDIRECTS, UploadMode
from replicator.oci.wire import Bounds
from tests.fakes.registry import digest_of, refused
from tests.unit.replicator.oci.images import child, descriptor, image, index
from tests.unit.replicator.oci.registries import HERE, PATIENT, THERE, Town, add_image, town

LAYER = bytes(range(256)) * (1 << 12) * 5  # 5 MiB
DIGEST = digest_of(LAYER)
LARGE = LAYER * 3

Answer = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


def lying(there: Town, part: str, answer: Answer, *, times: int = 1_000, method: str = "") -> None:
    """Have the source answer so to GETs of paths with this in them; the destination to others."""
    left = times

    async def lie(request: web.Request) -> web.StreamResponse | None:
        nonlocal left
        is_it = part in request.path and request.method == (method or "GET")
        if not is_it or left == 0:
            return None
        left -= 1
        return await answer(request)

    (there.there if method else there.here).lie = lie


async def stream(
    request: web.Request, content: bytes, status: int = 200, **headers: str
) -> web.StreamResponse:
    """Send headers, and then what may not be what they promise."""
    response = web.StreamResponse(
        status=status, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )
    await response.prepare(request)
    await response.write(content)
    return response


async def cut(request: web.Request) -> None:
    """Break the line."""
    assert request.transport is not None
    request.transport.abort()
    await asyncio.Event().wait()


def nothing_came(there: Town) -> bool:
    """Whether the destination has neither the layer nor any manifest."""
    return (THERE, DIGEST) not in there.there.blobs and not there.there.manifests


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


@pytest.mark.parametrize("mode", UploadMode)
async def test_a_line_that_breaks_is_taken_up_where_it_broke(mode: UploadMode) -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        first = request.http_range.start or 0
        part = LARGE[first : first + 2 * WORTH_BYTES]
        said = f"bytes {first}-{len(LARGE) - 1}/{len(LARGE)}"
        response = await stream(
            request,
            part,
            206 if first else 200,
            Content_Length=str(len(LARGE) - first),
            Content_Range=said,
        )
        if first + len(part) < len(LARGE):
            # What was written is to arrive before the line breaks.
            await asyncio.sleep(0.05)
            await cut(request)
        return response

    async with town(mode=mode) as there:
        digest = add_image(there.here, LARGE)
        lying(there, digest_of(LARGE), broken)
        copied = await there.copy(digest)
        assert there.there.blobs[THERE, digest_of(LARGE)] == LARGE
        asked = [each.headers.get("Range") for each in there.here.asked("GET", digest_of(LARGE))]
        assert asked[0] is None
        assert len(asked) > MAX_BREAKS + 1
        begun = [int(each.removeprefix("bytes=").removesuffix("-")) for each in asked[1:] if each]
        assert begun == sorted(set(begun))
        assert copied.sent == 2


async def test_a_registry_that_knows_no_ranges_sends_from_the_beginning() -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        response = await stream(request, LAYER[:WORTH_BYTES], Content_Length=str(len(LAYER)))
        await cut(request)
        return response

    async def whole(request: web.Request) -> web.StreamResponse:
        if "Range" not in request.headers:
            return await broken(request)
        return web.Response(body=LAYER)

    async with town() as there:
        digest = add_image(there.here, LAYER)
        lying(there, DIGEST, whole)
        await there.copy(digest)
        assert there.there.blobs[THERE, DIGEST] == LAYER


async def test_another_part_than_was_asked_for_is_refused() -> None:
    async def other(request: web.Request) -> web.StreamResponse:
        if "Range" not in request.headers:
            response = await stream(request, LAYER[:WORTH_BYTES], Content_Length=str(len(LAYER)))
            await cut(request)
            return response
        headers = {"Content-Range": f"bytes 1-{len(LAYER) - 1}/{len(LAYER)}"}
        return web.Response(status=206, body=LAYER[1:], headers=headers)

    async with town() as there:
        digest = add_image(there.here, LAYER)
        lying(there, DIGEST, other)
        with pytest.raises(RegistryRefused, match="another part"):
            await there.copy(digest)
        assert nothing_came(there)


async def test_a_line_that_always_breaks_is_given_up() -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        # With a beginning: one that breaks before it the client library takes up by itself.
        response = await stream(request, b"", Content_Length=str(len(LAYER)))
        await cut(request)
        return response

    async with town() as there:
        digest = add_image(there.here, LAYER)
        lying(there, DIGEST, broken)
        with pytest.raises(RegistryUnreachable):
            await there.copy(digest)
        assert len(there.here.asked("GET", DIGEST)) == MAX_BREAKS + 1
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


async def test_chunks_are_taken_up_where_the_registry_says() -> None:
    async def half(request: web.Request) -> web.StreamResponse:
        upload = there.there.uploads[request.match_info["upload"]]
        upload += await request.content.readexactly(1_000_000)
        await cut(request)
        raise AssertionError

    async with town(mode=UploadMode.CHUNKS) as there:
        digest = add_image(there.here, LARGE)
        lying(there, "/uploads/", half, times=2, method="PATCH")
        await there.copy(digest)
        assert there.there.blobs[THERE, digest_of(LARGE)] == LARGE
        assert len(there.there.asked("GET", "/uploads/")) == 2
        ranges = [each.headers["Content-Range"] for each in there.there.asked("PATCH", "")]
        assert [each.partition("-")[0] for each in ranges[:3]] == ["0", "1000000", "2000000"]


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


async def test_redirects_in_a_circle_are_left() -> None:
    async def around(request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": str(request.url)})

    async with town() as there:
        digest = add_image(there.here, LAYER)
        lying(there, DIGEST, around)
        with pytest.raises(RegistryRefused, match="circle"):
            await there.copy(digest)
        assert len(there.here.asked("GET", DIGEST)) == MAX_REDIRECTS + 1


async def test_a_manifest_without_end_is_left() -> None:
    async def endless_manifest(request: web.Request) -> web.StreamResponse:
        response = await stream(request, b"{")
        while True:
            await response.write(b" " * 65536)

    async with town() as there:
        digest = add_image(there.here, LAYER)
        lying(there, "/manifests/", endless_manifest)
        with pytest.raises(TooLarge):
            await there.copy(digest)


async def test_an_error_without_end_is_left() -> None:
    async def endless_error(request: web.Request) -> web.StreamResponse:
        response = await stream(request, b"{", 400)
        while True:
            await response.write(b" " * 65536)

    async with town() as there:
        digest = add_image(there.here, LAYER)
        lying(there, "/manifests/", endless_error)
        with pytest.raises(RegistryRefused):
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


QUICK = Bounds(connect_s=1.0, call_s=0.5, silence_s=0.3, commit_s=0.3)


@pytest.mark.parametrize("part", ["/manifests/", DIGEST])
async def test_a_source_that_falls_silent_is_left(part: str) -> None:
    async def silent(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async with town(bounds=QUICK) as there:
        digest = add_image(there.here, LAYER)
        lying(there, part, silent)
        with pytest.raises(RegistryUnreachable, match="silent"):
            await there.copy(digest)


async def test_a_source_that_drips_is_left() -> None:
    async def dripping(request: web.Request) -> web.StreamResponse:
        response = await stream(request, b"", Content_Length=str(len(LAYER)))
        while True:
            await response.write(b"?")
            await asyncio.sleep(0.05)

    bounds = Bounds(
        connect_s=1.0, call_s=0.5, silence_s=0.3, commit_s=0.3, slowest_bytes_per_s=1 << 30
    )
    async with town(bounds=bounds) as there:
        digest = add_image(there.here, LAYER)
        lying(there, DIGEST, dripping)
        with pytest.raises(RegistryUnreachable):
            await there.copy(digest)


@pytest.mark.parametrize(
    ("mode", "method"), [(UploadMode.WHOLE, "PUT"), (UploadMode.CHUNKS, "PATCH")]
)
async def test_a_destination_that_takes_nothing_is_left(mode: UploadMode, method: str) -> None:
    over = asyncio.Event()

    async def deaf(request: web.Request) -> web.StreamResponse:
        await over.wait()
        return web.Response(status=500)

    async with town(bounds=QUICK, mode=mode) as there:
        # More than the lines between two processes hold.
        content = LARGE * 4
        digest = add_image(there.here, content)
        lying(there, "/uploads/", deaf, method=method)
        with pytest.raises(RegistryUnreachable, match="silent"):
            await there.copy(digest)
        assert nothing_came(there)
        over.set()


@pytest.mark.parametrize(
    ("mode", "method"), [(UploadMode.WHOLE, "PUT"), (UploadMode.CHUNKS, "PATCH")]
)
async def test_a_destination_has_time_to_put_together_what_it_took(
    mode: UploadMode, method: str
) -> None:
    async def slow(request: web.Request) -> None:
        there.there.uploads[request.match_info["upload"]] += await request.read()
        await asyncio.sleep(2 * patient.silence_s)

    patient = replace(PATIENT, silence_s=1.0)
    async with town(bounds=patient, mode=mode) as there:
        digest = add_image(there.here, LARGE)
        lying(there, "/uploads/", slow, times=1, method=method)
        await there.copy(digest)
        assert there.there.blobs[THERE, digest_of(LARGE)] == LARGE


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


async def test_a_registry_that_is_away_is_said_to_be() -> None:
    async with town() as there:
        digest = add_image(there.here, LAYER)
        place = f"http://127.0.0.1:{there.elsewhere.port}/"
        await there.elsewhere.close()

        async def away(request: web.Request) -> web.StreamResponse:
            return web.Response(status=307, headers={"Location": place})

        lying(there, "/manifests/", away)
        with pytest.raises(RegistryUnreachable, match="line broke"):
            await there.copy(digest)


async def test_a_source_is_let_go_when_the_destination_fails() -> None:
    released = asyncio.Event()

    async def slow_source(request: web.Request) -> web.StreamResponse:
        response = await stream(request, LAYER[:1_000], Content_Length=str(len(LAYER)))
        try:
            while True:
                await response.write(b"?")
                await asyncio.sleep(0.01)
        finally:
            released.set()

    async def refuse(request: web.Request) -> web.StreamResponse:
        return refused(500, "NO")

    async with town() as there:
        digest = add_image(there.here, LAYER)
        lying(there, DIGEST, slow_source)
        lying(there, "/uploads/", refuse, method="PUT")
        with pytest.raises(RegistryUnreachable, match="out of order"):
            await there.copy(digest)
        await asyncio.wait_for(released.wait(), 60)


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
