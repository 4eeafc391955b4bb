"""What a queue says of a gang that waits in it, sentence by sentence."""

from typing import Any

import pytest

from regions.cluster import Cause
from regions.kueue.explanation import explain
from regions.kueue.manifest import QUEUE_LABEL
from regions.kueue.vocabulary import Word
from tests.unit.regions.kueue.tellings import (
    NOW_S,
    make_cluster_queue,
    make_evidence,
    make_job_set,
    make_local_queue,
    make_meta,
    said,
    waiting,
)


def word_of(**changes: Any) -> Word:
    """The word for what a cluster tells of a gang that was offered ``h100-spot``."""
    return Word(explain(make_evidence(**changes)).word)


def test_a_queue_that_is_not_there_is_named_before_anybody_took_the_gang_up() -> None:
    sent = make_job_set(meta=make_meta("cb-p1", labels={QUEUE_LABEL: "ours"}))
    found = explain(make_evidence(job_set=sent, workload=None, local_queue=None))
    assert (found.word, found.look_at) == (Word.QUEUE_MISSING, "localqueue/ours")


def test_what_was_switched_off_waits_for_nothing() -> None:
    off = waiting("Inadmissible", "The workload is deactivated", is_active=False)
    assert word_of(workload=off) is Word.SWITCHED_OFF


PREFIX = "couldn't assign flavors to pod set g: "
GPU_NEVER = (
    "insufficient quota for nvidia.com/gpu in flavor h100-spot, previously considered podsets "
    "requests (0) + current podset request (64) > maximum capacity (16)"
)
GPU_SHORT = "insufficient unused quota for nvidia.com/gpu in flavor h100-spot, 8 more needed"
CPU_SHORT = "insufficient unused quota for cpu in flavor h100-spot, 90 more needed"
L4_SHORT = "insufficient unused quota for nvidia.com/gpu in flavor l4, 8 more needed"

FLAVORS = {
    "quota is short": (GPU_SHORT, Word.WAITING_FOR_QUOTA),
    "it is not the other flavors that it waits for": (
        f"flavor l4 doesn't match node affinity, {GPU_SHORT}",
        Word.WAITING_FOR_QUOTA,
    ),
    "it never fits": (GPU_NEVER, Word.QUOTA_NEVER_FITS),
    "it never fits, whatever another flavor could": (
        f"{L4_SHORT}, {GPU_NEVER}",
        Word.QUOTA_NEVER_FITS,
    ),
    "cpu is to come, and GPUs never": (f"{CPU_SHORT}, {GPU_NEVER}", Word.QUOTA_NEVER_FITS),
    "nothing is said of its own flavor, and the best of the others counts": (
        f"flavor a100 doesn't match node affinity, {L4_SHORT}",
        Word.WAITING_FOR_QUOTA,
    ),
    "a mark keeps it off": (
        "untolerated taint {team  vision NoSchedule <nil>} in flavor h100-spot",
        Word.TAINT_NOT_TOLERATED,
    ),
    "no flavor is the one": (
        "flavor h100-spot doesn't match node affinity",
        Word.FLAVOR_MISMATCH,
    ),
    "the flavor is gone": ("flavor h100-spot not found", Word.FLAVOR_MISSING),
    "there is no quota for cpu at all": (
        "resource cpu unavailable in ClusterQueue",
        Word.RESOURCE_NOT_COVERED,
    ),
    "no machines that stand close are free": (
        'topology "gke" allows to fit only 1 out of 2 pod(s). Total nodes: 4; excluded: x: 2',
        Word.TOPOLOGY_DOES_NOT_FIT,
    ),
    "none at all": (
        'topology "gke" doesn\'t allow to fit any of 2 pod(s)',
        Word.TOPOLOGY_DOES_NOT_FIT,
    ),
    "the flavor knows no distances": (
        'Flavor "h100-spot" does not support TopologyAwareScheduling',
        Word.TOPOLOGY_NOT_OFFERED,
    ),
    "the flavor has no such level": (
        'Flavor "h100-spot" does not contain the requested level',
        Word.TOPOLOGY_NOT_OFFERED,
    ),
    "others are leaving": (
        f"{GPU_SHORT}. Pending the preemption of 2 workload(s)",
        Word.WAITING_FOR_OTHERS_TO_LEAVE,
    ),
}


@pytest.mark.parametrize("case", FLAVORS)
def test_flavor_by_flavor(case: str) -> None:
    message, expected = FLAVORS[case]
    assert word_of(workload=waiting("Pending", PREFIX + message)) is expected


MESSAGES = {
    "Workload no longer fits after processing another workload": Word.OVERTAKEN,
    "Workload has overlapping preemption targets with another workload": Word.OVERTAKEN,
    "waiting for all admitted workloads to be in PodsReady condition": (
        Word.WAITING_FOR_ANOTHER_GANG
    ),
    "LocalQueue ours doesn't exist": Word.QUEUE_MISSING,
    "ClusterQueue cq not found": Word.QUEUE_MISSING,
    "LocalQueue ours is stopped": Word.QUEUE_STOPPED,
    "ClusterQueue cq is stopped": Word.QUEUE_STOPPED,
    "ClusterQueue cq is inactive": Word.QUEUE_INACTIVE,
    "ClusterQueue cq is terminating or missing": Word.QUEUE_TERMINATING,
    "Workload namespace doesn't match ClusterQueue selector": Word.NAMESPACE_REFUSED,
    "resources validation failed: spec.x: Invalid value": Word.RESOURCES_INVALID,
    "resources didn't satisfy LimitRange constraints: x": Word.RANGE_EXCEEDED,
    "Admission is gated by: example.com/review": Word.HELD_BY_OTHERS,
    "The workload has failed admission checks": Word.CHECK_FAILED,
    "Previously: Preempted to accommodate a workload": Word.NOT_LOOKED_AT_YET,
    "the sun is in the way": Word.UNKNOWN,
    "": Word.UNKNOWN,
}


@pytest.mark.parametrize("message", MESSAGES)
def test_its_message_is_read_where_its_reason_says_too_little(message: str) -> None:
    for reason in ("Pending", "Inadmissible", "Waiting"):
        found = word_of(workload=waiting(reason, message), cluster_queue=None)
        assert found is MESSAGES[message]


REASONS = {
    "NoMatchingFlavor": Word.FLAVOR_MISMATCH,
    "WaitingForQuota": Word.WAITING_FOR_QUOTA,
    "ExceedsMaxQuota": Word.QUOTA_NEVER_FITS,
    "TopologyPlacementFailed": Word.TOPOLOGY_DOES_NOT_FIT,
    "WaitingForPreemptedWorkloads": Word.WAITING_FOR_OTHERS_TO_LEAVE,
    "Misconfigured": Word.QUEUE_MISCONFIGURED,
    "Suspended": Word.QUEUE_STOPPED,
    "OnHold": Word.QUEUE_STOPPED,
    "PendingEvaluation": Word.NOT_LOOKED_AT_YET,
    "WaitingForPodsReady": Word.WAITING_FOR_ANOTHER_GANG,
    "AdmissionGated": Word.HELD_BY_OTHERS,
}


@pytest.mark.parametrize("reason", REASONS)
def test_a_later_release_says_so_by_its_reason(reason: str) -> None:
    """Whatever the message says of other flavors."""
    assert word_of(workload=waiting(reason, PREFIX + L4_SHORT)) is REASONS[reason]


QUEUES = {
    "Stopped": Word.QUEUE_STOPPED,
    "Terminating": Word.QUEUE_TERMINATING,
    "FlavorNotFound": Word.FLAVOR_MISSING,
    "AdmissionCheckNotFound": Word.CHECK_MISSING,
    "AdmissionCheckInactive": Word.CHECK_INACTIVE,
    "TopologyNotFound": Word.TOPOLOGY_MISSING,
    "MultiKueueWithProvisioningRequest": Word.QUEUE_MISCONFIGURED,
    "SolarFlare": Word.QUEUE_INACTIVE,
}


@pytest.mark.parametrize("reason", QUEUES)
def test_a_queue_that_lets_nobody_in_says_why(reason: str) -> None:
    queue = make_cluster_queue(said("Active", reason, "because", status=False))
    workload = waiting("Inadmissible", "ClusterQueue cq is inactive")
    verdict = explain(make_evidence(workload=workload, cluster_queue=queue))
    assert verdict.word == QUEUES[reason]
    assert verdict.look_at == "clusterqueue/cq"
    assert bool(verdict.unknown) == (reason == "SolarFlare")


def test_a_door_that_is_stopped_or_not_there() -> None:
    assert word_of(local_queue=make_local_queue(stop_policy="Hold")) is Word.QUEUE_STOPPED
    assert word_of(local_queue=make_local_queue(stop_policy="HoldAndDrain")) is Word.QUEUE_STOPPED
    assert word_of(local_queue=None) is Word.QUEUE_MISSING


def test_a_pause_after_a_failed_check_is_told_with_its_length() -> None:
    message = "The workload has failed admission checks"
    workload = waiting("Pending", message, requeue_at_s=NOW_S + 30.0)
    verdict = explain(make_evidence(workload=workload))
    assert verdict.word == Word.BACKING_OFF
    assert verdict.sentence.endswith(": 30 s more")
    assert word_of(workload=waiting("Pending", message, requeue_at_s=NOW_S - 1.0)) is (
        Word.CHECK_FAILED
    )


def test_a_gang_that_kueue_does_not_see_is_not_waited_for_after_a_while() -> None:
    old = make_job_set(meta=make_meta("cb-it", created_s=NOW_S - 300.0))
    assert word_of(workload=None) is Word.NOT_LOOKED_AT_YET
    assert word_of(workload=None, job_set=old) is Word.NOT_TAKEN_UP


def test_what_cannot_be_seen_is_not_missing() -> None:
    """A partial answer is never read as an absence."""
    old = make_job_set(meta=make_meta("cb-it", created_s=NOW_S - 300.0))
    blind = frozenset({"localqueues", "workloads", "pods"})
    assert word_of(workload=None, job_set=old, unseen=blind) is Word.NOT_SEEN
    started = make_job_set(is_suspended=False)
    assert word_of(workload=None, job_set=started, unseen=blind) is Word.NOT_SEEN
    short = waiting("Pending", PREFIX + GPU_SHORT)
    assert word_of(workload=short, local_queue=None, unseen=blind) is Word.WAITING_FOR_QUOTA
    assert word_of(workload=None, local_queue=None, unseen=frozenset({"localqueues"})) is (
        Word.NOT_LOOKED_AT_YET
    )


def test_what_nobody_knows_is_shown_as_it_is_and_counted() -> None:
    verdict = explain(make_evidence(workload=waiting("SolarFlare", "the sun\x1b is in the way")))
    assert verdict.cause is Cause.UNKNOWN
    assert verdict.raw == "the sun is in the way"
    assert verdict.unknown == "QuotaReserved:SolarFlare"
    assert verdict.look_at == "workload/jobset-it"


def test_a_detail_moves_no_cursor_and_has_its_bound() -> None:
    hostile = GPU_SHORT.replace("nvidia.com/gpu", "\x1b[2J" + "x" * 240)
    verdict = explain(make_evidence(workload=waiting("Pending", PREFIX + hostile)))
    assert verdict.word == Word.WAITING_FOR_QUOTA
    assert verdict.sentence.isprintable()
    assert len(verdict.sentence) < 250


def test_a_verdict_reads_as_a_sentence() -> None:
    verdict = explain(make_evidence(workload=waiting("Pending", PREFIX + GPU_SHORT)))
    assert verdict.sentence == (
        "Its queue has not enough quota free: 8 more nvidia.com/gpu of h100-spot"
    )
    assert verdict.raw.startswith("couldn't assign flavors")
