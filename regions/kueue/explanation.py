"""From all that a cluster tells of one gang to the one thing to say of it. Pure.

The rule: one verdict, of what decides; in the order in which one thing makes another meaningless: a
gang that is being removed waits for nothing, one that was put out did not fail, one that failed
does not wait for quota. Read ``explain`` first.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from regions.kueue import check_hearing, end_hearing, queue_hearing, start_hearing
from regions.kueue.hearing import Heard
from regions.kueue.manifest import QUEUE_LABEL
from regions.kueue.objects import kinds
from regions.kueue.objects.cluster_queue import ClusterQueue
from regions.kueue.objects.event import Event
from regions.kueue.objects.job_set import JobSet
from regions.kueue.objects.local_queue import LocalQueue
from regions.kueue.objects.meta import find
from regions.kueue.objects.node import Node
from regions.kueue.objects.pod import Pod
from regions.kueue.objects.provisioning_request import ProvisioningRequest
from regions.kueue.objects.workload import Workload
from regions.kueue.vocabulary import Word
from regions.kueue.words import DETAIL_CHARACTERS, Row, Verdict, cleaned
from regions.kueue.words_end import END_ROWS
from regions.kueue.words_queue import QUEUE_ROWS
from regions.kueue.words_start import START_ROWS

ROWS: Mapping[Word, Row] = {**QUEUE_ROWS, **START_ROWS, **END_ROWS}

WEDGED_S = 60.0
"""Between an eviction and the release of its quota, a cluster that works lets seconds pass."""
UNSEEN_S = 60.0
"""A gang that Kueue has not made a workload of for so long is one that it does not see."""
IGNORED_S = 300.0
"""One that stands first in its line, and of which Kueue says nothing for so long, is passed over: a
cluster that is busy comes to the first of each line every few seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a cluster tells of one gang. Times are Unix seconds by the cluster's clock.

    None: it is not there, unless its kind is among ``unseen``, by its name in the API; for
    ``nodes``, by name: they cannot be seen. ``events`` are those about its objects.
    ``flex_checks`` names the checks that ask for flex capacity, ``flavor`` and ``capacity_type``
    are what the gang was offered.
    """

    now_s: float
    flavor: str
    capacity_type: str
    job_set: JobSet
    workload: Workload | None
    local_queue: LocalQueue | None
    cluster_queue: ClusterQueue | None
    pods: tuple[Pod, ...] = ()
    events: tuple[Event, ...] = ()
    nodes: Mapping[str, Node] | None = None
    requests: tuple[ProvisioningRequest, ...] = ()
    flex_checks: frozenset[str] = frozenset()
    unseen: frozenset[str] = frozenset()


def explain(evidence: Evidence) -> Verdict:
    """Say what becomes of a gang, and why."""
    for look in (_removal, _wedge, _eviction, _end, _queue, _checks, _start):
        heard = look(evidence)
        if heard is not None:
            return verdict(heard)
    raise AssertionError("the last look always says something")


def start_of(evidence: Evidence) -> Verdict:
    """Say how far a gang is on its machines, whatever else is said of it."""
    return verdict(_start(evidence))


def verdict(heard: Heard) -> Verdict:
    """Return what is to be said of a word that was heard."""
    row = ROWS[heard.word]
    detail = cleaned(heard.detail, DETAIL_CHARACTERS)
    return Verdict(
        word=heard.word.value,
        cause=row.cause,
        fault=row.fault,
        sentence=f"{row.sentence}: {detail}" if detail else row.sentence,
        advice=row.advice,
        deed=row.deed,
        look_at=cleaned(heard.look_at),
        raw=cleaned(heard.raw),
        unknown=heard.unknown,
        member=heard.member,
    )


def _removal(evidence: Evidence) -> Heard | None:
    meta = evidence.job_set.meta
    if meta.deleting_s is None:
        return None
    return Heard(word=Word.BEING_REMOVED, look_at=f"jobset/{meta.name}")


def _wedge(evidence: Evidence) -> Heard | None:
    """Put out and holding quota, with nothing running, for longer than letting go takes.

    Nothing in the cluster moves such a gang again; only its removal gives the quota back.
    """
    workload = evidence.workload
    if workload is None or not (workload.has_quota and workload.holds("Evicted")):
        return None
    if not workload.is_active:  # who switched it off says why, and its quota is free
        return None
    times = [each.since_s for each in workload.conditions if each.since_s is not None]
    alive = any(not pod.is_over for pod in evidence.pods) or _may_run(evidence)
    is_to_come = workload.requeue_at_s is not None and workload.requeue_at_s > evidence.now_s
    if alive or is_to_come or not times or evidence.now_s - max(times) <= WEDGED_S:
        return None
    said = find(workload.conditions, "Evicted")
    raw = said.message if said is not None else ""
    return Heard(word=Word.WEDGED, raw=raw, look_at=f"workload/{workload.meta.name}")


def _may_run(evidence: Evidence) -> bool:
    """Whether something of it may run that is not among its pods."""
    active = any(job.active for job in evidence.job_set.jobs)
    return active or kinds.PODS.plural in evidence.unseen


def _eviction(evidence: Evidence) -> Heard | None:
    workload = evidence.workload
    heard = queue_hearing.of_eviction(workload) if workload is not None else None
    if heard is None or heard.word not in (Word.EVICTED_BY_CHECK, Word.CHECK_REJECTED):
        return heard
    # The request for flex capacity knows why its check put the gang out.
    newest = check_hearing.newest(evidence.requests)
    if newest is None:
        return heard
    why = check_hearing.of_request(newest)
    return why if why.word in _FLEX_ENDS else heard


_FLEX_ENDS = frozenset(
    {
        Word.FLEX_FAILED,
        Word.FLEX_BOOKING_EXPIRED,
        Word.FLEX_CAPACITY_REVOKED,
        Word.CLOUD_QUOTA_EXCEEDED,
        Word.POOL_AT_ITS_MAXIMUM,
        Word.NO_ADDRESSES_LEFT,
    }
)


def _end(evidence: Evidence) -> Heard | None:
    failed = end_hearing.first_failed(
        evidence.pods, evidence.nodes, capacity_type=evidence.capacity_type
    )
    if failed is not None:
        return failed
    job_set, workload = evidence.job_set, evidence.workload
    if job_set.terminal_state == "Completed":
        return Heard(word=Word.COMPLETED, look_at=f"jobset/{job_set.meta.name}")
    finished = queue_hearing.of_finish(workload) if workload is not None else None
    if finished is not None and finished.word is not Word.GANG_BROKEN:
        return finished
    if finished is None and job_set.terminal_state != "Failed":
        return None
    said = find(job_set.conditions, "Failed")
    raw = said.message if said is not None else ""
    return Heard(word=Word.GANG_BROKEN, raw=raw, look_at=f"jobset/{job_set.meta.name}")


def _queue(evidence: Evidence) -> Heard | None:
    workload, queue = evidence.workload, evidence.local_queue
    if workload is not None and workload.has_quota:
        return None
    if workload is None and kinds.WORKLOADS.plural in evidence.unseen:
        return None if not evidence.job_set.is_suspended else _not_seen(kinds.WORKLOADS.plural)
    if queue is None and kinds.LOCAL_QUEUES.plural in evidence.unseen:
        return _of_workload(evidence)
    if queue is None:
        labels = evidence.job_set.meta.labels
        name = workload.queue if workload is not None else labels.get(QUEUE_LABEL, "")
        return Heard(word=Word.QUEUE_MISSING, detail=name, look_at=f"localqueue/{name}")
    if queue.stop_policy != "None":
        return Heard(word=Word.QUEUE_STOPPED, look_at=f"localqueue/{queue.meta.name}")
    inactive = (
        queue_hearing.of_inactive(evidence.cluster_queue)
        if evidence.cluster_queue is not None
        else None
    )
    if inactive is not None:
        return inactive
    return _of_workload(evidence)


def _of_workload(evidence: Evidence) -> Heard:
    if evidence.workload is not None:
        return queue_hearing.of_waiting(
            evidence.workload,
            evidence.cluster_queue,
            flavor=evidence.flavor,
            now_s=evidence.now_s,
        )
    meta = evidence.job_set.meta
    age_s = 0.0 if meta.created_s is None else evidence.now_s - meta.created_s
    if age_s <= UNSEEN_S:
        return Heard(word=Word.NOT_LOOKED_AT_YET, look_at=f"jobset/{meta.name}")
    silence = f"Kueue has made no workload of it for {age_s:.0f} s"
    return Heard(word=Word.NOT_TAKEN_UP, raw=silence, look_at=f"jobset/{meta.name}")


def is_ignored(evidence: Evidence) -> bool:
    """Whether Kueue has said nothing of a gang for longer than its turn takes to come."""
    workload = evidence.workload
    if workload is None:
        return False
    told = [each.since_s for each in workload.conditions if each.since_s is not None]
    heard_s = max(told, default=workload.meta.created_s)
    return heard_s is not None and evidence.now_s - heard_s > IGNORED_S


def _not_seen(plural: str) -> Heard:
    return Heard(word=Word.NOT_SEEN, raw=f"{plural} cannot be seen")


def _checks(evidence: Evidence) -> Heard | None:
    workload = evidence.workload
    if workload is None or workload.holds("Admitted"):
        return None
    return check_hearing.of_checks(workload, evidence.requests, evidence.flex_checks)


def _start(evidence: Evidence) -> Heard:
    if not evidence.pods and kinds.PODS.plural in evidence.unseen:
        return _not_seen(kinds.PODS.plural)
    return start_hearing.of_start(
        evidence.pods,
        evidence.events,
        evidence.nodes,
        wanted=evidence.job_set.members,
        now_s=evidence.now_s,
    )
