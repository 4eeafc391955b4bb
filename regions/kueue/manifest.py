"""From an order to queue to the objects that are sent for it. Pure.

The rule: the same order gives the same objects, so that a repeated one meets those of its first
time, and what a cluster could not hold to is refused before anything is created.

The order of creation, and what a crash between two of them leaves:

1. ``launcher``, the program's ConfigMap. It is one for all gangs of a namespace, named by its own
   bytes and immutable: it is there before any pod can want it, costs a start no request, and takes
   no part in any gang's life. Left alone it is a file that nobody reads.
2. ``jobset``, suspended. Kueue may admit it at once. Left alone, its gang stands at the gate
   without an enclave: the launcher runs, and nothing of the run does, for no grant is written
   before the enclave was seen (``apart``). The order comes once more with the grant; if none comes,
   the gang leaves its gate by itself and gives its machines back.
3. ``enclave``, the NetworkPolicy, owned by the JobSet, whose uid is known only now: whatever
   removes the JobSet removes it, a moment before the last process of the gang has gone.

Read ``build`` first.
"""

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from regions.cluster import Queue
from regions.kueue import names, profiles
from regions.kueue.enclave import network_policy
from regions.kueue.environment import LAUNCHER_FILE
from regions.kueue.objects.job_set import JobSet
from regions.kueue.pod import memory_bytes, pod_template
from regions.kueue.refusals import problems
from regions.kueue.site import Site, own_class, priority_class

JOBSET_API = "jobset.x-k8s.io/v1alpha2"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
FLEX_RUN_ANNOTATION = "provreq.kueue.x-k8s.io/maxRunDurationSeconds"
OCCUPIED = names.PREFIX + "occupied"
"""The manager of a JobSet that only takes a name."""
MOST_FLEX_RUN_S = 604_800.0
"""Seven days: a flex-start machine is not given for longer."""


KEPT_S = 259_200
"""Three days: a gang that is over is shown for so long, and then removed by the cluster itself; a
broker that was away over a weekend still finds how it ended."""


class CannotQueueError(Exception):
    """The cluster cannot be asked for this gang, now or later; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What is sent for a placement, in order of its creation, and what is worth saying of it."""

    launcher: dict[str, Any]
    jobset: dict[str, Any]
    enclave: dict[str, Any]
    notes: tuple[str, ...]


def build(queue: Queue, site: Site, packed: bytes) -> Built:
    """Return what is sent for a placement. ``packed`` is the launcher's zipapp.

    Raises CannotQueueError.
    """
    found = problems(queue, site)
    if found:
        raise CannotQueueError("; ".join(found))
    program = launcher(packed, site.namespace)
    return Built(
        launcher=program,
        jobset=_jobset(queue, site, program["metadata"]["name"]),
        enclave=network_policy(queue, site),
        notes=_notes(queue, site),
    )


def what_stays(queue: Queue) -> Queue:
    """Return an order without what may change between it and its repeat.

    What the placement is follows from the run's workload and the offer, and stays. What ops set for
    the region and the run's own terms can be others by then, and the gang is the same one.
    """
    return replace(queue, priority=0, granted_priority=0, gate_timeout_s=0.0, stop_grace_s=0.0)


def digest(queue: Queue) -> str:
    """Return what tells an order from every other one, granted or not when it is sent."""
    plain = replace(queue, env=dict(queue.env), labels=dict(queue.labels), is_granted=False)
    return hashlib.sha256(msgspec.json.encode(plain, order="sorted")).hexdigest()


def launcher(packed: bytes, namespace: str) -> dict[str, Any]:
    """Return the ConfigMap that carries the launcher into every gang of a namespace."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": names.launcher_name(packed),
            "namespace": namespace,
            "labels": {names.MANAGED_BY: names.MANAGER, names.PART: names.LAUNCHER_PART},
        },
        "immutable": True,
        "binaryData": {LAUNCHER_FILE: base64.b64encode(packed).decode("ascii")},
    }


def granted_class(gang: JobSet, classes: dict[str, int]) -> str:
    """Return the priority class that a gang is raised to, empty when it stays what it is.

    A class can be changed on a gang that waits or runs, and not be added to one that has none.
    """
    told = gang.meta.annotations
    text, more = told.get(names.OWN), 0
    if text is None:
        text, more = told.get(names.RAISED, ""), names.RAISED_BY
    is_number = text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 12
    if not is_number or PRIORITY_LABEL not in gang.meta.labels:
        return ""
    return own_class(classes, int(text) - more)


def owned(child: dict[str, Any], jobset: str, uid: str) -> dict[str, Any]:
    """Return an object that goes with the very JobSet that has this uid."""
    reference = {
        "apiVersion": JOBSET_API,
        "kind": "JobSet",
        "name": jobset,
        "uid": uid,
        "controller": False,
        # To block it asks for a right over the owner that nothing else here needs.
        "blockOwnerDeletion": False,
    }
    return {**child, "metadata": {**child["metadata"], "ownerReferences": [reference]}}


def occupant(placement: str, run_key: str, namespace: str) -> dict[str, Any]:
    """Return what takes a placement's name, so that an order that is late finds it taken.

    A JobSet that nobody carries out: it names a manager that is neither JobSet nor Kueue.
    """
    labels = names.labels({}, placement=placement, run_key=run_key)
    annotations = {names.PLACED: placement, names.KEYED: run_key}
    container = {"name": "none", "image": "none", "command": ["false"]}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {"spec": {"parallelism": 1, "completions": 1, "backoffLimit": 0, "template": pod}}
    return {
        "apiVersion": JOBSET_API,
        "kind": "JobSet",
        "metadata": {
            "name": names.jobset_name(placement),
            "namespace": namespace,
            "labels": {**labels, names.PART: names.OCCUPIED_PART},
            "annotations": annotations,
        },
        "spec": {
            "suspend": True,
            "managedBy": OCCUPIED,
            "replicatedJobs": [{"name": names.GANG, "replicas": 1, "template": job}],
        },
    }


def _jobset(queue: Queue, site: Site, program: str) -> dict[str, Any]:
    labels = names.labels(queue.labels, placement=queue.placement, run_key=queue.run_key)
    labels[QUEUE_LABEL] = queue.queue
    # The class can be changed while the gang waits or runs, and neither added nor taken away.
    classes = site.priority_classes
    if queue.is_granted:
        priority = own_class(classes, queue.granted_priority)
    else:
        priority = priority_class(classes, queue.priority)
    if priority:
        labels[PRIORITY_LABEL] = priority
    annotations = {
        names.TOLD: names.told_annotation(queue.labels),
        names.PLACED: queue.placement,
        names.KEYED: queue.run_key,
        names.FLAVOR: queue.flavor,
        names.OFFERED: queue.capacity_type,
        names.OWN: str(queue.granted_priority),
        names.ORDER: digest(what_stays(queue)),
        names.SENT: digest(queue),
    }
    if queue.capacity_type == "FLEX" and queue.max_run_s is not None:
        annotations[FLEX_RUN_ANNOTATION] = str(int(min(queue.max_run_s, MOST_FLEX_RUN_S)))
    return {
        "apiVersion": JOBSET_API,
        "kind": "JobSet",
        "metadata": {
            "name": names.jobset_name(queue.placement),
            "namespace": site.namespace,
            "labels": labels,
            "annotations": annotations,
        },
        "spec": {
            "suspend": True,
            # Any end of any member ends the placement: a new start is a new placement.
            "failurePolicy": {"maxRestarts": 0, "restartStrategy": "Recreate"},
            "successPolicy": {"operator": "All"},
            "ttlSecondsAfterFinished": KEPT_S,
            # Names resolve before the processes are ready: they meet while they stand at the gate.
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "replicatedJobs": [
                {"name": names.GANG, "replicas": 1, "template": _job(queue, site, program)}
            ],
        },
    }


def _job(queue: Queue, site: Site, program: str) -> dict[str, Any]:
    return {
        "spec": {
            "completionMode": "Indexed",
            "parallelism": queue.gang.ranks,
            "completions": queue.gang.ranks,
            "backoffLimit": 0,
            # A rank that is on its way out is not yet gone: two of one rank never run.
            "podReplacementPolicy": "Failed",
            "template": pod_template(queue, site, launcher=program),
        },
    }


def _notes(queue: Queue, site: Site) -> tuple[str, ...]:
    notes = list(profiles.widenings(site.profile))
    if queue.service_account_token:
        account = queue.service_account or "the namespace's default service account"
        notes.append(f"Its processes can speak to the cluster as {account}, as the run asks.")
    if queue.internet:
        notes.append("Its processes reach the internet on port 443, as the run asks.")
    notes.extend(_far_buckets(queue, site))
    if memory_bytes(queue, site.profile) is None:
        notes.append("Its memory has no bound: neither the run nor the profile names one.")
    if not site.priority_classes:
        notes.append(
            "No priority class of the cluster is for the broker's gangs: a gang that waits has the"
            " cluster's default priority, and preempts what one that trains does."
        )
    return tuple(notes)


def _far_buckets(queue: Queue, site: Site) -> Iterable[str]:
    """Say which buckets the enclave keeps the gang from: gcsfuse and launcher run within it."""
    profile = site.profile
    if queue.internet or site.store_reach or profile.reach or profile.is_on_host_network:
        return
    names = [f"bucket {volume.bucket}" for volume in profile.volumes if volume.bucket]
    if site.bucket is not None:
        names.append(f"the store, {site.bucket.location}")
    for name in names:
        yield (
            f"Its enclave lets nothing through to {name}: name Google's range"
            " in reach of the profile, or in store_reach of the cluster."
        )
