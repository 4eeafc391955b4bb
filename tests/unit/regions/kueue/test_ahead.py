"""The line before a queue, in the order in which Kueue looks at it."""

from regions.kueue import ahead
from regions.kueue.ahead import Waiting
from regions.kueue.objects.kinds import WORKLOADS, decode
from regions.kueue.objects.workload import Workload
from tests.unit.regions.kueue import kube

QUEUES = {"team/lq": "cq", "other/lq": "cq", "team/far": "elsewhere"}


def read(raw: kube.Json) -> Workload:
    found = decode(WORKLOADS, "v1beta2", raw)
    assert isinstance(found, Workload), found
    return found


def workload(name: str, **more: object) -> Workload:
    return read(kube.workload(name, **more))  # type: ignore[arg-type]


def names(workloads: list[Workload]) -> list[str]:
    return [each.key for each in ahead.lines(workloads, QUEUES)["cq"]]


def test_priority_goes_first_then_age_then_the_uid() -> None:
    assert names(
        [
            workload("young", created="2026-11-02T00:00:00Z"),
            workload("b"),
            workload("a"),
            workload("high", priority=10, created="2026-11-03T00:00:00Z"),
            workload("theirs", namespace="other", created="2026-10-31T00:00:00Z"),
        ]
    ) == ["team/high", "other/theirs", "team/a", "team/b", "team/young"]


def test_only_who_waits_for_this_queue_stands_in_it() -> None:
    stopped = kube.workload("stopped")
    stopped["spec"]["active"] = False
    assert names(
        [
            workload("here"),
            workload("far", queue="far"),
            workload("nowhere", queue="unknown"),
            workload("admitted", admitted_to="cq"),
            workload("over", conditions=(kube.condition("Finished"),)),
            read(stopped),
        ]
    ) == ["team/here"]


def test_who_was_put_out_for_its_pods_or_a_check_goes_to_the_end_and_the_preempted_does_not() -> (
    None
):
    def evicted(name: str, reason: str, status: str = "True") -> Workload:
        return workload(
            name,
            created="2026-10-01T00:00:00Z",
            conditions=(kube.condition("Evicted", reason=reason, status=status),),
        )

    assert names(
        [
            evicted("slow", "PodsReadyTimeout"),
            evicted("checked", "AdmissionCheck"),
            evicted("preempted", "Preempted"),
            evicted("long-ago", "PodsReadyTimeout", status="False"),
            workload("other", created="2026-10-20T00:00:00Z"),
        ]
    ) == ["team/long-ago", "team/preempted", "team/other", "team/checked", "team/slow"]


def test_it_is_told_how_many_gpus_stand_before() -> None:
    counted = workload(
        "counted", resourceRequests=[{"name": "main", "resources": {"nvidia.com/gpu": "12"}}]
    )
    line = ahead.lines([workload("a"), counted, workload("d")], QUEUES)["cq"]
    assert line[0] == Waiting(
        key="team/a", uid="uid-of-a", priority=0, since_s=1793491200.0, gpus=16
    )
    assert ahead.places({"cq": line}) == {
        "team/a": (0, 0),
        "team/counted": (1, 16),
        "team/d": (2, 28),
    }


def test_who_says_to_ask_for_less_than_nothing_makes_nobody_elses_line_shorter() -> None:
    odd = workload("a", pod_sets=[kube.pod_set(gpus=-1_000)])
    line = ahead.lines([odd, workload("b")], QUEUES)
    assert ahead.places(line) == {"team/a": (0, 0), "team/b": (1, 0)}
