"""All that is known of a cluster at one moment, and which of it is about which of our gangs. Pure.

The rule: an object is a gang of ours by our label and its own name; what only looks like one is
shown under its own name, and never taken for the placement that it says it is. Read ``Scene``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from regions.kueue import names
from regions.kueue.explanation import Evidence
from regions.kueue.manifest import QUEUE_LABEL
from regions.kueue.objects import kinds
from regions.kueue.objects.admission_check import PROVISIONING
from regions.kueue.objects.event import Event
from regions.kueue.objects.job_set import JobSet
from regions.kueue.objects.node import Node
from regions.kueue.objects.pod import Pod
from regions.kueue.objects.provisioning_request import ProvisioningRequest
from regions.kueue.objects.workload import Workload
from regions.kueue.snapshot import Seen, Snapshot

JOB_UID = "kueue.x-k8s.io/job-uid"

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What is known. ``namespace`` is ours. What several gangs need is worked out once.

    ``places`` are those of all who wait, as of a moment ago.
    """

    namespace: str
    snapshot: Snapshot
    job_sets: Seen[JobSet]
    requests: Seen[ProvisioningRequest]
    events: Seen[Event]
    places: Mapping[str, tuple[int, int]]

    @cached_property
    def gangs(self) -> Mapping[str, JobSet]:
        """Our JobSets by placement; one whose name is not that placement's as ``jobset/<name>``,
        which is no placement's, whatever somebody calls it."""
        found: dict[str, JobSet] = {}
        for job_set in self.job_sets.objects.values():
            meta = job_set.meta
            if (
                meta.namespace != self.namespace
                or meta.labels.get(names.MANAGED_BY) != names.MANAGER
            ):
                continue
            placement = meta.annotations.get(names.PLACED, "")
            is_it = bool(placement) and names.jobset_name(placement) == meta.name
            found[placement if is_it else f"jobset/{meta.name}"] = job_set
        return found

    @cached_property
    def uids(self) -> frozenset[str]:
        """The uids of all JobSets that are there, whatever is written on them."""
        return frozenset(each.meta.uid for each in self.job_sets.objects.values())

    @cached_property
    def unreadable(self) -> tuple[str, ...]:
        """The names of JobSets in our namespace that are there and cannot be read."""
        return tuple(key.rpartition("/")[2] for key in self.job_sets.unreadable)

    def workload(self, gang: JobSet) -> Workload | None:
        """Return what Kueue made of a gang, None when it is not seen."""
        return self._workloads.get(gang.meta.uid)

    def pods(self, gang: JobSet) -> tuple[Pod, ...]:
        """Return the pods of a gang that are there now."""
        return tuple(self._pods.get(gang.meta.uid, ()))

    def requests_of(self, workload: Workload | None) -> tuple[ProvisioningRequest, ...]:
        """Return the requests for flex capacity of a workload."""
        return tuple(self._requests.get(workload.meta.uid, ())) if workload is not None else ()

    def place(self, workload: Workload | None) -> tuple[int, int] | None:
        """Return how many stand before a workload in its queue, and their GPUs; None: untold."""
        snapshot = self.snapshot
        seen = (snapshot.workloads, snapshot.local_queues)
        if workload is None or not all(each.is_whole for each in seen):
            return None
        return self.places.get(workload.meta.key)

    def evidence(self, gang: JobSet, now_s: float) -> Evidence:
        """Gather all that is told of one gang. ``now_s`` is in Unix seconds."""
        snapshot, meta = self.snapshot, gang.meta
        workload = self.workload(gang)
        pods, requests = self.pods(gang), self.requests_of(workload)
        name = workload.queue if workload is not None else meta.labels.get(QUEUE_LABEL, "")
        local = snapshot.local_queues.objects.get(f"{self.namespace}/{name}")
        above = (
            snapshot.cluster_queues.objects.get(local.cluster_queue) if local is not None else None
        )
        about = [meta.uid, *(pod.meta.uid for pod in pods), *(one.meta.uid for one in requests)]
        if workload is not None:
            about.append(workload.meta.uid)
        events = [event for uid in about for event in self._events_by_uid.get(uid, ())]
        events += self._events_by_job.get(f"{meta.name}-{names.GANG}-0", ())
        return Evidence(
            now_s=now_s,
            flavor=meta.annotations.get(names.FLAVOR, ""),
            capacity_type=meta.annotations.get(names.OFFERED, ""),
            job_set=gang,
            workload=workload,
            local_queue=local,
            cluster_queue=above,
            pods=tuple(sorted(pods, key=lambda each: each.meta.name)),
            events=tuple(events),
            nodes=self._nodes(pods),
            requests=requests,
            flex_checks=self._flex_checks,
            unseen=self._unseen | self._hidden(meta.name, name),
        )

    def _nodes(self, pods: Iterable[Pod]) -> Mapping[str, Node] | None:
        """Return the machines, None where those of a gang cannot be seen."""
        nodes = self.snapshot.nodes
        is_hidden = any(pod.node in nodes.unreadable for pod in pods)
        return nodes.objects if nodes.is_known and not is_hidden else None

    def _hidden(self, gang: str, queue: str) -> frozenset[str]:
        """What there is of a gang that cannot be read: it is there, whatever it says."""
        snapshot = self.snapshot
        theirs: tuple[tuple[str, Seen[Any], str], ...] = (
            (kinds.WORKLOADS.plural, snapshot.workloads, f"jobset-{gang}-"),
            (kinds.PODS.plural, snapshot.pods, f"{gang}-{names.GANG}-"),
        )
        found = {
            plural
            for plural, seen, stem in theirs
            if any(key.startswith(f"{self.namespace}/{stem}") for key in seen.unreadable)
        }
        if f"{self.namespace}/{queue}" in snapshot.local_queues.unreadable:
            found.add(kinds.LOCAL_QUEUES.plural)
        return frozenset(found)

    @cached_property
    def _workloads(self) -> Mapping[str, Workload]:
        labelled, owned = {}, {}
        for each in self.snapshot.workloads.objects.values():
            if each.meta.namespace == self.namespace:
                labelled[each.meta.labels.get(JOB_UID, "")] = each
                owned[each.meta.owner_uid] = each
        # A label is anybody's to write; whose it is, its owner tells.
        return labelled | owned

    @cached_property
    def _pods(self) -> Mapping[str, list[Pod]]:
        ours = (
            pod
            for pod in self.snapshot.pods.objects.values()
            if pod.meta.namespace == self.namespace
        )
        return _grouped((pod.meta.labels.get(names.GANG_UID, ""), pod) for pod in ours)

    @cached_property
    def _requests(self) -> Mapping[str, list[ProvisioningRequest]]:
        return _grouped((each.meta.owner_uid, each) for each in self.requests.objects.values())

    @cached_property
    def _events_by_uid(self) -> Mapping[str, list[Event]]:
        return _grouped((each.about_uid, each) for each in self.events.objects.values())

    @cached_property
    def _events_by_job(self) -> Mapping[str, list[Event]]:
        jobs = (each for each in self.events.objects.values() if each.about_kind == "Job")
        return _grouped((each.about_name, each) for each in jobs)

    @cached_property
    def _flex_checks(self) -> frozenset[str]:
        checks = self.snapshot.checks.objects.values()
        return frozenset(each.meta.name for each in checks if each.controller == PROVISIONING)

    @cached_property
    def _unseen(self) -> frozenset[str]:
        snapshot = self.snapshot
        watched: tuple[tuple[str, Seen[Any]], ...] = (
            (kinds.WORKLOADS.plural, snapshot.workloads),
            (kinds.LOCAL_QUEUES.plural, snapshot.local_queues),
            (kinds.PODS.plural, snapshot.pods),
        )
        return frozenset(plural for plural, each in watched if not each.is_known)


def _grouped(pairs: Iterable[tuple[str, T]]) -> dict[str, list[T]]:
    found: dict[str, list[T]] = {}
    for key, each in pairs:
        if key:
            found.setdefault(key, []).append(each)
    return found
