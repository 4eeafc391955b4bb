"""What a cluster tells of one gang, as frozen values: each maker is valid without an argument."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from regions.kueue.explanation import Evidence
from regions.kueue.objects.cluster_queue import ClusterQueue
from regions.kueue.objects.event import Event
from regions.kueue.objects.job_set import JobSet
from regions.kueue.objects.local_queue import LocalQueue
from regions.kueue.objects.meta import Condition, Meta
from regions.kueue.objects.node import Node
from regions.kueue.objects.pod import ContainerState, Pod
from regions.kueue.objects.provisioning_request import ProvisioningRequest
from regions.kueue.objects.workload import CheckState, Workload

NOW_S = 1_000_000.0
JOB_SET = "cb-k3v9q0aa1b2c"


def make_meta(name: str, **changes: Any) -> Meta:
    """An object that was created a second ago."""
    meta = Meta(
        name=name,
        namespace="training",
        uid=f"uid-{name}",
        resource_version="1",
        created_s=NOW_S - 1.0,
        deleting_s=None,
        labels={},
        annotations={},
        owner_kind="",
        owner_name="",
        owner_uid="",
    )
    return replace(meta, **changes)


def said(
    type_: str, reason: str = "", message: str = "", *, status: bool = True, age_s: float = 1.0
) -> Condition:
    """One condition."""
    return Condition(
        type=type_, status=status, reason=reason, message=message, since_s=NOW_S - age_s
    )


def make_workload(*conditions: Condition, **changes: Any) -> Workload:
    """A gang's workload in queue ``ours``."""
    workload = Workload(
        meta=make_meta("jobset-it"),
        queue="ours",
        priority=0,
        priority_class="",
        is_active=True,
        pod_sets=(),
        admitted_to="",
        assignments=(),
        asked={},
        reclaimable={},
        checks=(),
        requeue_at_s=None,
        requeues=0,
        evictions=(),
        conditions=conditions,
    )
    return replace(workload, **changes)


def waiting(reason: str, message: str = "", **changes: Any) -> Workload:
    """A workload without quota, and why."""
    return make_workload(said("QuotaReserved", reason, message, status=False), **changes)


def reserved(*conditions: Condition, **changes: Any) -> Workload:
    """A workload that holds quota."""
    quota = said("QuotaReserved", "QuotaReserved")
    return make_workload(quota, *conditions, admitted_to="cq", **changes)


def admitted(*conditions: Condition, **changes: Any) -> Workload:
    """A workload that was let in."""
    return reserved(said("Admitted", "Admitted"), *conditions, **changes)


def check(name: str, state: str, message: str = "") -> CheckState:
    """How far an admission check is."""
    return CheckState(
        name=name,
        state=state,
        message=message,
        since_s=NOW_S - 1.0,
        requeue_after_s=None,
        retries=0,
    )


def make_container(state: str = "running", reason: str = "", message: str = "", **more: Any) -> Any:
    """What the training container does."""
    container = ContainerState(
        name="train",
        is_init=False,
        is_ready=state == "running",
        state=state,
        reason=reason,
        message=message,
        exit_code=None,
        signal=None,
        restarts=0,
        started_s=None,
        finished_s=None,
    )
    return replace(container, **more)


def make_pod(rank: int = 0, container: ContainerState | None = None, **changes: Any) -> Pod:
    """A member on its machine, running; without a machine when ``node`` is empty."""
    pod = Pod(
        meta=make_meta(f"{JOB_SET}-g-0-{rank}"),
        node=f"node-{rank}",
        phase="Running",
        reason="",
        message="",
        requests={},
        gates=(),
        selector={},
        tolerations=(),
        containers=(make_container() if container is None else container,),
        conditions=(),
        grace_s=None,
    )
    return replace(pod, **changes)


def unbound(rank: int = 0, *conditions: Condition, **changes: Any) -> Pod:
    """A member without a machine."""
    return make_pod(rank, node="", phase="Pending", containers=(), conditions=conditions, **changes)


def stuck(reason: str, message: str = "", **changes: Any) -> Pod:
    """A member whose container waits on its machine."""
    return make_pod(0, make_container("waiting", reason, message), phase="Pending", **changes)


def ended(
    exit_code: int | None = 1,
    message: str = "",
    *,
    rank: int = 0,
    reason: str = "Error",
    signal: int | None = None,
    finished_s: float = NOW_S - 5.0,
    status_reason: str = "",
    status_message: str = "",
    **changes: Any,
) -> Pod:
    """A member whose process ended; ``status_...`` is what is said of the pod as a whole."""
    container = make_container(
        "terminated", reason, message, exit_code=exit_code, signal=signal, finished_s=finished_s
    )
    status = {"phase": "Failed", "reason": status_reason, "message": status_message}
    return make_pod(rank, container, **{**status, **changes})


def make_event(reason: str, message: str = "", *, about: Pod | None = None, **more: Any) -> Event:
    """A warning about a member, or about the gang's job."""
    event = Event(
        meta=make_meta("event"),
        about_kind="Pod" if about else "Job",
        about_namespace="training",
        about_name=about.meta.name if about else f"{JOB_SET}-g-0",
        about_uid=about.meta.uid if about else "uid-job",
        reason=reason,
        message=message,
        is_warning=True,
        source="tests",
        count=1,
        last_s=NOW_S - 10.0,
    )
    return replace(event, **more)


def make_node(name: str = "node-0", **changes: Any) -> Node:
    """A machine that works."""
    node = Node(
        meta=make_meta(name),
        is_cordoned=False,
        taints=(),
        allocatable={},
        conditions=(said("Ready"),),
        planned_end_s=None,
    )
    return replace(node, **changes)


def make_request(*conditions: Condition, **changes: Any) -> ProvisioningRequest:
    """A request for flex capacity."""
    request = ProvisioningRequest(
        meta=make_meta("jobset-it-dws-1"),
        class_name="queued-provisioning.gke.io",
        parameters={},
        pods=2,
        details={},
        conditions=conditions,
    )
    return replace(request, **changes)


def make_local_queue(**changes: Any) -> LocalQueue:
    """The door to the queue."""
    queue = LocalQueue(
        meta=make_meta("ours"), cluster_queue="cq", stop_policy="None", pending=0, conditions=()
    )
    return replace(queue, **changes)


def make_cluster_queue(*conditions: Condition, **changes: Any) -> ClusterQueue:
    """A queue that lets gangs in."""
    queue = ClusterQueue(
        meta=make_meta("cq"),
        cohort="",
        strategy="BestEffortFIFO",
        groups=(),
        stop_policy="None",
        checks=(),
        reservation=None,
        usage=None,
        pending=0,
        conditions=conditions or (said("Active", "Ready"),),
    )
    return replace(queue, **changes)


def make_job_set(**changes: Any) -> JobSet:
    """A gang of two."""
    job_set = JobSet(
        meta=make_meta(JOB_SET),
        is_suspended=True,
        members=2,
        restarts=0,
        terminal_state="",
        jobs=(),
        conditions=(),
    )
    return replace(job_set, **changes)


def make_evidence(**changes: Any) -> Evidence:
    """A gang of two on spot that has just been queued."""
    nodes: Mapping[str, Node] = {f"node-{rank}": make_node(f"node-{rank}") for rank in range(2)}
    evidence = Evidence(
        now_s=NOW_S,
        flavor="h100-spot",
        capacity_type="SPOT",
        job_set=make_job_set(),
        workload=make_workload(),
        local_queue=make_local_queue(),
        cluster_queue=make_cluster_queue(),
        nodes=nodes,
    )
    return replace(evidence, **changes)
