"""What is not seen, or cannot be read, of our gangs is not taken for gone."""

from dataclasses import replace
from typing import Any

import pytest

from regions.cluster import Cause, Stage
from regions.kueue.objects.kinds import Unreadable
from regions.kueue.vocabulary import Word
from tests.unit.regions.kueue.tellings import (
    NOW_S,
    admitted,
    make_node,
    make_pod,
    said,
    waiting,
)
from tests.unit.regions.kueue.test_members import GANG, OURS, known, member
from tests.unit.regions.kueue.test_views import Story, gang, of_gang, up


def test_a_gang_has_not_ended_while_its_processes_cannot_be_seen() -> None:
    story = Story()
    blind: dict[str, Any] = {"pods": known(is_known=False)}
    seen = story.see(gang(terminal_state="Failed"), workload=admitted(), snapshot=blind)["p1"].seen
    assert seen.stage is not Stage.ENDED


@pytest.mark.parametrize(
    "hidden",
    [
        pytest.param({"is_known": False}, id="none can be seen"),
        pytest.param(
            {"unreadable": {f"{OURS}/cb-p1": Unreadable(key="", uid="", reason="odd")}}, id="it is"
        ),
    ],
)
def test_a_gang_that_cannot_be_seen_is_shown_as_it_was(hidden: dict[str, Any]) -> None:
    story = Story()
    before = story.see(gang(is_suspended=False), workload=admitted(), pods=up(0, 1))["p1"].seen
    assert story.see(pods=up(0, 1), **hidden)["p1"].seen == before


def test_a_gang_whose_marks_were_taken_off_is_not_gone() -> None:
    story = Story()
    before = story.see(gang(), workload=waiting("Pending"))["p1"].seen
    bare = replace(gang(), meta=replace(gang().meta, labels={}))
    assert story.see(bare)["p1"].seen == before
    assert story.see()["p1"].seen.stage is Stage.ENDED


def test_a_gang_whose_object_went_has_not_ended_while_its_processes_cannot_be_seen() -> None:
    story = Story()
    story.see(gang(is_suspended=False), workload=admitted())
    blind: dict[str, Any] = {"pods": known(is_known=False)}
    seen = story.see(snapshot=blind)["p1"].seen
    assert (seen.stage, seen.cause) == (Stage.PROVISIONING, Cause.WITHDRAWN)
    assert story.see()["p1"].seen.stage is Stage.ENDED
    assert story.see(snapshot=blind)["p1"].seen.stage is Stage.ENDED
    late = story.see(pods=up(0))["p1"].seen
    assert (late.stage, late.nodes_here) == (Stage.STANDING, 1)


def test_a_gang_that_was_made_anew_has_not_ended_while_a_process_of_the_former_runs() -> None:
    story = Story()
    story.see(gang(is_suspended=False), workload=admitted(), pods=up(0, 1))
    over = gang(terminal_state="Failed")
    over = replace(over, meta=replace(over.meta, uid="anew"))
    seen = story.see(over, pods=up(0, 1))["p1"].seen
    assert (seen.uid, seen.stage is Stage.ENDED, seen.nodes_here) == ("anew", False, 2)
    assert story.see(pods=up(0))["p1"].seen.stage is not Stage.ENDED
    assert story.see()["p1"].seen.stage is Stage.ENDED


def odd(key: str) -> dict[str, Unreadable]:
    """An object that is there and cannot be read."""
    return {f"{OURS}/{key}": Unreadable(key=key, uid="", reason="odd")}


def test_a_gang_has_not_ended_while_a_process_of_it_cannot_be_read() -> None:
    over, story = gang(terminal_state="Failed"), Story()
    hidden: dict[str, Any] = {"pods": known(unreadable=odd("cb-p1-g-0-1-abcde"))}
    assert story.see(over, workload=admitted(), snapshot=hidden)["p1"].seen.stage is not Stage.ENDED
    others: dict[str, Any] = {"pods": known(unreadable=odd("cb-p10-g-0-1-abcde"))}
    assert story.see(over, workload=admitted(), snapshot=others)["p1"].seen.stage is Stage.ENDED


def test_a_workload_that_cannot_be_read_is_not_taken_for_none() -> None:
    hidden: dict[str, Any] = {"workloads": known(unreadable=odd("jobset-cb-p1-1a2b3"))}
    waits = gang(created_s=NOW_S - 400.0)
    assert Story().see(waits, snapshot=hidden)["p1"].said.word == Word.NOT_SEEN
    assert Story().see(waits)["p1"].said.word == Word.NOT_TAKEN_UP


def test_a_queue_that_cannot_be_read_is_not_taken_for_none() -> None:
    hidden: dict[str, Any] = {"local_queues": known(unreadable=odd("ours"))}
    shown = Story().see(gang(), workload=waiting("Pending", "x"), snapshot=hidden)["p1"]
    assert shown.said.word != Word.QUEUE_MISSING


def test_a_machine_that_cannot_be_read_is_not_taken_for_gone() -> None:
    node = {"node-1": Unreadable(key="node-1", uid="", reason="odd")}
    hidden: dict[str, Any] = {"nodes": known(make_node("node-0"), unreadable=node)}
    left = said("DisruptionTarget", "DeletionByTaintManager")
    pods = [*up(0), member(make_pod(1, conditions=(left,)), 1)]
    seen = Story().see(gang(is_suspended=False), workload=admitted(), pods=pods, snapshot=hidden)
    assert seen["p1"].seen.cause is Cause.NODE_LOST


def test_a_workload_is_a_gangs_by_its_owner_before_any_label() -> None:
    mine = of_gang(waiting("Pending", "couldn't assign flavors"))
    mine = replace(mine, meta=replace(mine.meta, labels={}, owner_uid=GANG))
    forged = of_gang(admitted())
    forged = replace(forged, meta=replace(forged.meta, name="forged", uid="forged"))
    line: dict[str, Any] = {"workloads": known(mine, forged)}
    assert Story().see(gang(), snapshot=line)["p1"].seen.stage is Stage.QUEUED
