"""What is said of a gang behind a check, and of one that was put out again."""

from typing import Any

import pytest

from regions.kueue.explanation import explain
from regions.kueue.objects.job_set import JobCounts
from regions.kueue.objects.meta import Condition
from regions.kueue.vocabulary import Word
from tests.unit.regions.kueue.tellings import (
    NOW_S,
    admitted,
    check,
    ended,
    make_evidence,
    make_job_set,
    make_meta,
    make_pod,
    make_request,
    make_workload,
    reserved,
    said,
)


def word_of(**changes: Any) -> Word:
    """The word for what a cluster tells."""
    return Word(explain(make_evidence(**changes)).word)


CHECKS = {
    "silent": ((("budget", "Pending"),), Word.CHECK_PENDING),
    "one of two refuses it": ((("a", "Pending"), ("budget", "Rejected")), Word.CHECK_REJECTED),
    "puts it back": ((("budget", "Retry"),), Word.CHECK_FAILED),
    "says what nobody knows": ((("budget", "Dreaming"),), Word.UNKNOWN),
    "all are ready, and it is not let in yet": ((("budget", "Ready"),), Word.NOT_LOOKED_AT_YET),
    "one of others, before the machines are asked for": (
        (("dws", "Pending"), ("budget", "Pending")),
        Word.CHECK_PENDING,
    ),
}


@pytest.mark.parametrize("case", CHECKS)
def test_a_check_of_others(case: str) -> None:
    states, expected = CHECKS[case]
    workload = reserved(checks=tuple(check(name, state) for name, state in states))
    assert word_of(workload=workload, flex_checks=frozenset({"dws"})) is expected


ETA = said("Provisioned", "Waiting", "expected in 2 h", status=False)
REQUESTS: dict[str, tuple[tuple[Condition, ...], Word]] = {
    "the cloud has not taken it": ((), Word.FLEX_NOT_ACCEPTED),
    "it is booked": ((said("Accepted"), ETA), Word.WAITING_FOR_FLEX),
    "how long a silence is borne is not the cluster's to say": (
        (said("Accepted", age_s=7200.0),),
        Word.WAITING_FOR_FLEX,
    ),
    "the cloud had none": ((said("Failed", "", "no capacity"),), Word.FLEX_FAILED),
    "the project may not": ((said("Failed", "", "GPU quota exceeded"),), Word.CLOUD_QUOTA_EXCEEDED),
    "the pool is as large as it may be": (
        (said("Failed", "", "max node pool size reached"),),
        Word.POOL_AT_ITS_MAXIMUM,
    ),
    "the capacity came and went": (
        (said("Provisioned"), said("BookingExpired")),
        Word.FLEX_BOOKING_EXPIRED,
    ),
    "the capacity was taken back": (
        (said("Provisioned"), said("CapacityRevoked")),
        Word.FLEX_CAPACITY_REVOKED,
    ),
    "the capacity is here": ((said("Accepted"), said("Provisioned")), Word.NODES_COMING),
}


@pytest.mark.parametrize("case", REQUESTS)
def test_a_request_for_flex_capacity(case: str) -> None:
    conditions, expected = REQUESTS[case]
    workload = reserved(checks=(check("dws", "Pending"),))
    flex = {"flex_checks": frozenset({"dws"}), "requests": (make_request(*conditions),)}
    assert word_of(workload=workload, **flex) is expected


def test_flex_capacity_whose_request_cannot_be_seen() -> None:
    for state, expected in (("Pending", Word.FLEX_NOT_ACCEPTED), ("Retry", Word.FLEX_FAILED)):
        workload = reserved(checks=(check("dws", state),))
        assert word_of(workload=workload, flex_checks=frozenset({"dws"})) is expected


def test_the_newest_attempt_counts() -> None:
    tenth = make_request(said("Accepted"), meta=make_meta("jobset-it-dws-10"))
    ninth = make_request(said("Failed"), meta=make_meta("jobset-it-dws-9"))
    workload = reserved(checks=(check("dws", "Pending"),))
    for requests in ((tenth, ninth), (ninth, tenth)):
        found = word_of(workload=workload, flex_checks=frozenset({"dws"}), requests=requests)
        assert found is Word.WAITING_FOR_FLEX


def test_the_request_says_why_its_check_put_the_gang_out() -> None:
    requests = (make_request(said("Provisioned"), said("CapacityRevoked")),)
    for reason in ("AdmissionCheck", "DeactivatedDueToAdmissionCheck"):
        workload = make_workload(said("Evicted", reason))
        assert word_of(workload=workload, requests=requests) is Word.FLEX_CAPACITY_REVOKED


EVICTIONS = {
    "PodsReadyTimeout": Word.NOT_READY_IN_TIME,
    "AdmissionCheck": Word.EVICTED_BY_CHECK,
    "ClusterQueueStopped": Word.EVICTED_WITH_QUEUE,
    "LocalQueueStopped": Word.EVICTED_WITH_QUEUE,
    "NodeFailures": Word.EVICTED_BY_NODE_FAILURE,
    "FlavorMigration": Word.EVICTED_TO_MIGRATE,
    "Deactivated": Word.SWITCHED_OFF,
    "DeactivatedDueToAdmissionCheck": Word.CHECK_REJECTED,
    "DeactivatedDueToRequeuingLimitExceeded": Word.EVICTED_TOO_OFTEN,
    "DeactivatedDueToMaximumExecutionTimeExceeded": Word.TIME_LIMIT_OF_QUEUE,
    "DeactivatedDueToFashion": Word.SWITCHED_OFF,
    "Fashion": Word.EVICTED,
}


@pytest.mark.parametrize("reason", EVICTIONS)
def test_put_out(reason: str) -> None:
    workload = make_workload(said("Evicted", reason, "because"))
    verdict = explain(make_evidence(workload=workload))
    assert verdict.word == EVICTIONS[reason]
    assert bool(verdict.unknown) == reason.endswith("Fashion")


PREEMPTIONS = {
    "InClusterQueue": Word.PREEMPTED_BY_PRIORITY,
    "InCohortReclamation": Word.QUOTA_RECLAIMED,
    "InCohortFairSharing": Word.QUOTA_RECLAIMED,
    "InCohortReclaimWhileBorrowing": Word.QUOTA_RECLAIMED,
}


@pytest.mark.parametrize("reason", PREEMPTIONS)
def test_preempted_in_the_queue(reason: str) -> None:
    workload = make_workload(said("Evicted", "Preempted"), said("Preempted", reason))
    assert word_of(workload=workload) is PREEMPTIONS[reason]


def test_processes_that_end_because_they_were_put_out_did_not_fail() -> None:
    workload = reserved(said("Evicted", "Preempted"))
    pods = (ended(143), ended(87, rank=1))
    assert word_of(workload=workload, pods=pods) is Word.PREEMPTED_BY_PRIORITY


def test_an_eviction_that_is_over_is_none() -> None:
    workload = admitted(said("Evicted", "QuotaReserved", "Previously: x", status=False))
    assert word_of(workload=workload, pods=(make_pod(0), make_pod(1))) is Word.STANDING


def held_and_put_out(age_s: float, **changes: Any) -> Any:
    """A workload that was put out, and holds its quota still."""
    conditions = (
        said("QuotaReserved", age_s=age_s + 60.0),
        said("Admitted", age_s=age_s + 60.0),
        said("Evicted", "AdmissionCheck", age_s=age_s),
    )
    return make_workload(*conditions, admitted_to="cq", **changes)


def test_quota_that_nobody_gives_back_is_wedged() -> None:
    assert word_of(workload=held_and_put_out(600.0)) is Word.WEDGED
    assert word_of(workload=held_and_put_out(600.0), pods=(ended(143),)) is Word.WEDGED


def test_a_gang_that_was_switched_off_is_not_wedged() -> None:
    off = held_and_put_out(600.0, is_active=False)
    assert word_of(workload=off) is Word.EVICTED_BY_CHECK


def test_a_gang_that_is_still_being_put_out_is_not_wedged() -> None:
    assert word_of(workload=held_and_put_out(5.0)) is Word.EVICTED_BY_CHECK
    running = word_of(workload=held_and_put_out(600.0), pods=(make_pod(),))
    assert running is Word.EVICTED_BY_CHECK
    later = held_and_put_out(600.0, requeue_at_s=NOW_S + 60.0)
    assert word_of(workload=later) is Word.EVICTED_BY_CHECK


def test_a_gang_whose_processes_cannot_be_seen_is_not_called_wedged() -> None:
    unseen = frozenset({"pods"})
    assert word_of(workload=held_and_put_out(600.0), unseen=unseen) is Word.EVICTED_BY_CHECK
    counts = JobCounts(name="g", ready=0, succeeded=0, failed=0, active=1, suspended=0)
    active = make_job_set(jobs=(counts,))
    assert word_of(workload=held_and_put_out(600.0), job_set=active) is Word.EVICTED_BY_CHECK


def test_a_gang_that_is_being_removed_waits_for_nothing() -> None:
    job_set = make_job_set(meta=make_meta("cb-it", deleting_s=NOW_S))
    assert word_of(job_set=job_set, workload=held_and_put_out(600.0)) is Word.BEING_REMOVED
