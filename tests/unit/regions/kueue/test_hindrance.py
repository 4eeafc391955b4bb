"""What was in the way of a gang that its cluster put out for being late, whoever was seen first."""

from typing import Any

import pytest

from regions.cluster import Cause
from regions.kueue.signals import Signals
from regions.kueue.words import Deed
from tests.unit.regions.kueue.tellings import (
    NOW_S,
    admitted,
    make_event,
    make_pod,
    said,
    stuck,
    unbound,
)
from tests.unit.regions.kueue.test_members import known, member
from tests.unit.regions.kueue.test_views import Story, gang, up

LATE = said("Evicted", "PodsReadyTimeout", "Exceeded the PodsReady timeout training/it")
PUT_OUT = "The cluster put it out, because not all of its processes had started in time"
PARTIAL = "some of its machines came, and the rest cannot be had: 1 of 2 are here"
BACK = admitted(
    said("Evicted", "QuotaReserved", "Previously: Exceeded", status=False, age_s=0.0),
    evictions=("PodsReadyTimeout",),
)


def before(*pods: Any, **changes: Any) -> Story:
    """A gang that was let in, as it is seen before it is put out."""
    story = Story()
    story.see(gang(is_suspended=False), workload=admitted(), pods=pods, **changes)
    return story


def one_came() -> list[Any]:
    return [*up(0), member(unbound(1), 1)]


def no_more() -> Any:
    return make_event("FailedScaleUp", "GCE out of resources", about=member(unbound(1), 1))


@pytest.mark.parametrize(
    ("story", "then", "expected", "cause"),
    [
        pytest.param(
            before(*one_came(), events=known(no_more())),
            {"workload": admitted(LATE)},
            f"{PUT_OUT}: {PARTIAL}. Accept other",
            Cause.PARTIAL_ARRIVAL,
            id="it was said before",
        ),
        pytest.param(
            Story(),
            {"workload": admitted(LATE), "pods": one_came(), "events": known(no_more())},
            f"{PUT_OUT}: {PARTIAL}. Accept other",
            Cause.PARTIAL_ARRIVAL,
            id="it is first seen as it is put out",
        ),
        pytest.param(
            before(*one_came()),
            {"workload": admitted(LATE)},
            f"{PUT_OUT}: {PARTIAL}. Accept other",
            Cause.PARTIAL_ARRIVAL,
            id="nobody said so, and a part of it came",
        ),
        pytest.param(
            before(*one_came()),
            {"workload": BACK, "job_set": gang(is_suspended=False)},
            f"{PUT_OUT}: {PARTIAL}. Accept other",
            Cause.PARTIAL_ARRIVAL,
            id="it was let in again before anybody saw",
        ),
        pytest.param(
            before(member(stuck("InvalidImageName"), 0), member(make_pod(1), 1)),
            {"workload": admitted(LATE)},
            f"{PUT_OUT}: the image's name is none",
            Cause.IMAGE_PULL_FAILING,
            id="it was an image",
        ),
        pytest.param(
            before(*up(0, 1)), {"workload": admitted(LATE)}, f"{PUT_OUT}.", Cause.NONE, id="unknown"
        ),
        pytest.param(
            before(*one_came()),
            {"workload": admitted(said("Evicted", "Preempted"))},
            "A run of higher priority in its queue took its place.",
            Cause.NONE,
            id="it was not late",
        ),
    ],
)
def test_what_was_in_the_way_of_a_gang_that_was_late_is_told(
    story: Story, then: dict[str, Any], expected: str, cause: Cause
) -> None:
    job_set = then.pop("job_set", gang())
    shown = story.see(job_set, **then)["p1"]
    assert (shown.seen.cause, shown.said.hindrance) == (Cause.EVICTED, cause)
    assert shown.seen.message.startswith(expected)
    again = story.see(gang(), workload=admitted(LATE))["p1"]
    assert again.seen.message == shown.seen.message


def test_who_was_late_by_its_users_fault_is_put_out_by_that() -> None:
    image = before(member(stuck("InvalidImageName"), 0), member(make_pod(1), 1))
    part = before(*one_came())
    faults = []
    for story in (image, part):
        said = story.see(gang(), workload=admitted(LATE))["p1"].seen.said
        assert said is not None
        faults.append((said.word, said.fault, said.deed))
    assert faults == [
        ("NOT_READY_IN_TIME", "USER", Deed.TRIES.value),
        ("NOT_READY_IN_TIME", "RESOURCE", Deed.RESUMES.value),
    ]


def test_that_a_part_came_is_learned_also_from_whom_its_cluster_put_out() -> None:
    shown = before(*one_came()).see(gang(), workload=admitted(LATE))
    signals = Signals(0.0).look(shown.values(), NOW_S, 1.0)
    assert "PARTIAL" in {one.kind for one in signals}
