"""What happens in an embedded cluster, case by case, with the time in the test's hand."""

import pytest

from regions.cluster import Cause, Outcome
from regions.local import faults, nodes
from regions.local.config import ScheduledFault
from regions.local.state import Phase
from tests.unit.regions.local.bench import Bench, make_config, make_flavor, make_spec


def test_nodes_come_after_their_start_up_time_and_go_when_long_idle() -> None:
    bench = Bench(make_config())
    bench.queue(make_spec())
    assert bench.shows("p1") == (Phase.PROVISIONING, Cause.NODES_COMING)
    bench.wait(9.9)
    assert bench.shows("p1") == (Phase.PROVISIONING, Cause.NODES_COMING)
    bench.wait(0.2)
    assert bench.shows("p1") == (Phase.STANDING, Cause.NONE)
    bench.exit("p1", 0)
    assert bench.shows("p1") == (Phase.ENDED, Cause.NONE)
    bench.wait(59.0)
    assert len(bench.state.nodes) == 2
    bench.wait(2.0)
    assert bench.state.nodes == {}


def test_an_idle_node_serves_the_next_gang_at_once() -> None:
    bench = Bench(make_config())
    bench.queue(make_spec())
    bench.wait(10.0)
    bench.exit("p1", 0)
    bench.queue(make_spec("p2"))
    assert bench.shows("p2") == (Phase.STANDING, Cause.NONE)


def test_warm_nodes_are_there_from_the_start_and_stay() -> None:
    bench = Bench(make_config(flavors=(make_flavor(warm_nodes=2),)))
    bench.queue(make_spec())
    assert bench.shows("p1") == (Phase.STANDING, Cause.NONE)
    bench.withdraw("p1")
    bench.wait(10_000.0)
    assert len(bench.state.nodes) == 2


def test_what_was_bought_for_a_gang_that_went_serves_another_when_it_comes() -> None:
    bench = Bench(make_config())
    bench.queue(make_spec("p1", ranks=4))
    bench.wait(6.0)
    bench.withdraw("p1")
    bench.queue(make_spec("p2", ranks=4))
    bench.wait(4.5)
    assert bench.shows("p2") == (Phase.STANDING, Cause.NONE)


def test_members_start_on_each_node_as_it_comes() -> None:
    bench = Bench(make_config(flavors=(make_flavor(spread_s=2.0),)))
    bench.queue(make_spec(ranks=3))
    seen = []
    for _ in range(3):
        seen.append(len(bench.job("p1").members))
        bench.wait(6.0)
    assert seen == [0, 0, 2]
    assert bench.shows("p1") == (Phase.STANDING, Cause.NONE)


def test_a_stockout_is_told_once_and_then_now_and_again() -> None:
    bench = Bench(make_config())
    bench.inject(faults.Stockout(flavor="h100"))
    bench.queue(make_spec())
    bench.wait(95.0)
    told = [signal for signal in bench.state.signals if signal.kind == "STOCKOUT"]
    assert [round(signal.at_s - 1000.0) for signal in told] == [0, 30, 60, 90]


def test_a_flavor_of_a_small_stock_gives_a_part() -> None:
    bench = Bench(make_config(flavors=(make_flavor(stock=5),)))
    bench.queue(make_spec(ranks=8))
    bench.wait(10.0)
    assert bench.shows("p1") == (Phase.PROVISIONING, Cause.PARTIAL_ARRIVAL)
    assert len(bench.job("p1").alive) == 5
    bench.inject(faults.Restore(flavor="h100"))
    bench.wait(10.0)
    assert bench.shows("p1") == (Phase.STANDING, Cause.NONE)


def test_a_node_that_is_lost_takes_the_gang_with_it_and_its_cause_stays() -> None:
    bench = Bench(make_config())
    bench.queue(make_spec())
    bench.wait(10.0)
    bench.inject(faults.NodeLost(placement="p1", rank=1))
    assert bench.shows("p1") == (Phase.ENDED, Cause.NODE_LOST)
    assert {one.rank: (one.exit_code, one.signal) for one in bench.job("p1").members} == {
        0: (87, None),
        1: (None, 9),
    }


def test_a_notice_is_told_to_the_node_that_goes_and_kept_to_the_second() -> None:
    bench = Bench(make_config())
    bench.queue(make_spec())
    bench.wait(10.0)
    bench.stubborn = {member.id for member in bench.job("p1").members}
    bench.inject(faults.Preempt(placement="p1", notice_s=20.0))
    assert bench.shows("p1") == (Phase.STANDING, Cause.NODE_PREEMPTED)
    assert [member.is_termed for member in bench.job("p1").members] == [True, True]
    bench.wait(19.0)
    assert bench.shows("p1") == (Phase.STANDING, Cause.NODE_PREEMPTED)
    bench.wait(2.0)
    assert bench.shows("p1") == (Phase.ENDED, Cause.NODE_PREEMPTED)


def test_a_gang_that_leaves_within_its_notice_ended_by_the_preemption() -> None:
    bench = Bench(make_config())
    bench.queue(make_spec())
    bench.wait(10.0)
    bench.inject(faults.Preempt(placement="p1", nodes=1, notice_s=20.0))
    assert bench.shows("p1") == (Phase.ENDED, Cause.NODE_PREEMPTED)


def test_some_nodes_of_a_flavor_are_taken_whoever_uses_them() -> None:
    bench = Bench(make_config())
    for name in ("p1", "p2", "p3"):
        bench.queue(make_spec(name))
    bench.wait(10.0)
    bench.inject(faults.Preempt(flavor="h100", nodes=3, notice_s=0.0))
    phases = [bench.job(name).phase for name in ("p1", "p2", "p3")]
    assert phases == [Phase.ENDED, Phase.ENDED, Phase.STANDING]


def test_a_stubborn_gang_is_killed_after_its_grace() -> None:
    bench = Bench(make_config())
    bench.queue(make_spec(stop_grace_s=4.0))
    bench.wait(10.0)
    bench.stubborn = {member.id for member in bench.job("p1").members}
    bench.withdraw("p1")
    bench.wait(9.9)
    assert bench.shows("p1") == (Phase.STOPPING, Cause.WITHDRAWN)
    bench.wait(0.2)
    assert bench.shows("p1") == (Phase.ENDED, Cause.WITHDRAWN)


def test_flex_waits_booked_comes_whole_and_runs_for_a_bounded_time() -> None:
    flavor = make_flavor(
        capacity_type="FLEX", flex_wait_s=100.0, max_run_s=600.0, preemption_notice_s=30.0
    )
    bench = Bench(make_config(flavors=(flavor,)))
    bench.queue(make_spec())
    bench.wait(99.0)
    assert bench.shows("p1") == (Phase.BOOKED, Cause.WAITING_FOR_FLEX)
    bench.wait(12.0)
    assert bench.shows("p1") == (Phase.STANDING, Cause.NONE)
    bench.stubborn = {member.id for member in bench.job("p1").members}
    bench.wait(565.0)
    assert bench.shows("p1") == (Phase.STANDING, Cause.NONE)
    bench.wait(10.0)
    assert bench.shows("p1") == (Phase.STANDING, Cause.NODE_PREEMPTED)
    bench.wait(30.0)
    assert bench.shows("p1") == (Phase.ENDED, Cause.NODE_PREEMPTED)


def test_a_booking_that_the_cloud_cannot_keep_waits_on_without_a_time() -> None:
    flavor = make_flavor(capacity_type="FLEX", flex_wait_s=100.0)
    bench = Bench(make_config(flavors=(flavor,)))
    bench.inject(faults.Partial(flavor="h100", nodes=1))
    bench.queue(make_spec())
    bench.wait(200.0)
    assert bench.shows("p1") == (Phase.BOOKED, Cause.WAITING_FOR_FLEX)
    assert bench.job("p1").eta_s is None
    assert bench.state.nodes == {}
    bench.inject(faults.Restore())
    bench.wait(10.0)
    assert bench.shows("p1") == (Phase.STANDING, Cause.NONE)


def test_lives_of_spot_nodes_are_bounded_by_seeded_chance() -> None:
    config = make_config(flavors=(make_flavor(mean_life_s=100.0),))
    ends = []
    for _ in range(2):
        bench = Bench(config)
        bench.queue(make_spec(ranks=8))
        bench.wait(10_000.0)
        assert bench.shows("p1") == (Phase.ENDED, Cause.NODE_PREEMPTED)
        ends.append(bench.job("p1").ended_s)
    assert ends[0] == ends[1]


def test_borrowers_go_only_as_far_as_the_owner_needs_and_the_last_first() -> None:
    bench = Bench(make_config(nominal=2, borrowing_limit=6, lent=6))
    for name in ("p1", "p2", "p3", "p4"):
        bench.queue(make_spec(name))
    bench.wait(10.0)
    fill = faults.Fill(queue="theirs", flavor="h100", gpus=3, duration_s=60.0)
    bench.inject(fill)
    bench.wait(1.0)
    shown = [bench.job(name).phase for name in ("p1", "p2", "p3", "p4")]
    assert shown == [Phase.STANDING, Phase.STANDING, Phase.ENDED, Phase.ENDED]
    others = [job for job in bench.state.live_jobs() if job.spec is None]
    assert [job.phase for job in others] == [Phase.STANDING]
    bench.wait(60.0)
    assert [job for job in bench.state.live_jobs() if job.spec is None] == []


def test_others_hold_machines_too() -> None:
    bench = Bench(make_config(nominal=12))
    bench.inject(faults.Fill(queue="ours", flavor="h100", gpus=7, duration_s=100.0))
    bench.queue(make_spec())
    bench.wait(10.0)
    assert bench.shows("p1") == (Phase.PROVISIONING, Cause.PARTIAL_ARRIVAL)
    bench.wait(100.0)
    assert bench.shows("p1") == (Phase.STANDING, Cause.NONE)


def test_scheduled_faults_come_in_their_time_and_once_for_all_that_was_missed() -> None:
    schedule = (
        ScheduledFault(at_s=30.0, fault=faults.Stockout(flavor="h100")),
        ScheduledFault(at_s=40.0, every_s=10.0, fault=faults.Outage(duration_s=1.0)),
    )
    bench = Bench(make_config(schedule=schedule))
    bench.wait(29.0)
    assert bench.state.stock == {}
    bench.wait(2.0)
    assert bench.state.stock == {"h100": 0}
    bench.now_s += 1000.0
    bench.settle()
    assert bench.world.due_socket_faults == [faults.Outage(duration_s=1.0)]
    next_s = bench.world.next_at_s()
    assert next_s is not None
    assert bench.now_s < next_s <= bench.now_s + 10.0


def test_an_ended_placement_is_forgotten_in_time_and_its_name_never() -> None:
    bench = Bench(make_config(keep_ended=2))
    for name in ("p1", "p2", "p3"):
        bench.queue(make_spec(name))
        bench.withdraw(name)
        bench.wait(1.0)
    assert sorted(bench.state.names) == ["p2", "p3"]
    late = bench.queue(make_spec("p1"))
    assert (late.is_done, late.cause, late.retry_after_s) == (False, Cause.WITHDRAWN, None)
    assert bench.withdraw("p1") == Outcome(is_done=True, message="it is not here")
    assert sorted(bench.state.names) == ["p2", "p3"]


def test_a_queue_repeated_after_the_end_starts_nothing() -> None:
    bench = Bench(make_config())
    bench.queue(make_spec())
    bench.wait(10.0)
    bench.exit("p1", 1)
    assert bench.queue(make_spec()) == Outcome(is_done=True)
    bench.wait(100.0)
    assert bench.shows("p1") == (Phase.ENDED, Cause.MEMBER_EXITED)


def test_a_gang_is_withdrawn_while_it_is_being_created_again() -> None:
    bench = Bench(make_config())
    bench.queue(make_spec())
    bench.wait(10.0)
    bench.world.inject(faults.Recreate(placement="p1"), bench.now_s)
    bench.withdraw("p1")
    assert bench.shows("p1") == (Phase.ENDED, Cause.WITHDRAWN)
    assert len(bench.job("p1").members) == 2


def test_a_member_that_cannot_be_started_ends_the_gang_as_wedged() -> None:
    bench = Bench(make_config())
    bench.queue(make_spec())
    bench.now_s += 10.0
    bench.world.step(bench.now_s)
    bench.world.could_not_start(bench.job("p1").members[0].id, bench.now_s, "no such file")
    bench.settle()
    assert bench.shows("p1") == (Phase.ENDED, Cause.WEDGED)
    assert bench.job("p1").message == "rank 0 cannot start: no such file"


@pytest.mark.parametrize(
    "fault",
    [
        faults.Stockout(flavor="tpu"),
        faults.Partial(flavor="tpu", nodes=1),
        faults.Hold(queue="nobody's"),
        faults.Preempt(placement="p9"),
        faults.Preempt(flavor="h100"),
        faults.NodeLost(placement="p9"),
        faults.Recreate(placement="p9"),
        faults.Evict(placement="p9"),
        faults.Fill(queue="ours", flavor="tpu", gpus=1, duration_s=1.0),
        faults.Fill(queue="ours", flavor="h100", gpus=99, duration_s=1.0),
    ],
    ids=lambda fault: type(fault).__name__,
)
def test_a_fault_that_hits_nothing_says_so(fault: faults.WorldFault) -> None:
    bench = Bench(make_config())
    outcome = bench.inject(fault)
    assert (outcome.is_done, outcome.cause) == (False, Cause.REFUSED)
    assert outcome.message


def test_a_flavor_says_when_a_booking_would_come_while_it_can_be_kept() -> None:
    flex = make_flavor(capacity_type="FLEX", flex_wait_s=100.0, startup_s=10.0)
    bench = Bench(make_config(flavors=(flex,)))
    assert nodes.booking_s(bench.state, flex) == 110.0
    bench.inject(faults.Partial(flavor="h100", nodes=0))
    assert nodes.booking_s(bench.state, flex) is None
    assert nodes.booking_s(bench.state, make_flavor(capacity_type="SPOT")) is None


def test_it_is_written_down_since_when_a_gang_has_how_many_nodes() -> None:
    bench = Bench(make_config(flavors=(make_flavor(spread_s=2.0, preemption_notice_s=3.0),)))
    began_s = bench.now_s
    bench.queue(make_spec(ranks=3))
    bench.wait(20.0)
    bench.inject(faults.Preempt(placement="p1", flavor="", nodes=1, notice_s=None))
    bench.wait(1_000.0)
    told = [(at_s - began_s, count) for at_s, count in bench.job("p1").history]
    assert told == [(10.0, 1), (12.0, 2), (14.0, 3), (20.0, 0)]


def test_a_gang_whose_nodes_never_come_has_none_written_down() -> None:
    bench = Bench(make_config(flavors=(make_flavor(stock=0),)))
    bench.queue(make_spec())
    bench.wait(100.0)
    bench.withdraw("p1")
    assert bench.job("p1").history == []
