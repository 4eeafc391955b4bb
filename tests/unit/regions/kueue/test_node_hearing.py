"""What machines' own events tell: whose machine was taken back, and which of it is news."""

from dataclasses import replace
from typing import Any

import pytest

from regions.capacity import QueueSeen
from regions.kueue.flavors import MAX_RUN
from regions.kueue.node_hearing import SOURCE, Notices, says_of_capacity
from regions.kueue.objects import kinds
from regions.kueue.objects.event import Event
from regions.kueue.scout import News, Report, Spot
from regions.kueue.snapshot import Seen, absent
from tests.unit.regions.kueue import kube
from tests.unit.regions.kueue.tellings import make_event, make_meta
from tests.unit.regions.kueue.test_queue_view import FLEX, NOW_S, SPOT, SPOT_SEEN, known, picture

QUEUE = QueueSeen(queue="lq", is_stopped=False, pending=0, pending_gpus=0, flavors=(SPOT_SEEN,))
AT = Spot(queue="lq", flavor="spot")
DOWN = "Shutdown manager detected shutdown event"


def of_node(reason: str, message: str = DOWN, *, node: str = "n1", **more: Any) -> Event:
    """An event of a machine, 10 s old, as its kubelet writes it: the uid is the machine's name."""
    about = {"about_kind": "Node", "about_name": node, "about_uid": node, "last_s": NOW_S - 10.0}
    event = make_event(reason, message, **{**about, **more})
    return replace(event, meta=make_meta(f"{node}.{reason}.{event.last_s}"))


class Watch:
    """Looks again and again; ``watched_s`` is since when."""

    def __init__(self, watched_s: float = 3600.0, **snapshot: Any) -> None:
        self.notices = Notices(0.0)
        self.snapshot = picture(**snapshot)
        self._watched_s = watched_s

    def see(self, *events: Event, queue: QueueSeen = QUEUE, is_known: bool = True) -> Report:
        nothing: Seen[Event] = absent()
        objects = {each.meta.uid: each for each in events}
        seen = replace(nothing, objects=objects, is_known=is_known)
        self.notices.take_in(
            seen, self.snapshot, (queue,), now_s=NOW_S, monotonic_s=self._watched_s
        )
        return self.notices.report(NOW_S)


def kinds_of(report: Report) -> list[str]:
    return [one.kind for one in report.news]


def test_a_machine_that_is_taken_back_is_told_once_and_stays_known() -> None:
    watch, event = Watch(), of_node("Shutdown")
    first = watch.see(event)
    assert first.news == (
        News(spot=AT, kind="PREEMPTED", age_s=10.0, source=SOURCE, detail=f"Shutdown: {DOWN}"),
    )
    for again in (watch.see(event), watch.see()):
        assert again.news == ()
        (fact,) = again.known
        assert (fact.queue, fact.flavor, fact.what, fact.age_s) == ("lq", "spot", "Shutdown", 10.0)
        assert fact.is_of_gang


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (of_node("PreemptScheduled"), ["PREEMPTED"]),
        (of_node("SpotInterrupted"), ["PREEMPTED"]),
        (of_node("FailedScaleUp", "GCE out of resources"), ["STOCKOUT"]),
        (of_node("FailedScaleUp", "GCE quota exceeded"), ["CLOUD_QUOTA"]),
        (of_node("Shutdown", node="nobodys"), []),
        (of_node("Shutdown", last_s=None), []),
    ],
)
def test_each_word_has_its_signal(event: Event, told: list[str]) -> None:
    assert kinds_of(Watch().see(event)) == told


@pytest.mark.parametrize("reason", ["TriggeredScaleUp", "NotTriggerScaleUp"])
def test_a_scale_up_that_failed_nowhere_is_known_and_no_signal(reason: str) -> None:
    found = Watch().see(of_node(reason, "0->2"))
    assert (found.news, [one.what for one in found.known]) == ((), [reason])


def test_a_machine_that_goes_on_purpose_was_not_taken_back() -> None:
    assert Watch().see(of_node("ScaleDown"), of_node("Shutdown")) == Report()
    on_demand = replace(QUEUE, flavors=(replace(SPOT_SEEN, capacity_type="ON_DEMAND"),))
    assert Watch().see(of_node("Shutdown"), queue=on_demand) == Report()


@pytest.mark.parametrize(("left_s", "told"), [(60.0, []), (86_400.0, ["PREEMPTED"])])
def test_a_machine_at_its_planned_end_was_not_taken_back(left_s: float, told: list[str]) -> None:
    watch = Watch(nodes=known(kinds.NODES, kube.node("n1", labels=SPOT)))
    (node,) = watch.snapshot.nodes.objects.values()
    ending = replace(node, planned_end_s=NOW_S + left_s)
    nodes = replace(watch.snapshot.nodes, objects={"n1": ending})
    watch.snapshot = replace(watch.snapshot, nodes=nodes)
    assert kinds_of(watch.see(of_node("Shutdown"))) == told


@pytest.mark.parametrize(("age_s", "told"), [(604_700.0, []), (86_400.0, ["PREEMPTED"])])
def test_a_machine_whose_kind_stays_so_long_was_not_taken_back(
    age_s: float, told: list[str]
) -> None:
    watch = Watch()
    node = watch.snapshot.nodes.objects["n1"]
    labels = {**node.meta.labels, MAX_RUN: "604800"}
    old = replace(node, meta=replace(node.meta, labels=labels, created_s=NOW_S - age_s))
    nodes = replace(watch.snapshot.nodes, objects={"n1": old})
    watch.snapshot = replace(watch.snapshot, nodes=nodes)
    assert kinds_of(watch.see(of_node("Shutdown"))) == told


def test_what_was_over_before_anybody_looked_is_known_and_no_signal() -> None:
    found = Watch(watched_s=5.0).see(of_node("Shutdown"))
    assert (found.news, len(found.known)) == ((), 1)


def test_what_is_told_of_a_machine_that_is_not_seen_yet_waits_for_it() -> None:
    watch, event = Watch(nodes=absent()), of_node("Shutdown")
    assert watch.see(event) == Report()
    watch.snapshot = picture()
    assert watch.see(event, queue=replace(QUEUE, flavors=())) == Report()
    assert kinds_of(watch.see(event)) == ["PREEMPTED"]


def test_events_that_cannot_be_seen_for_a_moment_are_not_told_again() -> None:
    watch, event = Watch(), of_node("Shutdown")
    watch.see(event)
    watch.see(is_known=False)
    assert kinds_of(watch.see(event)) == []
    later = replace(event, last_s=NOW_S - 1.0)
    assert kinds_of(watch.see(later)) == ["PREEMPTED"]


def test_a_machine_is_of_the_flavors_whose_labels_it_has() -> None:
    flex = replace(SPOT_SEEN, flavor="flex", capacity_type="FLEX")
    both = replace(QUEUE, flavors=(SPOT_SEEN, flex))
    watch = Watch(nodes=known(kinds.NODES, kube.node("n1", labels={**SPOT, **FLEX})))
    assert [one.spot.flavor for one in watch.see(of_node("Shutdown"), queue=both).news] == [
        "spot",
        "flex",
    ]


def test_what_says_nothing_of_capacity_is_not_kept() -> None:
    assert says_of_capacity(of_node("Shutdown"), "")
    assert says_of_capacity(of_node("ScaleDown"), "")
    assert not says_of_capacity(of_node("NodeHasSufficientMemory"), "")
    assert not says_of_capacity(make_event("FailedScaleUp"), "")
