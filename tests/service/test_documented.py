"""The alarm of ``documented`` rings, and what it reads is what the protos say."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from broker.v1 import run_service_pb2
from tests.service import documented
from tests.service.rig import DIGITS, Rig, serving


def test_every_rpc_is_found_and_says_how_it_ends() -> None:
    found = documented.documented()
    assert len(found) > 30
    assert found["/broker.v1.RunService/GetRun"] == {
        "INVALID_ARGUMENT", "NOT_FOUND",
        "UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "INTERNAL",
        "UNAUTHENTICATED", "PERMISSION_DENIED",
    }  # fmt: skip
    codes = {code.name for code in grpc.StatusCode}
    assert {code for said in found.values() for code in said} - codes == set()


async def met(rig: Rig) -> None:
    with pytest.raises(grpc.RpcError):
        await rig.runs.GetRun(run_service_pb2.GetRunRequest(name=DIGITS))
    with pytest.raises(grpc.RpcError):
        async for _ in rig.runs.WatchRun(run_service_pb2.WatchRunRequest(name=DIGITS)):
            pass


async def test_a_code_that_no_comment_names_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as rig:
        await met(rig)
    bare = {path: frozenset({"INTERNAL"}) for path in documented.documented()}
    monkeypatch.setattr(documented, "documented", lambda: bare)
    with pytest.raises(AssertionError, match=r"GetRun', 'NOT_FOUND'.*WatchRun', 'NOT_FOUND'"):
        async with serving(_made(tmp_path / "again")) as rig:
            await met(rig)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
