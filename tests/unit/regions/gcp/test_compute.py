"""Quota and advice over REST: a real HTTP server, and what it may say wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from regions.gcp.compute import ComputeApi
from regions.gcp.errors import AccessError, BrokenError, BusyError, GoogleError, RefusedError
from regions.gcp.quota import Quota

REGION = "us-central1"
LIMITS = "/projects/p/locations/global/services/compute.googleapis.com/quotaInfos"
PROJECT, IN_REGION = "/projects/p", f"/projects/p/regions/{REGION}"
ADVICE = f"{IN_REGION}/advice/capacity"


class Rest:
    """Answers by path, and by page token for the limits: an object, or bytes and a status."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {
            PROJECT: {"quotas": [{"metric": "GPUS_ALL_REGIONS", "limit": 100, "usage": 0}]},
            IN_REGION: {
                "name": REGION,
                "quotas": [{"metric": "PREEMPTIBLE_NVIDIA_L4_GPUS", "limit": 8, "usage": 2}],
            },
            LIMITS: {},
        }
        self.heard: list[tuple[str, str, str | None]] = []
        self.bodies: list[Any] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.heard.append((request.method, request.path, request.headers.get("Authorization")))
        if request.method == "POST":
            self.bodies.append(await request.json())
        token = request.query.get("pageToken", "")
        found = self.answers.get(f"{request.path}#{token}", self.answers.get(request.path))
        if isinstance(found, tuple):
            return web.Response(status=found[0], body=found[1], headers=found[2])
        return web.json_response(found)


@asynccontextmanager
async def served(rest: Rest) -> AsyncIterator[ComputeApi]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", rest.answer)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        base = str(server.make_url("")).rstrip("/")
        yield ComputeApi(session, token, "p", compute=base, cloud_quotas=base)


async def token() -> str:
    return "a-token"


async def test_quota_is_put_together_from_three_questions() -> None:
    rest = Rest()
    row = {"details": {"value": "64"}, "applicableLocations": [REGION]}
    name = "PREEMPTIBLE-NVIDIA-H100-GPUS-per-project-region"
    rest.answers[f"{LIMITS}#"] = {"nextPageToken": "two"}
    rest.answers[f"{LIMITS}#two"] = {"quotaInfos": [{"quotaId": name, "dimensionsInfos": [row]}]}
    async with served(rest) as api:
        found = await api.quotas((REGION,))
    assert found.find(REGION, "L4", "FLEX") == Quota(limit=8, used=2, source="Compute Engine")
    assert found.find(REGION, "H100", "SPOT") == Quota(limit=64, used=None, source="Cloud Quotas")
    assert [each[:2] for each in rest.heard] == [
        *(("GET", PROJECT), ("GET", IN_REGION)),
        *(("GET", LIMITS), ("GET", LIMITS)),
    ]
    assert {each[2] for each in rest.heard} == {"Bearer a-token"}


async def test_advice_asks_for_no_machine() -> None:
    rest = Rest()
    shard = {"zone": "z", "machineType": "m", "provisioningModel": "SPOT", "instanceCount": 4}
    rest.answers[ADVICE] = {
        "recommendations": [{"scores": {"obtainability": 0.5}, "shards": [shard]}]
    }
    async with served(rest) as api:
        (found,) = await api.advice(REGION, "a3-highgpu-8g", 4, "SPOT")
    assert (found.obtainability, found.count) == (0.5, 4)
    assert [each[:2] for each in rest.heard] == [("POST", ADVICE)]
    assert rest.bodies[0]["size"] == 4


def failing(status: int, body: bytes = b"", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    return status, body, headers


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (failing(403, b'{"error": {"message": "no right"}}'), AccessError, r"no right \(403\)"),
        (failing(401, b"<html>"), AccessError, r"refused \(401\)"),
        (failing(404, b'{"error": "odd"}'), RefusedError, r"refused \(404\)"),
        (failing(429), BusyError, "429"),
        (failing(503, b"["), BusyError, "503"),
        (failing(302, b"", Location="http://127.0.0.1:9/"), RefusedError, "302"),
        (failing(200, b"not json"), BrokenError, "no JSON"),
        (failing(200, b"[" * 100_000), BrokenError, "no JSON"),
        (failing(200, b"[1]"), BrokenError, "no JSON object"),
        (failing(200, b" " * ((16 << 20) + 1)), BrokenError, "longer than 16 MiB"),
    ],
)
async def test_an_answer_that_is_none_is_told_by_its_kind(
    answer: tuple[int, bytes, dict[str, str]], error: type[GoogleError], words: str
) -> None:
    rest = Rest()
    rest.answers[PROJECT] = answer
    async with served(rest) as api:
        with pytest.raises(error, match=words):
            await api.quotas((REGION,))
    assert len(rest.heard) == 1


async def test_pages_that_go_in_a_circle_are_no_answer() -> None:
    rest = Rest()
    rest.answers[LIMITS] = {"nextPageToken": "again"}
    async with served(rest) as api:
        with pytest.raises(BrokenError, match="circle"):
            await api.quotas(())


async def test_who_may_not_be_asked_is_said_and_what_others_tell_is_kept() -> None:
    rest = Rest()
    rest.answers[LIMITS] = failing(403, b'{"error": {"message": "not enabled"}}')
    rest.answers["/projects/p/regions/us-nowhere1"] = failing(404)
    async with served(rest) as api:
        found = await api.quotas((REGION, "us-nowhere1"))
    assert found.find(REGION, "L4", "FLEX") == Quota(limit=8, used=2, source="Compute Engine")
    assert found.find(REGION, "H100", "SPOT") == Quota(limit=100, used=0, source="Compute Engine")
    assert found.untold == (
        "us-nowhere1 (refused (404))",
        "Cloud Quotas (not enabled (403))",
    )


async def test_half_of_the_questions_make_no_quota() -> None:
    rest = Rest()
    rest.answers[LIMITS] = failing(503)
    async with served(rest) as api:
        with pytest.raises(BusyError):
            await api.quotas((REGION,))
