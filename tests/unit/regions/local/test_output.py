"""Logs of members: positions that mean the same for ever, within a limit."""

import os
from pathlib import Path

import pytest

from regions.local.output import Chunk, read, trim

BLOCK = 4096


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "rank-0.log"
    with path.open("ab") as out:
        out.writelines(b"%07d\n" % number for number in range(100_000))
    return path


def everything(log: Path) -> bytes:
    found, offset = b"", 0
    while (chunk := read(log, offset, 1 << 20)).data:
        found += chunk.data
        offset = chunk.offset
    return found


def test_a_log_within_its_limit_is_left_alone(log: Path) -> None:
    before = log.read_bytes()
    assert trim(log, BLOCK, 1 << 20)
    assert everything(log) == before


def test_of_a_long_log_head_and_tail_are_kept_and_the_gap_is_said(log: Path) -> None:
    whole = log.read_bytes()
    os.sync()
    assert trim(log, 2 * BLOCK, 4 * BLOCK)
    assert log.stat().st_size == len(whole)
    assert log.stat().st_blocks * 512 <= 8 * BLOCK
    kept = everything(log)
    head, tail = kept.split(b"\n[", 1)[0], kept.rsplit(b"]\n", 1)[1]
    assert len(head) >= 2 * BLOCK
    assert whole.startswith(head)
    assert len(tail) >= 4 * BLOCK
    assert whole.endswith(tail)
    dropped = len(whole) - len(head) - len(tail)
    assert f"[{dropped} bytes were dropped here".encode() in kept


def test_positions_stay_when_the_log_is_trimmed_and_grows_on(log: Path) -> None:
    at = log.stat().st_size - 8
    last = read(log, at, 100)
    os.sync()
    trim(log, BLOCK, BLOCK)
    assert read(log, at, 100) == last
    with log.open("ab") as out:
        out.write(b"more\n")
    assert read(log, last.offset, 100) == Chunk(offset=at + 13, data=b"more\n")


def test_a_chunk_is_bounded_and_nothing_is_read_beyond_the_end(log: Path) -> None:
    assert read(log, 0, 8) == Chunk(offset=8, data=b"0000000\n")
    size = log.stat().st_size
    assert read(log, size, 8) == Chunk(offset=size, data=b"")
    assert read(log, size + 99, 8) == Chunk(offset=size + 99, data=b"")


def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    missing = tmp_path / "none.log"
    assert trim(missing, BLOCK, BLOCK)
    assert read(missing, 5, 8) == Chunk(offset=5, data=b"")


def test_a_negative_position_counts_from_the_end(log: Path) -> None:
    size = log.stat().st_size
    assert read(log, -8, 100) == Chunk(offset=size, data=b"0099999\n")
    assert read(log, -10 * size, 8) == Chunk(offset=8, data=b"0000000\n")
    assert read(log.with_name("rank-1.log"), -8, 100) == Chunk(offset=0, data=b"")
