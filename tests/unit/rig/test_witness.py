"""The judge over what gangs testify: it hears each fault that it is there for, and no other."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster import testimony
from tests.cluster.witness import Testimony, broken, read

RUN = "teams/a/runs/r"


def said(rank: int, **changes: object) -> Testimony:
    """One rank of an epoch that trained for ten seconds and came to its end."""
    usual = Testimony(
        run=RUN,
        epoch="e000001-aa",
        region="west",
        rank=rank,
        process=str(rank),
        began_s=10.0 + rank,
        last_s=20.0,
        end="end",
    )
    return replace(usual, **changes)  # type: ignore[arg-type]


def other(rank: int, **changes: object) -> Testimony:
    """The same of an epoch in another region."""
    return said(rank, **{"epoch": "e000002-bb", "region": "east", **changes})


ONCE = (said(0), said(1))
GIVEN_UP = (said(0, end="stopped", last_s=15.0), said(1, end="", last_s=14.0))


def test_one_whole_gang_is_what_is_wanted() -> None:
    assert broken(ONCE, {RUN: 2}) == []


def test_a_gang_that_was_stopped_may_be_followed_by_another() -> None:
    followed = (*GIVEN_UP, other(0, began_s=15.5), other(1, began_s=15.6))
    assert broken(followed, {RUN: 2}) == []


@pytest.mark.parametrize(
    ("found", "word"),
    [
        ((*GIVEN_UP, other(0, began_s=14.5), other(1)), "e000002-bb began while e000001-aa train"),
        ((*ONCE, other(0, began_s=30.0, last_s=40.0), other(1, began_s=31.0)), "came to its end"),
        ((*ONCE, said(1, process="again")), "has ranks [0, 1, 1]"),
        ((said(0), said(1, region="east")), "is in east and west"),
        ((said(0), said(1, end="")), "with ranks [0] alone"),
        (GIVEN_UP, "in no epoch"),
        ((), "in no epoch"),
        ((*ONCE, other(0, run="teams/a/runs/x")), "which nobody asked for"),
    ],
)
def test_what_is_wrong_is_heard(found: tuple[Testimony, ...], word: str) -> None:
    assert any(word in each for each in broken(found, {RUN: 2}))


def test_two_epochs_that_were_planted_in_a_folder_are_heard(tmp_path: Path) -> None:
    """By the program itself, so that the judge is known to read what it writes."""
    gangs = [
        subprocess.Popen(
            [sys.executable, testimony.__file__, str(tmp_path), "0.3"],
            env={
                "BROKER_CHECKPOINT_URI": f"file:///store/runs/r/{epoch}/checkpoints",
                "BROKER_RUN": RUN,
                "BROKER_REGION": region,
                "RANK": rank,
            },
        )
        for epoch, region in (("e000001-aa", "west"), ("e000002-bb", "east"))
        for rank in ("0", "1")
    ]
    assert [each.wait(30) for each in gangs] == [0, 0, 0, 0]
    found = read(tmp_path)
    assert {(each.epoch, each.region, each.rank, each.end) for each in found} == {
        (epoch, region, rank, "end")
        for epoch, region in (("e000001-aa", "west"), ("e000002-bb", "east"))
        for rank in (0, 1)
    }
    [meeting, twice] = broken(found, {RUN: 2})
    assert "trained" in meeting
    assert "e000001-aa" in twice
    assert "e000002-bb" in twice
    assert broken([each for each in found if each.region == "west"], {RUN: 2}) == []


def test_what_death_cut_off_is_left_out(tmp_path: Path) -> None:
    line = '{"run": "r", "epoch": "e1", "region": "west", "rank": 0, "what": "start", "at_s": 1.0}'
    (tmp_path / "cut.json").write_text(f'{line}\n{{"run": "r", "ep')
    (tmp_path / "empty.json").touch()
    [found] = read(tmp_path)
    assert (found.began_s, found.last_s, found.end) == (1.0, 1.0, "")
