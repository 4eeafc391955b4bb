"""What a queue says of a gang: waiting for quota, behind a check, put out. Pure.

The rule: the reasons of conditions come first, where a release of Kueue gives them; where it gives
only ``Pending`` its message is read, flavor by flavor, for a gang waits for one of them, and that
all others do not fit it says nothing. Read ``of_waiting`` first.
"""

import re

from regions.kueue.hearing import Heard, Saying, hear, sayings, unknown
from regions.kueue.objects.cluster_queue import ClusterQueue
from regions.kueue.objects.meta import Condition, find
from regions.kueue.objects.workload import Workload
from regions.kueue.vocabulary import Word
from regions.kueue.words import HEARD_CHARACTERS

_TO_COME = (Word.WAITING_FOR_QUOTA, Word.TOPOLOGY_DOES_NOT_FIT)

# Reasons of QuotaReserved=False that later releases give; Pending, Inadmissible and Waiting say
# too little, and their messages are read instead.
_REASONS = {
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

_MESSAGES = sayings(
    (r"(?P<what>(?:Local|Cluster)Queue \S+) is stopped", Word.QUEUE_STOPPED),
    (r"(?P<what>(?:Local|Cluster)Queue \S+) is inactive", Word.QUEUE_INACTIVE),
    (r"(?P<what>(?:Local|Cluster)Queue \S+) is terminating", Word.QUEUE_TERMINATING),
    (r"(?P<what>(?:Local|Cluster)Queue \S+) (?:doesn't exist|not found)", Word.QUEUE_MISSING),
    (r"namespace doesn't match ClusterQueue selector", Word.NAMESPACE_REFUSED),
    (r"resources validation failed", Word.RESOURCES_INVALID),
    (r"didn't satisfy LimitRange", Word.RANGE_EXCEEDED),
    (r"Pending the preemption of (?P<what>\d+ workload)", Word.WAITING_FOR_OTHERS_TO_LEAVE),
    (r"Preempting \d+ workload\(s\) failed", Word.WAITING_FOR_OTHERS_TO_LEAVE),
    (r"no longer fits after processing another workload", Word.OVERTAKEN),
    (r"overlapping preemption targets", Word.OVERTAKEN),
    (r"waiting for all admitted workloads to be in PodsReady", Word.WAITING_FOR_ANOTHER_GANG),
    (r"has failed admission checks", Word.CHECK_FAILED),
    (r"Admission is gated by: (?P<what>\S+)", Word.HELD_BY_OTHERS),
    (r"requires preemption, but it's gated", Word.HELD_BY_OTHERS),
    (r"AdmissionGatedBy cleared", Word.NOT_LOOKED_AT_YET),
    (r"does not support use of resource claims", Word.RESOURCES_INVALID),
    (r"At least one admission check is false", Word.CHECK_FAILED),
)

# What is said of one flavor. The group ``flavor`` is its name, where it is told.
_OF_FLAVOR = sayings(
    (
        (
            r"insufficient unused quota for (?P<what>\S{1,253}) in flavor"
            r" (?P<flavor>[^\s,;]{1,253})(?:, (?P<more>[^\s,;]{1,40}) more needed)?"
        ),
        Word.WAITING_FOR_QUOTA,
    ),
    (
        r"insufficient quota for (?P<what>\S{1,253}) in flavor (?P<flavor>[^\s,;]{1,253})",
        Word.QUOTA_NEVER_FITS,
    ),
    (
        r"topology \"(?P<what>[^\"]{1,253})\" (?:doesn't allow to fit|allows to fit only)",
        Word.TOPOLOGY_DOES_NOT_FIT,
    ),
    (
        r"untolerated taint (?P<what>[^,;]{1,253}?) in flavor (?P<flavor>[^\s,;]{1,253})",
        Word.TAINT_NOT_TOLERATED,
    ),
    (r"flavor (?P<flavor>[^\s,;]{1,253}) doesn't match node affinity", Word.FLAVOR_MISMATCH),
    (r"flavor (?P<flavor>[^\s,;]{1,253}) not found", Word.FLAVOR_MISSING),
    (
        r"Flavor \"(?P<flavor>[^\"]{1,253})\" (?:does not support|supports only) Topology",
        Word.TOPOLOGY_NOT_OFFERED,
    ),
    (
        r"Flavor \"(?P<flavor>[^\"]{1,253})\" does not contain the requested level",
        Word.TOPOLOGY_NOT_OFFERED,
    ),
    (
        r"Flavor \"(?P<flavor>[^\"]{1,253})\" information missing in TAS cache",
        Word.TOPOLOGY_MISSING,
    ),
    (
        (
            r"(?:resource (?P<what>\S{1,253}) unavailable in ClusterQueue"
            r"|flavor (?P<flavor>[^\s,;]{1,253}) does not provide resource)"
        ),
        Word.RESOURCE_NOT_COVERED,
    ),
)
_MOST_FRAGMENTS = 200

_QUEUE_REASONS = {
    "Stopped": Word.QUEUE_STOPPED,
    "Terminating": Word.QUEUE_TERMINATING,
    "FlavorNotFound": Word.FLAVOR_MISSING,
    "AdmissionCheckNotFound": Word.CHECK_MISSING,
    "AdmissionCheckInactive": Word.CHECK_INACTIVE,
    "TopologyNotFound": Word.TOPOLOGY_MISSING,
    "MultipleMultiKueueAdmissionChecks": Word.QUEUE_MISCONFIGURED,
    "MultiKueueAdmissionCheckAppliedPerFlavor": Word.QUEUE_MISCONFIGURED,
    "MultiKueueWithProvisioningRequest": Word.QUEUE_MISCONFIGURED,
}

_EVICTIONS = {
    "Preempted": Word.PREEMPTED_BY_PRIORITY,
    "PodsReadyTimeout": Word.NOT_READY_IN_TIME,
    "AdmissionCheck": Word.EVICTED_BY_CHECK,
    "ClusterQueueStopped": Word.EVICTED_WITH_QUEUE,
    "LocalQueueStopped": Word.EVICTED_WITH_QUEUE,
    "NodeFailures": Word.EVICTED_BY_NODE_FAILURE,
    "FlavorMigration": Word.EVICTED_TO_MIGRATE,
    "Deactivated": Word.SWITCHED_OFF,
    "EvictedOnManagerCluster": Word.EVICTED,
    # With this before them: whoever put it out for good, and for what.
    "DeactivatedDueToAdmissionCheck": Word.CHECK_REJECTED,
    "DeactivatedDueToRequeuingLimitExceeded": Word.EVICTED_TOO_OFTEN,
    "DeactivatedDueToMaximumExecutionTimeExceeded": Word.TIME_LIMIT_OF_QUEUE,
}
_FOR_GOOD = "DeactivatedDueTo"
_RECLAIMS = frozenset(
    {"InCohortReclamation", "InCohortFairSharing", "InCohortReclaimWhileBorrowing"}
)


def of_waiting(
    workload: Workload, cluster_queue: ClusterQueue | None, *, flavor: str, now_s: float
) -> Heard:
    """Say what a gang without quota waits for. ``flavor`` is the one that it was offered."""
    look_at = f"workload/{workload.meta.name}"
    if not workload.is_active:
        return Heard(word=Word.SWITCHED_OFF, look_at=look_at)
    said = find(workload.conditions, "QuotaReserved")
    if said is None or said.status:
        return Heard(word=Word.NOT_LOOKED_AT_YET, look_at=look_at)
    word, detail = _waits_for(said, flavor) or (Word.UNKNOWN, "")
    if word is Word.QUEUE_INACTIVE and cluster_queue is not None:
        return of_inactive(cluster_queue) or Heard(
            word=word, detail=detail, raw=said.message, look_at=look_at
        )
    if workload.requeue_at_s is not None and workload.requeue_at_s > now_s and word in _UNDECIDED:
        pause = f"{workload.requeue_at_s - now_s:.0f} s more"
        return Heard(word=Word.BACKING_OFF, detail=pause, raw=said.message, look_at=look_at)
    counted = unknown("QuotaReserved", said.reason) if word is Word.UNKNOWN else ""
    return Heard(word=word, detail=detail, raw=said.message, look_at=look_at, unknown=counted)


_UNDECIDED = frozenset({Word.UNKNOWN, Word.NOT_LOOKED_AT_YET, Word.CHECK_FAILED})


def _waits_for(said: Condition, flavor: str) -> tuple[Word, str] | None:
    reason = _REASONS.get(said.reason)
    spoken = hear(said.message, _MESSAGES)
    by_flavor = _by_flavor(said.message, flavor)
    if reason is not None:
        # The reason decides, the message only tells more of the same.
        told = next((one for one in (spoken, by_flavor) if one and one[0] is reason), None)
        return told or (reason, "")
    if spoken is not None:
        return spoken
    if by_flavor is not None:
        return by_flavor
    # Right after an eviction the reason of it stands here, until it is looked at anew.
    return (Word.NOT_LOOKED_AT_YET, "") if said.message.startswith("Previously: ") else None


def _by_flavor(message: str, wanted: str) -> tuple[Word, str] | None:
    """Judge what is said flavor by flavor: the one that was offered, or else the best of all.

    A flavor is only as good as the worst that is said of it: quota of cpu that is to come helps
    nothing where that of the GPUs never fits.
    """
    worst: dict[str, tuple[Word, str]] = {}
    for word, flavor, detail in _fragments(message[:HEARD_CHARACTERS]):
        known = worst.get(flavor)
        if known is None or (known[0] in _TO_COME and word not in _TO_COME):
            worst[flavor] = (word, detail)
    if wanted in worst:
        return worst[wanted]
    ranked = sorted(worst.values(), key=lambda each: _RANK.index(each[0]))
    return ranked[0] if ranked else None


_RANK = tuple(saying.word for saying in _OF_FLAVOR)
"""From the most hopeful to the least: of several flavors it is the first that is waited for."""


def _fragments(message: str) -> list[tuple[Word, str, str]]:
    found = []
    for saying in _OF_FLAVOR:
        for match in _matches(saying, message):
            groups = match.groupdict()
            flavor, what = groups.get("flavor") or "", groups.get("what") or ""
            more = groups.get("more")
            detail = (
                f"{more} more {what} of {flavor}"
                if more
                else " of ".join(part for part in (what, flavor) if part)
            )
            found.append((saying.word, flavor, detail))
    return found[:_MOST_FRAGMENTS]


def _matches(saying: Saying, message: str) -> list[re.Match[str]]:
    return list(saying.pattern.finditer(message))


def of_inactive(queue: ClusterQueue) -> Heard | None:
    """Say why a queue lets nobody in; None: it does."""
    said = find(queue.conditions, "Active")
    if said is None or said.status is not False:
        return None
    word = _QUEUE_REASONS.get(said.reason, Word.UNKNOWN)
    counted = unknown("ClusterQueue.Active", said.reason) if word is Word.UNKNOWN else ""
    look_at = f"clusterqueue/{queue.meta.name}"
    if word is Word.UNKNOWN:
        word = Word.QUEUE_INACTIVE
    return Heard(word=word, raw=said.message, look_at=look_at, unknown=counted)


def of_eviction(workload: Workload) -> Heard | None:
    """Say who put a gang out, and why; None: nobody did, or it was let in again since."""
    said = find(workload.conditions, "Evicted")
    if said is None or said.status is not True:
        return None
    word = _EVICTIONS.get(said.reason)
    if word is Word.PREEMPTED_BY_PRIORITY:
        preempted = find(workload.conditions, "Preempted")
        if preempted is not None and preempted.reason in _RECLAIMS:
            word = Word.QUOTA_RECLAIMED
    counted = ""
    if word is None:
        # A cause that is not known yet still says what became of it.
        word = Word.SWITCHED_OFF if said.reason.startswith(_FOR_GOOD) else Word.EVICTED
        counted = unknown("Evicted", said.reason)
    look_at = f"workload/{workload.meta.name}"
    return Heard(word=word, raw=said.message, look_at=look_at, unknown=counted)


def of_former_eviction(workload: Workload) -> Heard | None:
    """Say why a gang was put out that was let in again since; None: it was not."""
    said = find(workload.conditions, "Evicted")
    if said is None or said.status is not False:
        return None
    # Its reason went with the condition: the list of all of them has it, if there was but one.
    reasons = set(workload.evictions)
    word = _EVICTIONS.get(min(reasons)) if len(reasons) == 1 else None
    if word is Word.PREEMPTED_BY_PRIORITY and "within the cohort" in said.message:
        word = Word.QUOTA_RECLAIMED
    look_at = f"workload/{workload.meta.name}"
    return Heard(word=word or Word.EVICTED, raw=said.message, look_at=look_at)


_FINISHES = {
    "FailedToStart": Word.FAILED_TO_START,
    "OutOfSync": Word.OUT_OF_SYNC,
    "OwnerNotFound": Word.OUT_OF_SYNC,
    "WorkloadSliceReplaced": Word.OUT_OF_SYNC,
    "Succeeded": Word.COMPLETED,
    "Failed": Word.GANG_BROKEN,
}


def of_finish(workload: Workload) -> Heard | None:
    """Say how a gang is over in the queue's books; None: it is not."""
    said = find(workload.conditions, "Finished")
    if said is None or said.status is not True:
        return None
    look_at = f"workload/{workload.meta.name}"
    word = _FINISHES.get(said.reason)
    if word is None:
        counted = unknown("Finished", said.reason)
        return Heard(word=Word.UNKNOWN, raw=said.message, look_at=look_at, unknown=counted)
    return Heard(word=word, raw=said.message, look_at=look_at)
