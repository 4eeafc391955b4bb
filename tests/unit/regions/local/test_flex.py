"""Flex capacity in an embedded cluster: booked, refused, lost, silent, and gone as planned."""

import pytest

from regions.cluster import Cause
from regions.local import faults, nodes
from regions.local.state import Phase
from tests.unit.regions.local.bench import Bench, make_config, make_flavor, make_spec


def flex(**changes: object) -> Bench:
    fields: dict[str, object] = {
        "capacity_type": "FLEX",
        "flex_wait_s": 100.0,
        "flex_silent_s": 600.0,
        "max_run_s": 1000.0,
        **changes,
    }
    return Bench(make_config(flavors=(make_flavor(**fields),)))


def kinds(bench: Bench) -> list[str]:
    return [signal.kind for signal in bench.state.signals]


def test_a_request_that_gets_no_answer_waits_and_is_called_silent_after_its_bound() -> None:
    bench = flex()
    bench.inject(faults.FlexSilent(flavor="h100"))
    bench.queue(make_spec())
    bench.wait(599.0)
    assert bench.shows("p1") == (Phase.BOOKED, Cause.WAITING_FOR_FLEX)
    assert bench.job("p1").eta_s is None
    bench.wait(2.0)
    assert bench.shows("p1") == (Phase.BOOKED, Cause.FLEX_SILENT)


def test_a_silent_request_is_answered_once_the_silence_is_over() -> None:
    bench = flex()
    bench.inject(faults.FlexSilent(flavor="h100"))
    bench.queue(make_spec())
    bench.wait(700.0)
    bench.inject(faults.Restore(flavor="h100"))
    bench.wait(11.0)
    assert bench.shows("p1") == (Phase.STANDING, Cause.NONE)


@pytest.mark.parametrize(
    ("fault", "after_s", "cause", "told"),
    [
        (faults.FlexFails(placement="p1"), 5.0, Cause.FLEX_FAILED, "STOCKOUT"),
        (faults.FlexExpires(placement="p1"), 5.0, Cause.BOOKING_EXPIRED, ""),
        (faults.FlexExpires(placement="p1"), 105.0, Cause.BOOKING_EXPIRED, ""),
        (faults.FlexRevoked(placement="p1"), 105.0, Cause.CAPACITY_REVOKED, "PREEMPTED"),
        (faults.FlexRevoked(placement="p1"), 500.0, Cause.CAPACITY_REVOKED, "PREEMPTED"),
    ],
)
def test_what_the_cloud_does_to_a_booking_ends_its_gang_by_that_name(
    fault: faults.FlexStrike, after_s: float, cause: Cause, told: str
) -> None:
    bench = flex()
    bench.queue(make_spec())
    bench.wait(after_s)
    assert bench.inject(fault).is_done
    bench.wait(60.0)
    assert bench.shows("p1") == (Phase.ENDED, cause)
    news = [kind for kind in kinds(bench) if kind not in ("ADMITTED", "NODES_CAME", "STARTED")]
    assert news == ([told] if told else [])


def test_a_booking_that_came_and_was_used_expires_no_more() -> None:
    bench = flex()
    bench.queue(make_spec())
    bench.wait(150.0)
    assert not bench.inject(faults.FlexExpires(placement="p1")).is_done
    assert bench.shows("p1") == (Phase.STANDING, Cause.NONE)


def test_only_flex_capacity_has_a_request() -> None:
    bench = Bench(make_config())
    bench.queue(make_spec())
    for fault in (faults.FlexFails(placement="p1"), faults.FlexSilent(flavor="h100")):
        assert not bench.inject(fault).is_done


def test_the_planned_end_of_its_machines_is_told_from_when_the_first_came() -> None:
    bench = flex(spread_s=20.0)
    bench.queue(make_spec())
    assert nodes.ends_at_s(bench.state, bench.job("p1")) is None
    bench.wait(150.0)
    # Booked for 100 s, ten to come up: the second one came 20 s after the first.
    assert nodes.ends_at_s(bench.state, bench.job("p1")) == 1000.0 + 110.0 + 1000.0


def test_machines_that_go_as_planned_say_nothing_against_their_pool() -> None:
    bench = flex(preemption_notice_s=30.0)
    bench.queue(make_spec())
    bench.wait(110.0)
    bench.stubborn = {member.id for member in bench.job("p1").members}
    bench.wait(971.0)
    assert bench.shows("p1") == (Phase.STANDING, Cause.NODE_PREEMPTED)
    assert "as planned" in bench.job("p1").message
    bench.wait(60.0)
    assert bench.shows("p1")[0] is Phase.ENDED
    assert "PREEMPTED" not in kinds(bench)


def test_what_was_booked_serves_nobody_else() -> None:
    bench = flex()
    bench.queue(make_spec())
    bench.wait(150.0)
    bench.exit("p1", 0)
    assert bench.state.nodes == {}
    bench.queue(make_spec("p2"))
    assert bench.shows("p2") == (Phase.BOOKED, Cause.WAITING_FOR_FLEX)
