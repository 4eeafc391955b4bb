"""A checkpoint's files as they come in: verified, whole or not at all, and where they belong."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.cli.fetching import receive
from broker.sdk.errors import Damaged, IntentError
from broker.sdk.streams import Part
from broker.v1 import run_service_pb2


def said(path: str, content: bytes) -> run_service_pb2.CheckpointFile:
    digest = hashlib.sha256(content).hexdigest()
    return run_service_pb2.CheckpointFile(path=path, size_bytes=len(content), sha256=digest)


def parts(*files: tuple[str, bytes]) -> Iterator[Part]:
    for path, content in files:
        yield said(path, content)
        yield content[:3]
        yield content[3:]


def test_files_are_written_whole_and_verified(tmp_path: Path) -> None:
    folder = tmp_path / "step-5"
    assert receive(parts(("a/b.bin", b"12345"), (".complete", b"")), folder) == (2, 5)
    assert (folder / "a" / "b.bin").read_bytes() == b"12345"
    assert (folder / ".complete").read_bytes() == b""
    with pytest.raises(IntentError, match="is there already"):
        receive(parts(("a", b"1")), folder)


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "", "a\0b"])
def test_a_name_that_leads_out_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(Damaged, match="no path within a checkpoint"):
        receive(parts((path, b"1")), tmp_path / "in" / "step")
    assert not (tmp_path / "in" / "step").exists()
    assert list((tmp_path / "in").iterdir()) == []


@pytest.mark.parametrize("content", [b"1234", b"123456", b"54321"])
def test_what_does_not_match_its_checksum_is_not_kept(tmp_path: Path, content: bytes) -> None:
    sent: list[Part] = [said("a", b"12345"), content]
    with pytest.raises(Damaged, match="does not match its checksum"):
        receive(iter(sent), tmp_path / "step")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(Damaged, match="no file came"):
        receive(iter([]), tmp_path / "step")
    assert list(tmp_path.iterdir()) == []
