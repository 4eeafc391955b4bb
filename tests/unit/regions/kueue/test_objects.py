"""Reading what a cluster's API answers: the two versions, and answers that nobody should give."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regions.kueue.objects import kinds
from regions.kueue.objects.cluster_queue import CheckRule, ClusterQueue
from regions.kueue.objects.job_set import JobSet
from regions.kueue.objects.kinds import KINDS, Unreadable, decode
from regions.kueue.objects.node import Node
from regions.kueue.objects.pod import ContainerState, Pod
from regions.kueue.objects.quotas import Quota, by_flavor
from regions.kueue.objects.taints import Taint, Toleration, in_the_way
from regions.kueue.objects.workload import Workload
from tests.unit.regions.kueue import kube

GPU = "nvidia.com/gpu"


def workload_of(raw: kube.Json, version: str = "v1beta2") -> Workload:
    found = decode(kinds.WORKLOADS, version, raw)
    assert isinstance(found, Workload), found
    return found


def queue_of(raw: kube.Json, version: str = "v1beta2") -> ClusterQueue:
    found = decode(kinds.CLUSTER_QUEUES, version, raw)
    assert isinstance(found, ClusterQueue), found
    return found


def test_both_versions_of_a_cluster_queue_say_the_same() -> None:
    new = kube.cluster_queue(
        cohort="all",
        quotas={"spot": {"nominalQuota": "16", "borrowingLimit": 8, "lendingLimit": "4"}},
        reserved={"spot": "12"},
        used={"spot": 4},
        admissionChecksStrategy={"admissionChecks": [{"name": "dws"}]},
    )
    old = copy.deepcopy(new)
    old["spec"]["cohort"] = old["spec"].pop("cohortName")
    del old["spec"]["admissionChecksStrategy"]
    old["spec"]["admissionChecks"] = ["dws"]
    read = queue_of(new)
    assert read == queue_of(old, "v1beta1")
    assert by_flavor(read.groups) == {
        ("spot", GPU): Quota(nominal=16, borrowing_limit=8, lending_limit=4)
    }
    assert (read.cohort, read.checks) == ("all", (CheckRule(name="dws", flavors=()),))
    assert (read.reservation, read.usage) == ({("spot", GPU): 12}, {("spot", GPU): 4})


def test_a_queue_whose_status_is_not_written_yet_is_not_an_empty_one() -> None:
    read = queue_of(kube.cluster_queue())
    assert (read.reservation, read.usage) == (None, None)


def test_both_versions_of_a_workload_say_the_same() -> None:
    new = kube.workload(admitted_to="cq")
    new["spec"]["priorityClassRef"] = {
        "group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high",
    }  # fmt: skip
    old = copy.deepcopy(new)
    del old["spec"]["priorityClassRef"]
    old["spec"]["priorityClassName"] = "high"
    old["spec"]["priorityClassSource"] = "kueue.x-k8s.io/workloadpriorityclass"
    assert workload_of(new) == workload_of(old, "v1beta1")
    assert workload_of(new).priority_class == "high"


def test_a_workload_keeps_what_it_holds_and_asks_and_no_template() -> None:
    read = workload_of(
        kube.workload(
            admitted_to="cq",
            held="16",
            reclaimablePods=[{"name": "main", "count": 1}],
            requeueState={"count": 2, "requeueAt": "2026-11-01T00:00:30Z"},
            schedulingStats={
                "evictions": [
                    {"reason": "PodsReadyTimeout", "underlyingCause": "WaitForStart", "count": 1},
                    {"reason": "PodsReadyTimeout", "underlyingCause": "WaitForRecovery"},
                    {"reason": "Deactivated", "underlyingCause": "RequeuingLimitExceeded"},
                ]
            },
        )
    )
    assert read.has_quota
    assert read.assignments[0].held == {("spot", GPU): 16}
    assert read.pod_sets[0].requests == {GPU: 8}
    assert read.reclaimable == {"main": 1}
    assert (read.requeues, read.requeue_at_s) == (2, 1793491230.0)
    assert read.evictions == ("PodsReadyTimeout", "DeactivatedDueToRequeuingLimitExceeded")
    assert not hasattr(read, "template")


def test_a_pod_asks_for_its_containers_or_for_the_worst_of_its_start() -> None:
    def of(**requests: object) -> kube.Json:
        return {"resources": {"requests": requests}}

    raw = kube.workload(
        pod_sets=[
            kube.pod_set()
            | {
                "template": {
                    "spec": {
                        "containers": [of(cpu="2", memory="1Gi"), of(cpu="500m")],
                        "initContainers": [
                            of(cpu="1"),
                            of(cpu="1") | {"restartPolicy": "Always"},
                            of(cpu="8", memory="1"),
                        ],
                        "overhead": {"cpu": "100m"},
                    }
                }
            }
        ]
    )
    assert workload_of(raw).pod_sets[0].requests == {"cpu": 9_100, "memory": 2**30}


def test_a_job_set_has_as_many_members_as_its_jobs_run_pods_at_once() -> None:
    job = {"parallelism": 4, "completions": 3}
    raw = {
        "metadata": kube.meta("run", namespace="team"),
        "spec": {
            "suspend": True,
            "replicatedJobs": [{"name": "a", "replicas": 2, "template": {"spec": job}}, {}],
        },
        "status": {"terminalState": "Failed", "restarts": 1},
    }
    read = decode(kinds.JOB_SETS, "v1alpha2", raw)
    assert isinstance(read, JobSet)
    assert (read.members, read.is_suspended, read.terminal_state) == (7, True, "Failed")


def test_a_pod_tells_how_its_containers_ended() -> None:
    ended = {"terminated": {"exitCode": 137, "signal": 9, "reason": "OOMKilled"}}
    raw = kube.pod(containerStatuses=[{"name": "train", "state": ended, "restartCount": 0}])
    read = decode(kinds.PODS, "v1", raw)
    assert isinstance(read, Pod)
    assert read.requests == {GPU: 8}
    assert read.containers == (
        ContainerState(
            name="train",
            is_init=False,
            is_ready=False,
            state="terminated",
            reason="OOMKilled",
            message="",
            exit_code=137,
            signal=9,
            restarts=0,
            started_s=None,
            finished_s=None,
        ),
    )


def test_a_node_tells_its_planned_end_and_survives_a_nonsense_one() -> None:
    key = "node.gke.io/machine-termination-datetime"
    ends = []
    for text in ("2026-11-08T00:00:00Z", "soon"):
        raw = kube.node()
        raw["metadata"]["annotations"] = {key: text, "a/whole-manifest": "x" * 10_000}
        read = decode(kinds.NODES, "v1", raw)
        assert isinstance(read, Node)
        ends.append(read.planned_end_s)
    assert ends == [1794096000.0, None]


def test_a_taint_is_borne_as_kubernetes_says() -> None:
    gpu = Taint(key=GPU, value="present", effect="NoSchedule")
    leaving = Taint(key="ToBeDeleted", value="", effect="NoSchedule")
    soft = Taint(key="other", value="", effect="PreferNoSchedule")
    own = Toleration(key=GPU, operator="Exists")
    assert in_the_way((gpu, leaving, soft), (own,)) == (leaving,)
    assert in_the_way((gpu,), (Toleration(key=GPU, value="absent"),)) == (gpu,)
    assert in_the_way((gpu,), (Toleration(key=GPU, value="present", effect="NoExecute"),)) == (gpu,)
    assert in_the_way((gpu, leaving), (Toleration(key="", operator="Exists"),)) == ()


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("spec", "priority"), "high", "spec.priority is a text, no whole number"),
        (("spec", "priority"), True, "spec.priority is a truth value, no whole number"),
        (("spec", "podSets"), {}, "spec.podSets is an object, no list"),
        (("spec", "podSets"), [{}] * 5_000, "spec.podSets has 5000 items"),
        (("spec", "podSets"), [{"count": -1}], "spec.podSets[0].count is -1, less than nothing"),
        (("spec", "active"), "yes", "spec.active is a text, no truth value"),
        (("spec", "queueName"), "q" * 5_000, "spec.queueName has 5000 characters"),
        (("status",), [], "status is a list, no object"),
        (("metadata", "uid"), None, "metadata has no name or no uid"),
        (("metadata", "creationTimestamp"), "soon", "metadata.creationTimestamp is no time"),
    ],
)
def test_an_object_that_cannot_be_read_is_kept_with_its_reason(
    path: tuple[str, ...], value: object, reason: str
) -> None:
    raw = kube.workload()
    at = raw
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    read = decode(kinds.WORKLOADS, "v1beta2", raw)
    uid = "" if path[-1] == "uid" else "uid-of-wl"
    key = "team/wl"
    assert read == Unreadable(key=key, uid=uid, reason=f"workloads.kueue.x-k8s.io {key}: {reason}")


def test_words_for_people_are_cut_and_never_refused() -> None:
    raw = kube.workload(conditions=(kube.condition("Evicted", message="x" * 100_000),))
    assert len(workload_of(raw).conditions[0].message) == 2048


def test_of_a_log_the_last_words_are_kept() -> None:
    ended = {"terminated": {"exitCode": 1, "message": "step\n" * 4000 + "CUDA out of memory"}}
    raw = kube.pod(containerStatuses=[{"name": "train", "state": ended, "restartCount": 0}])
    read = decode(kinds.PODS, "v1", raw)
    assert isinstance(read, Pod)
    assert len(read.containers[0].message) == 2048
    assert read.containers[0].message.endswith("CUDA out of memory")


def test_equal_words_are_one_object_in_memory() -> None:
    one, other = (workload_of(kube.workload(name, queue="".join("lq"))) for name in ("a", "b"))
    assert one.queue is other.queue


GOOD: tuple[kube.Json, ...] = (
    kube.cluster_queue(cohort="all", reserved={"spot": 1}, used={"spot": 1}),
    kube.workload(admitted_to="cq", reclaimablePods=[{"name": "main", "count": 1}]),
    kube.node(taints=[{"key": "a", "effect": "NoSchedule"}]),
    kube.pod(containerStatuses=[{"name": "a", "state": {"waiting": {"reason": "b"}}}]),
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["8", "1e3", "2026-11-01T00:00:00Z", "9999-12-31T23:59:59.9999999+23:59"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


def places(raw: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    steps = (
        raw.items() if isinstance(raw, dict) else enumerate(raw) if isinstance(raw, list) else ()
    )
    for step, inner in steps:
        yield from places(inner, (*at, step))


@given(st.data(), st.sampled_from(GOOD), JSON)
def test_nothing_that_an_api_answers_raises(data: st.DataObject, good: kube.Json, bad: Any) -> None:
    raw: Any = copy.deepcopy(good)
    at = data.draw(st.sampled_from(list(places(raw))))
    if at:
        inner = raw
        for step in at[:-1]:
            inner = inner[step]
        inner[at[-1]] = bad
    else:
        raw = bad
    for kind in KINDS:
        for version in kind.versions:
            read = decode(kind, version, raw)
            assert isinstance(read, Unreadable) or read.meta.key  # type: ignore[attr-defined]
