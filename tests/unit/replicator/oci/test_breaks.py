"""Lines that break and registries that fall silent: what is taken up, and what is given up."""

import asyncio
from dataclasses import replace

import pytest
from aiohttp import web

from replicator.errors import (
    RegistryRefused,
    RegistryUnreachable,
)
from replicator.oci.download import MAX_BREAKS, WORTH_BYTES
from replicator.oci.registry import UploadMode
from replicator.oci.wire import Bounds
from tests.fakes.registry import digest_of, refused
from tests.unit.replicator.oci.lies import (
    DIGEST,
    LARGE,
    LAYER,
    cut,
    lying,
    nothing_came,
    stream,
)
from tests.unit.replicator.oci.registries import PATIENT, THERE, add_image, town


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
