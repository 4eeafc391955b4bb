"""How long a gang that its cluster put out is told to be one that was."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from regions.kueue.explanation import explain
from regions.kueue.members import Member
from regions.kueue.put_out import PutOut, is_read, starters
from regions.kueue.vocabulary import Word
from regions.launcher.store import DirectoryStore
from regions.store_eye import StoreEye
from tests.unit.regions.kueue.tellings import (
    NOW_S,
    admitted,
    make_evidence,
    make_job_set,
    make_meta,
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
    ("workload", "suspended", "pods"),
    [
        pytest.param(admitted(), False, (), id="let in again"),
        pytest.param(admitted(), False, (make_pod(0), make_pod(1)), id="it stands again"),
        pytest.param(admitted(), False, (stuck("ErrImagePull"),), id="it cannot"),
        pytest.param(waiting("Pending"), True, (), id="in line again"),
        pytest.param(admitted(EVICTED), False, (), id="going"),
    ],
)
def test_a_gang_that_never_started_stays_put_out_whatever_it_does_then(
    workload: Any, suspended: bool, pods: Any
) -> None:
    told = Told()
    told.say(admitted(EVICTED))
    job_set = make_job_set(is_suspended=suspended)
    assert told.say(workload, job_set=job_set, pods=pods) == Word.PREEMPTED_BY_PRIORITY
    assert make_job_set().meta.uid in told.put_out


def back(*reasons: str, message: str = "Preempted to accommodate a workload") -> Any:
    """A workload that was put out and let in again since, three seconds ago."""
    previously = f"Previously: {message}"
    former = said("Evicted", "QuotaReserved", previously, status=False, age_s=3.0)
    return admitted(former, evictions=reasons or ("Preempted",))


RECLAIMED = "Preempted to accommodate a workload due to reclamation within the cohort"


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        pytest.param(back(), Word.PREEMPTED_BY_PRIORITY, id="its only reason"),
        pytest.param(back(message=RECLAIMED), Word.QUOTA_RECLAIMED, id="quota of others"),
        pytest.param(back("PodsReadyTimeout"), Word.NOT_READY_IN_TIME, id="by the time it takes"),
        pytest.param(
            back("Preempted", "PodsReadyTimeout"), Word.EVICTED, id="which reason was last?"
        ),
        pytest.param(back("Whatever"), Word.EVICTED, id="a reason that nobody knows"),
    ],
)
def test_an_eviction_that_nobody_saw_is_told_by_the_workload(workload: Any, expected: Word) -> None:
    assert Told().say(workload) == expected


def is_to_go(
    workload: Any,
    started_by: frozenset[str] | None,
    *,
    alive: bool = False,
    is_read: bool = True,
    **changes: Any,
) -> bool:
    """Whether a gang goes: a process from before its eviction, and one that came after."""
    put_out = PutOut()
    former = Member(
        uid="former",
        key="",
        gang="",
        rank=0,
        node="node-0",
        node_uid="",
        created_s=NOW_S - 60.0,
        bound_s=None,
        left_s=None if alive else NOW_S - 4.0,
    )
    newer = replace(former, uid="another", created_s=NOW_S - 2.0, left_s=None)
    members = (former, newer)
    job_set = make_job_set(**{"is_suspended": False, **changes})
    evidence = make_evidence(workload=workload, job_set=job_set)
    put_out.judge(evidence, explain(evidence), members, started_by)
    return put_out.is_to_go(evidence, members, started_by, is_read=is_read)


FORMER = frozenset({"former"})


def test_a_gang_that_was_let_in_again_before_anybody_looked_is_removed() -> None:
    assert is_to_go(back(), None)
    assert is_to_go(back(), None, alive=True)
    assert is_to_go(back(), FORMER)
    assert not is_to_go(admitted(), None)


@pytest.mark.parametrize(
    ("workload", "started_by", "more"),
    [
        pytest.param(back(), ANEW, {}, id="it started with new processes"),
        pytest.param(back(), FORMER, {"alive": True}, id="what had started may still save"),
        pytest.param(admitted(EVICTED), None, {}, id="it is being put out"),
        pytest.param(back(), None, {"is_read": False}, id="its store does not tell"),
        pytest.param(back(), frozenset[str](), {}, id="who started is not known"),
        pytest.param(back(), None, {"terminal_state": "Failed"}, id="it is over"),
        pytest.param(
            back(), None, {"meta": make_meta("it", deleting_s=NOW_S)}, id="it is removed already"
        ),
        pytest.param(None, None, {}, id="its workload is not seen"),
    ],
)
def test_a_gang_that_was_put_out_is_left_alone_while(
    workload: Any, started_by: frozenset[str] | None, more: dict[str, Any]
) -> None:
    assert not is_to_go(workload, started_by, **more)


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
    assert is_read(look, GRANT.epoch.run_key)
    for blind in (
        replace(look, runs={}),
        replace(look, trouble="it does not answer"),
        replace(look, unread={GRANT.epoch.run_key: "torn"}),
    ):
        assert not is_read(blind, GRANT.epoch.run_key)
