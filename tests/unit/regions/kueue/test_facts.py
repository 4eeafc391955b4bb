"""What a cluster tells of capacity beside what happened: the newest word of each who tells."""

from dataclasses import replace
from typing import Any

import pytest

from regions.capacity import KnownSeen
from regions.cluster import PlacementSeen
from regions.kueue.facts import AUTOSCALER, REQUEST, facts
from regions.kueue.objects.event import Event
from tests.unit.regions.kueue.tellings import NOW_S, make_event, make_evidence, make_request, said
from tests.unit.regions.kueue.test_views import Story, gang

SEEN = Story().see(gang())["p1"].seen
OF_IT: dict[str, Any] = {"queue": SEEN.queue, "flavor": SEEN.flavor}


def told(*events: Event, requests: Any = (), seen: PlacementSeen = SEEN) -> tuple[KnownSeen, ...]:
    evidence = make_evidence(events=events, requests=tuple(requests))
    return facts([(seen, evidence)], NOW_S)


def test_the_newest_scale_up_is_told_as_it_was_said() -> None:
    failed = make_event("FailedScaleUp", "out of\x1b resources", last_s=NOW_S - 90.0)
    older = make_event("TriggeredScaleUp", "0->2", last_s=NOW_S - 300.0)
    assert told(older, failed, make_event("Pulled", "x")) == (
        KnownSeen(
            what="FailedScaleUp",
            words="out of resources",
            source=AUTOSCALER,
            age_s=90.0,
            is_of_gang=True,
            **OF_IT,
        ),
    )


@pytest.mark.parametrize(
    ("conditions", "what", "words"),
    [
        ((said("Accepted", message="queued"),), "Accepted", "queued"),
        (
            (
                said("Accepted"),
                said("Provisioned", status=False, message="waiting; ETA: 90 seconds"),
            ),
            "Provisioned: not yet",
            "waiting; ETA: 90 seconds",
        ),
        (
            (said("Provisioned"), said("BookingExpired", message="unused")),
            "BookingExpired",
            "unused",
        ),
    ],
)
def test_a_request_is_told_by_what_decides(conditions: Any, what: str, words: str) -> None:
    (fact,) = told(requests=[make_request(*conditions)])
    assert (fact.what, fact.source, fact.is_of_gang) == (what, REQUEST, True)
    assert fact.words.startswith(words)
    assert ("(in " in fact.words) is ("ETA" in words)


def test_each_flavor_has_its_own() -> None:
    event = make_event("TriggeredScaleUp", "0->2")
    other = replace(SEEN, flavor="h100-flex")
    shown = [(SEEN, make_evidence(events=(event,))), (other, make_evidence(events=(event,)))]
    assert [one.flavor for one in facts(shown, NOW_S)] == ["h100-flex", SEEN.flavor]
    assert told() == ()
