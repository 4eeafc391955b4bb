"""A time is believed when the cluster's words can mean nothing else."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from regions.kueue.eta import eta_s
from tests.unit.regions.kueue.tellings import NOW_S, make_request, said


def at(seconds: float) -> str:
    return datetime.fromtimestamp(NOW_S + seconds, UTC).isoformat().replace("+00:00", "Z")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (f"Provisioning Request was successfully queued. ETA: {at(600)}", 600.0),
        (f"Resources are expected to be available at {at(90)}.", 90.0),
        ("estimated wait: 30 min", 1799.0),
        ("ETA 45s", 44.0),
        ("expected in 2 hours", 7199.0),
        ("", None),
        ("Waiting for resources in 3 zones", None),
        ("there are not enough resources available to fulfill the request", None),
        (f"created at {at(600)}", None),
        (f"ETA: {at(-5)}", None),
        (f"ETA: {at(400 * 86_400)}", None),
        ("ETA: 9999999 hours", None),
        ("ETA: 2026-99-99T00:00:00Z", None),
    ],
)
def test_a_time_that_is_named_is_heard(message: str, expected: float | None) -> None:
    request = make_request(said("Provisioned", "Queued", message, status=False))
    assert eta_s([request], NOW_S) == expected


def test_what_has_come_is_not_to_come() -> None:
    assert eta_s([make_request(said("Provisioned", "", "ETA 45s"))], NOW_S) is None
    assert eta_s([], NOW_S) is None


def test_the_newest_request_counts() -> None:
    old = make_request(said("Provisioned", "", "ETA 45s", status=False))
    new = make_request(said("Provisioned", "", "ETA 99s", status=False))
    new = replace(new, meta=replace(new.meta, created_s=NOW_S))
    for order in ([old, new], [new, old]):
        assert eta_s(order, NOW_S) == 98.0


def test_of_two_requests_of_one_second_the_later_attempt_counts() -> None:
    first, second = (
        replace(
            make_request(said("Provisioned", "", f"ETA {span}", status=False)),
            meta=replace(make_request().meta, name=f"jobset-it-dws-{attempt}"),
        )
        for attempt, span in ((9, "45s"), (10, "99s"))
    )
    for order in ([first, second], [second, first]):
        assert eta_s(order, NOW_S) == 98.0
