"""Our gangs as the port shows them: what is there, what was seen before, and never a guess."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from regions.cluster import Cause, Stage
from regions.gatehouse import RunInStore
from regions.kueue import names
from regions.kueue.machine_times import history
from regions.kueue.manifest import QUEUE_LABEL
from regions.kueue.members import Member, Members
from regions.kueue.objects.job_set import JobSet
from regions.kueue.queue_view import QueueSettings, queues_seen
from regions.kueue.scene import JOB_UID, Scene
from regions.kueue.snapshot import Seen, Snapshot
from regions.kueue.views import OCCUPIED_S, Placements, Shown, is_worn_out, to_let_go
from regions.kueue.vocabulary import Word
from regions.kueue.words import Deed
from regions.launcher import exits, rules
from regions.store_eye import Look
from tests.unit.regions.kueue.tellings import (
    NOW_S,
    admitted,
    ended,
    make_cluster_queue,
    make_job_set,
    make_local_queue,
    make_meta,
    make_node,
    make_pod,
    make_workload,
    reserved,
    said,
    stuck,
    unbound,
    waiting,
)
from tests.unit.regions.kueue.test_members import GANG, OURS, known, member

NOTHING = Look(runs={}, epochs={}, claims=None, trouble="")


def gang(created_s: float = NOW_S - 1.0, **changes: Any) -> JobSet:
    """Our JobSet of placement p1: two ranks."""
    found = make_job_set(**changes)
    meta = replace(
        found.meta,
        created_s=created_s,
        name=names.jobset_name("p1"),
        namespace=OURS,
        uid=GANG,
        labels={names.MANAGED_BY: names.MANAGER, QUEUE_LABEL: "ours"},
        annotations={
            names.PLACED: "p1",
            names.KEYED: "run1",
            names.FLAVOR: "h100-spot",
            names.OFFERED: "SPOT",
            names.TOLD: names.told_annotation({"team": "vision"}),
        },
    )
    return replace(found, meta=meta)


def of_gang(workload: Any) -> Any:
    """The workload as the gang's."""
    meta = replace(workload.meta, namespace=OURS, labels={JOB_UID: GANG}, name="jobset-p1")
    return replace(workload, meta=meta, queue="ours")


def ours(queue: Any) -> Any:
    return replace(queue, meta=replace(queue.meta, namespace=OURS))


class Story:
    """Looks one after the other."""

    def __init__(self) -> None:
        self.members = Members()
        self.placements = Placements(fresh_s=15.0)

    def see(
        self, *job_sets: JobSet, workload: Any = None, pods: Any = (), **changes: Any
    ) -> Mapping[str, Shown]:
        workloads = [of_gang(workload)] if workload is not None else []
        snapshot = Snapshot(
            cluster_queues=known(make_cluster_queue()),
            local_queues=known(ours(make_local_queue())),
            cohorts=known(),
            flavors=known(),
            topologies=known(),
            checks=known(),
            provisioning=known(),
            workloads=known(*workloads),
            nodes=known(*(make_node(f"node-{at}") for at in range(2))),
            pods=known(*pods),
        )
        snapshot = replace(snapshot, **changes.pop("snapshot", {}))
        look, events = changes.pop("look", NOTHING), changes.pop("events", known())
        gangs: Seen[JobSet] = replace(known(*job_sets), **changes)
        scene = Scene(
            namespace=OURS,
            snapshot=snapshot,
            job_sets=gangs,
            requests=known(),
            events=events,
            places=queues_seen(snapshot, QueueSettings(namespace=OURS), NOW_S).places,
        )
        self.members.look(snapshot.pods, snapshot.nodes, OURS, NOW_S)
        return self.placements.look(scene, self.members, look, now_s=NOW_S, monotonic_s=1.0)


def up(*ranks: int) -> list[Any]:
    return [member(make_pod(rank), rank) for rank in ranks]


EVICTED = said("Evicted", "Preempted", "Preempted to accommodate a workload")


def test_a_gang_in_its_queue_says_what_it_waits_for() -> None:
    seen = Story().see(gang(), workload=waiting("Pending", "couldn't assign flavors"))["p1"].seen
    assert (seen.stage, seen.run_key, seen.uid, seen.queue) == (Stage.QUEUED, "run1", GANG, "ours")
    assert (seen.flavor, seen.ahead, seen.labels) == ("h100-spot", 0, {"team": "vision"})


@pytest.mark.parametrize(
    ("workload", "pods", "stage"),
    [
        pytest.param(reserved(), (), Stage.QUEUED, id="a reservation waits for its checks"),
        pytest.param(admitted(), (), Stage.PROVISIONING, id="let in"),
        pytest.param(
            admitted(), [*up(0), member(unbound(1), 1)], Stage.PROVISIONING, id="one of two came"
        ),
        pytest.param(admitted(), up(0, 1), Stage.STANDING, id="all are up"),
        pytest.param(
            admitted(), [*up(0), member(ended(0, rank=1), 1)], Stage.STANDING, id="one has finished"
        ),
    ],
)
def test_where_a_gang_stands(workload: Any, pods: Any, stage: Stage) -> None:
    seen = Story().see(gang(is_suspended=False), workload=workload, pods=pods)["p1"].seen
    assert seen.stage is stage


def test_a_gang_has_ended_when_it_is_over_and_each_process_was_seen_gone() -> None:
    story = Story()
    over = gang(terminal_state="Failed")
    one_left = [member(ended(3), 0), *up(1)]
    seen = story.see(over, workload=admitted(), pods=one_left)["p1"].seen
    assert (seen.stage, seen.cause) == (Stage.STANDING, Cause.MEMBER_EXITED)
    seen = story.see(over, workload=admitted(), pods=one_left[:1])["p1"].seen
    assert (seen.stage, seen.first_exit) == (Stage.ENDED, "uid-0")
    assert [(one.rank, one.exit_code) for one in seen.members] == [(0, 3), (1, None)]


def test_what_was_put_out_stays_put_out_and_is_let_go_once_nothing_runs() -> None:
    story = Story()
    story.see(gang(is_suspended=False), workload=admitted(), pods=up(0, 1))
    leaving = story.see(gang(), workload=admitted(EVICTED), pods=up(0, 1))
    assert (leaving["p1"].seen.cause, to_let_go(leaving.values())) == (Cause.EVICTED, ())
    empty = story.see(gang(), workload=waiting("Pending", "it waits again"))
    assert (empty["p1"].seen.stage, empty["p1"].seen.cause) == (Stage.QUEUED, Cause.EVICTED)
    assert [one.meta.uid for one in to_let_go(empty.values())] == [GANG]
    gone = story.see()["p1"].seen
    assert (gone.stage, gone.cause) == (Stage.ENDED, Cause.EVICTED)
    assert [one.is_alive for one in gone.members] == [False, False]


def test_what_was_put_out_and_runs_again_is_removed_unless_it_may_have_started() -> None:
    read = replace(NOTHING, runs={"run1": RunInStore(run_key="run1")})
    for look, removed in ((NOTHING, []), (read, [GANG])):
        story = Story()
        story.see(gang(is_suspended=False), workload=admitted(EVICTED), look=look)
        again = story.see(gang(is_suspended=False), workload=admitted(), pods=up(0, 1), look=look)
        assert (again["p1"].is_put_out, again["p1"].seen.cause) == (True, Cause.EVICTED)
        assert [one.meta.uid for one in to_let_go(again.values())] == removed
    gone = story.see(look=read)["p1"].seen
    assert (gone.stage, gone.cause) == (Stage.ENDED, Cause.EVICTED)


@pytest.mark.parametrize("code", [1, 137, 139, 143])
def test_whose_gang_had_not_started_ended_by_its_launcher(code: int) -> None:
    read = replace(NOTHING, runs={"run1": RunInStore(run_key="run1")})
    for look in (NOTHING, read):
        story = Story()
        story.see(gang(is_suspended=False), workload=admitted(), pods=up(0, 1), look=look)
        pods = [member(ended(code, "the end"), 0), member(make_pod(1), 1)]
        shown = story.see(gang(is_suspended=False), workload=admitted(), pods=pods, look=look)
        is_launcher = shown["p1"].said.word == Word.LAUNCHER_FAILED
        assert is_launcher is (look is read)  # of a store that cannot be read nothing is concluded
    word = shown["p1"].seen.said
    assert word is not None
    assert (word.fault, shown["p1"].seen.cause) == ("ORCHESTRATION", Cause.MEMBER_EXITED)
    assert shown["p1"].seen.first_exit == pods[0].meta.uid
    assert word.last_lines == "the end"


def test_a_gang_that_is_not_there_any_more_was_withdrawn_once_all_of_it_is_gone() -> None:
    story = Story()
    story.see(gang(is_suspended=False), workload=admitted(), pods=up(0, 1))
    leaving = story.see(pods=up(1))["p1"].seen
    assert (leaving.stage, leaving.cause) == (Stage.STANDING, Cause.WITHDRAWN)
    gone = story.see()["p1"].seen
    assert (gone.stage, gone.cause, gone.nodes_here) == (Stage.ENDED, Cause.WITHDRAWN, 0)


def test_how_a_gang_ended_is_told_after_its_object_is_gone() -> None:
    story = Story()
    pods = [member(ended(3), 0), member(ended(0, rank=1), 1)]
    before = story.see(gang(terminal_state="Failed"), workload=admitted(), pods=pods)["p1"].seen
    after = story.see()["p1"].seen
    assert (after.stage, after.cause, after.message) == (Stage.ENDED, before.cause, before.message)


def test_a_name_that_is_taken_is_shown_as_withdrawn() -> None:
    taken = gang()
    labels = {**taken.meta.labels, names.PART: names.OCCUPIED_PART}
    taken = replace(taken, meta=replace(taken.meta, labels=labels, created_s=NOW_S))
    seen = Story().see(taken)["p1"].seen
    assert (seen.stage, seen.cause, seen.members) == (Stage.ENDED, Cause.WITHDRAWN, ())
    assert seen.run_key == "run1"
    assert [is_worn_out(taken, NOW_S + age_s) for age_s in (60.0, OCCUPIED_S + 1)] == [False, True]
    assert not is_worn_out(gang(), NOW_S + OCCUPIED_S + 1)


def test_a_copy_of_our_object_is_not_taken_for_the_placement() -> None:
    copy = gang()
    copy = replace(copy, meta=replace(copy.meta, name="p1", uid="other"))
    story = Story()
    seen = story.see(copy, gang(), copy, workload=waiting("Pending"))
    assert {name: each.seen.uid for name, each in seen.items()} == {
        "p1": GANG,
        "jobset/p1": "other",
    }
    assert story.see(copy)["p1"].seen.uid == GANG


def test_others_objects_are_not_shown() -> None:
    theirs = replace(gang(), meta=replace(gang().meta, labels={}))
    elsewhere = replace(gang(), meta=replace(gang().meta, namespace="other"))
    assert Story().see(theirs, elsewhere) == {}


def test_nodes_are_told_since_they_came_and_went() -> None:
    def one(rank: int, came_s: float, left_s: float | None) -> Member:
        return Member(
            uid=f"{rank}",
            key="",
            gang=GANG,
            rank=rank,
            node="n",
            node_uid="",
            created_s=0.0,
            bound_s=came_s,
            left_s=left_s,
        )

    found = history([one(0, 10.0, 40.0), one(1, 10.0, 40.0), one(2, 20.0, None)], 50.0)
    assert found == ((40.0, 2), (30.0, 3), (10.0, 1))
    assert history([], 50.0) == ()


def test_whoever_had_a_name_is_told_of_after_the_name_was_taken() -> None:
    story = Story()
    story.see(gang(is_suspended=False), workload=admitted(), pods=up(0, 1))
    labels = {names.MANAGED_BY: names.MANAGER, names.PART: names.OCCUPIED_PART}
    taken = replace(gang(), meta=replace(gang().meta, uid="taken", labels=labels))
    for _ in range(2):
        seen = story.see(taken)["p1"].seen
        assert (seen.stage, seen.cause, seen.uid) == (Stage.ENDED, Cause.WITHDRAWN, GANG)
        assert [one.is_alive for one in seen.members] == [False, False]


def test_a_machine_that_is_gone_is_said_before_its_cluster_gives_up_its_pods() -> None:
    story = Story()
    story.see(gang(is_suspended=False), workload=admitted(), pods=up(0, 1))
    left: dict[str, Any] = {"nodes": known(make_node("node-0"))}
    seen = story.see(gang(is_suspended=False), workload=admitted(), pods=up(0, 1), snapshot=left)[
        "p1"
    ].seen
    assert (seen.cause, seen.nodes_here) == (Cause.NODE_PREEMPTED, 1)
    assert [(one.rank, one.is_alive) for one in seen.members] == [(0, True), (1, False)]


def test_how_a_gang_broke_stays_known_after_its_pods_were_removed() -> None:
    story = Story()
    story.see(gang(is_suspended=False), workload=admitted(), pods=up(0, 1))
    left: dict[str, Any] = {"nodes": known()}
    story.see(gang(is_suspended=False), workload=admitted(), pods=up(0, 1), snapshot=left)
    broken = gang(terminal_state="Failed")
    seen = story.see(broken, workload=admitted(), snapshot=left)["p1"].seen
    assert (seen.stage, seen.cause) == (Stage.ENDED, Cause.NODE_PREEMPTED)


def test_who_stands_behind_another_waits_for_quota_although_nobody_said_so() -> None:
    first = of_gang(waiting("Pending", "couldn't assign flavors"))
    first = replace(first, meta=replace(first.meta, name="a", uid="a", labels={}, created_s=1.0))
    mine = of_gang(make_workload())
    line: dict[str, Any] = {"workloads": known(first, mine)}
    seen = Story().see(gang(), snapshot=line)["p1"].seen
    assert (seen.cause, seen.ahead) == (Cause.WAITING_FOR_QUOTA, 1)


def test_what_never_fits_has_no_place_in_the_line() -> None:
    never = "insufficient quota for nvidia.com/gpu in flavor h100-spot, previously considered "
    never += "podsets requests (0) + current podset request (16) > maximum capacity (8)"
    seen = Story().see(gang(), workload=waiting("Pending", never))["p1"].seen
    assert (seen.stage, seen.cause) == (Stage.QUEUED, Cause.QUOTA_NEVER_FITS)
    assert (seen.ahead, seen.ahead_gpus) == (None, None)


def test_the_first_of_its_line_of_whom_nothing_is_said_is_not_waited_for() -> None:
    def cause(workload: Any, *others: Any) -> tuple[Cause, str]:
        line: dict[str, Any] = {"workloads": known(of_gang(workload), *others)}
        shown = Story().see(gang(), snapshot=line)["p1"]
        return shown.seen.cause, shown.said.word

    old = make_workload(meta=make_meta("w", created_s=NOW_S - 400.0))
    assert cause(make_workload()) == (Cause.WAITING_FOR_QUOTA, Word.NOT_LOOKED_AT_YET)
    assert cause(old) == (Cause.WEDGED, Word.NOT_TAKEN_UP)
    # Kueue was heard of it since, and will come to it.
    put_back = said("Requeued", "BackoffFinished", age_s=30.0)
    again = replace(old, conditions=(put_back,))
    assert cause(again) == (Cause.WAITING_FOR_QUOTA, Word.NOT_LOOKED_AT_YET)
    # Behind another it may wait for ever: a strict queue looks at its first alone.
    before = make_workload(meta=make_meta("a", namespace=OURS, created_s=1.0))
    assert cause(old, before) == (Cause.WAITING_FOR_QUOTA, Word.WAITING_FOR_QUOTA)


def test_whoever_left_because_a_machine_was_lost_is_not_what_ended_the_gang() -> None:
    story = Story()
    given_up = said("DisruptionTarget", "DeletionByTaintManager")
    lost = member(make_pod(1, conditions=(given_up,)), 1)
    running = gang(is_suspended=False)
    seen = story.see(running, workload=admitted(), pods=[*up(0), lost])["p1"].seen
    assert seen.cause is Cause.NODE_LOST
    told = member(ended(exits.OF_CAUSE[rules.Cause.WITHDRAWN]), 0)
    for job_set in (running, gang(terminal_state="Failed")):
        seen = story.see(job_set, workload=admitted(), pods=[told])["p1"].seen
        assert seen.cause is Cause.NODE_LOST
    crashed = member(ended(1), 0)
    seen = story.see(running, workload=admitted(), pods=[crashed])["p1"].seen
    assert seen.cause is Cause.MEMBER_EXITED


def test_the_word_behind_a_sentence_crosses_the_port() -> None:
    missing = stuck("CreateContainerConfigError", 'secret "hub" not found')
    seen = Story().see(gang(), workload=admitted(), pods=[member(missing, 0)])["p1"].seen
    assert seen.said is not None
    assert (seen.said.word, seen.said.fault, seen.said.unknown) == ("SECRET_MISSING", "USER", "")
    assert (seen.said.deed, seen.said.look_at) == (Deed.TRIES.value, f"pod/{missing.meta.name}")


def test_what_nobody_has_a_word_for_is_shown_as_it_was_said() -> None:
    strange = stuck("Frobnicating", "the frob is not nicated")
    seen = Story().see(gang(), workload=admitted(), pods=[member(strange, 0)])["p1"].seen
    assert seen.said is not None
    assert (seen.said.word, seen.said.unknown) == ("UNKNOWN", "Container.waiting:Frobnicating")
    assert "the frob is not nicated" in seen.message
