"""Signals: what was seen to happen, each once, with its time."""

from dataclasses import replace
from typing import Any

import pytest

from regions.capacity import SignalSeen
from regions.kueue.signals import AGED_S, Signals
from tests.unit.regions.kueue.tellings import NOW_S, admitted, ended, said, unbound, waiting
from tests.unit.regions.kueue.test_members import member
from tests.unit.regions.kueue.test_views import EVICTED, Story, gang, up


class Watch:
    """Looks at a gang one time after the other; ``age_s`` is since when."""

    def __init__(self, age_s: float = 3600.0) -> None:
        self._story = Story()
        self._signals = Signals(0.0)
        self._age_s = age_s

    def see(self, *, gone: bool = False, later_s: float = 0.0, **told: Any) -> list[SignalSeen]:
        suspended = told.pop("suspended", False)
        found = self._story.see(*(() if gone else (gang(is_suspended=suspended),)), **told)
        return list(self._signals.look(found.values(), NOW_S + later_s, self._age_s + later_s))


def kinds_of(signals: list[SignalSeen]) -> list[str]:
    return [each.kind for each in signals]


def test_an_admission_is_told_once_with_its_age_and_its_wait() -> None:
    watch = Watch()
    first = watch.see(workload=admitted())
    (again,) = watch.see(workload=admitted(), later_s=10.0)
    assert kinds_of(first) == ["ADMITTED"]
    assert (again.serial, again.age_s, again.wait_s) == (1, 11.0, 0.0)
    assert (again.source, again.queue, again.flavor) == ("p1", "ours", "h100-spot")


def test_an_age_is_told_again_for_a_moment_and_what_is_news_has_its_own() -> None:
    watch, bound = Watch(), said("PodScheduled")
    pods = [replace(each, conditions=(bound,)) for each in up(0, 1)]
    [first] = watch.see(workload=admitted())
    [again, came] = watch.see(workload=admitted(), pods=pods, later_s=AGED_S / 2)
    assert again is first
    assert (came.kind, came.age_s) == ("NODES_CAME", first.age_s + AGED_S / 2)
    [older, _] = watch.see(workload=admitted(), pods=pods, later_s=AGED_S)
    assert older.age_s == first.age_s + AGED_S


def test_what_happened_before_anybody_looked_is_not_told() -> None:
    assert Watch(age_s=0.0).see(workload=admitted()) == []


def test_what_was_too_old_stays_so_when_the_clusters_clock_is_set() -> None:
    watch = Watch(age_s=0.0)
    assert watch.see(workload=admitted()) == []
    found = watch._story.see(gang(), workload=admitted())
    assert watch._signals.look(found.values(), NOW_S - 60.0, 1.0) == ()


def test_an_end_that_was_over_before_anybody_looked_is_not_told() -> None:
    watch = Watch(age_s=0.0)
    over = gang(terminal_state="Failed")
    lost = member(ended(status_reason="NodeLost"), 0)
    found = watch._story.see(over, workload=admitted(), pods=[lost])
    assert list(watch._signals.look(found.values(), NOW_S, 0.0)) == []


def test_machines_that_came_are_told_when_all_did() -> None:
    watch = Watch()
    bound = said("PodScheduled")
    pods = [member(unbound(1), 1)]
    assert kinds_of(watch.see(workload=admitted(), pods=pods)) == ["ADMITTED"]
    both = [replace(each, conditions=(bound,)) for each in up(0, 1)]
    assert kinds_of(watch.see(workload=admitted(), pods=both)) == ["ADMITTED", "NODES_CAME"]


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        (
            {
                "workload": waiting(
                    "Pending",
                    "couldn't assign flavors to pod set g: insufficient quota for nvidia.com/gpu "
                    "in flavor h100-spot, previously considered podsets requests (0) + current "
                    "podset request (16) > maximum capacity (8)",
                )
            },
            "QUOTA_REFUSED",
        ),
        ({"workload": admitted(EVICTED), "suspended": True}, "PREEMPTED"),
    ],
)
def test_what_becomes_of_a_gang_is_a_signal_once(told: dict[str, Any], kind: str) -> None:
    watch = Watch(age_s=0.0)
    watch.see(workload=waiting("Pending", "it waits"), suspended=True)
    for later_s in (0.0, 5.0):
        found = watch.see(**{"suspended": True, **told}, later_s=later_s)
        assert kinds_of(found) == [kind]


def test_a_gang_that_left_is_no_signal() -> None:
    watch = Watch(age_s=0.0)
    watch.see(workload=admitted(), pods=up(0, 1))
    assert watch.see(gone=True) == []
