"""How long a gang that its cluster put out is told to be one that was."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from regions.kueue.explanation import explain
from regions.kueue.put_out import PutOut, starters
from regions.kueue.vocabulary import Word
from regions.launcher.store import DirectoryStore
from regions.store_eye import StoreEye
from tests.unit.regions.kueue.tellings import (
    admitted,
    make_evidence,
    make_job_set,
    make_pod,
    said,
    stuck,
    waiting,
)
from tests.unit.regions.kueue.test_members import member
from tests.unit.regions.kueue.test_recalling import GRANT, write
from tests.unit.regions.kueue.test_views import EVICTED, Story, gang, up

ANEW = frozenset({"another"})


class Told:
    """What is said of one gang, one look after the other."""

    def __init__(self) -> None:
        self.put_out = PutOut()

    def say(self, workload: Any, started_by: frozenset[str] | None = None, **changes: Any) -> str:
        changes.setdefault("job_set", make_job_set(is_suspended=False))
        evidence = make_evidence(workload=workload, **changes)
        now = explain(evidence)
        return (self.put_out.judge(evidence, now, (), started_by) or now).word


@pytest.mark.parametrize(
    ("workload", "suspended", "pods", "expected"),
    [
        pytest.param(admitted(), False, (), Word.PODS_STARTING, id="let in again"),
        pytest.param(
            admitted(), False, (make_pod(0), make_pod(1)), Word.STANDING, id="it stands again"
        ),
        pytest.param(
            admitted(), False, (stuck("ErrImagePull"),), Word.IMAGE_PULL_FAILING, id="it cannot"
        ),
        pytest.param(waiting("Pending"), True, (), Word.PREEMPTED_BY_PRIORITY, id="in line again"),
        pytest.param(admitted(EVICTED), False, (), Word.PREEMPTED_BY_PRIORITY, id="going"),
    ],
)
def test_a_gang_that_never_started_is_told_as_what_it_does_once_it_is_let_in_again(
    workload: Any, suspended: bool, pods: Any, expected: Word
) -> None:
    told = Told()
    told.say(admitted(EVICTED))
    job_set = make_job_set(is_suspended=suspended)
    assert told.say(workload, job_set=job_set, pods=pods) == expected
    assert make_job_set().meta.uid in told.put_out


def test_the_end_of_a_gang_that_was_put_out_is_that_it_was() -> None:
    told = Told()
    told.say(admitted(EVICTED))
    failed = make_job_set(is_suspended=False, terminal_state="Failed")
    assert told.say(admitted(), job_set=failed) == Word.PREEMPTED_BY_PRIORITY


def test_a_gang_that_had_started_stays_put_out_however_often_it_is_let_in() -> None:
    story = Story()
    story.see(gang(is_suspended=False), workload=admitted(), pods=up(0, 1))
    story.see(gang(), workload=admitted(EVICTED), pods=up(0, 1))
    evidence = make_evidence(workload=admitted(), job_set=gang(is_suspended=False))
    put_out, now = story.placements._put_out, explain(evidence)
    for started_by in (frozenset({"uid-0", "uid-1"}), frozenset[str]()):
        kept = put_out.judge(evidence, now, (), started_by)
        assert kept is not None
        assert kept.word == Word.PREEMPTED_BY_PRIORITY


def test_a_gang_that_started_after_it_was_put_out_has_that_behind_it() -> None:
    told = Told()
    told.say(admitted(EVICTED))
    crashed = {"pods": (member(replace(make_pod(0), phase="Failed", reason="OutOfcpu")),)}
    assert told.say(admitted(), ANEW) == Word.PODS_STARTING
    assert told.say(admitted(), ANEW, **crashed) == Word.NODE_REFUSED_IT
    assert make_job_set().meta.uid not in told.put_out
    assert told.say(admitted(said("Evicted", "PodsReadyTimeout")), ANEW) == Word.NOT_READY_IN_TIME


def test_by_whom_a_placement_started_its_store_tells(tmp_path: Path) -> None:
    store = DirectoryStore.create(str(tmp_path / "store"))
    write(store, "west")
    look = StoreEye(store).look([GRANT.epoch.run_key], frozenset(), 1.0)
    assert starters(look) == {GRANT.placement: frozenset({"member-0", "member-1"})}
    assert starters(replace(look, runs={})) == {GRANT.placement: frozenset()}
