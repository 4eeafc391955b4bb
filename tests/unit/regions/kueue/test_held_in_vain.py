"""Quota that is held by what was put out long ago."""

from dataclasses import replace

from regions.kueue.held_in_vain import PATIENCE_S, SAID, sentences
from regions.kueue.objects.workload import Assignment, Workload
from tests.unit.regions.kueue.tellings import NOW_S, admitted, make_meta, make_workload, said

GPU = "nvidia.com/gpu"


def put_out(name: str = "job", *, ago_s: float = PATIENCE_S + 1.0) -> Workload:
    """A workload of two pod sets that was put out and holds its quota."""
    conditions = (
        said("QuotaReserved", age_s=ago_s + 60.0),
        said("Evicted", "DeactivatedDueToAdmissionCheck", age_s=ago_s),
    )
    sets = tuple(
        Assignment(pod_set=pod_set, count=1, held={("spot", GPU): gpus})
        for pod_set, gpus in (("head", 1), ("workers", 8))
    )
    found = make_workload(*conditions, admitted_to="cq", assignments=sets)
    return replace(found, meta=make_meta(name))


def test_what_was_put_out_long_ago_and_holds_its_quota_is_named() -> None:
    held = "9 nvidia.com/gpu of spot in ClusterQueue cq"
    told = f"Workload training/job was put out and still holds {held}"
    assert sentences([put_out()], NOW_S) == (told,)


def test_what_runs_or_stops_or_gave_it_back_is_not() -> None:
    given_back = replace(put_out(), admitted_to="")
    to_come = replace(put_out(), requeue_at_s=NOW_S + 60.0)
    off = replace(put_out(), is_active=False)
    assert sentences([admitted(), put_out(ago_s=30.0), given_back, to_come, off], NOW_S) == ()


def test_of_many_only_so_many_are_named() -> None:
    told = sentences([put_out(f"job-{at:02}") for at in range(SAID + 5)], NOW_S)
    assert len(told) == SAID + 1
    assert told[0].startswith("Workload training/job-00 ")
    assert told[-1] == "5 more Workloads were put out and hold quota"
