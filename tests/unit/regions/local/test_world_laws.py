"""What holds in an embedded cluster whatever happens to it."""

from collections.abc import Callable

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from regions.cluster import Cause
from regions.local import faults
from regions.local.quota import standing
from regions.local.state import HOLDS_NODES, HOLDS_QUOTA, Phase, State
from tests.unit.regions.local.bench import Bench, make_config, make_flavor, make_spec

Deed = Callable[[Bench], object]

PLACEMENTS = st.sampled_from([f"p{number}" for number in range(9)])
FLAVORS = st.sampled_from(["h100", "flex"])


def deeds() -> st.SearchStrategy[tuple[str, Deed]]:
    """One thing that a broker, a fault, a process or time does."""
    gangs = st.builds(
        make_spec,
        PLACEMENTS,
        ranks=st.sampled_from([1, 2, 3, 4, 9]),
        priority=st.integers(0, 1),
        flavor=FLAVORS,
    )
    injected = st.one_of(
        st.builds(faults.Stockout, flavor=FLAVORS),
        st.builds(faults.Partial, flavor=FLAVORS, nodes=st.integers(0, 4)),
        st.builds(faults.Restore),
        st.builds(
            faults.Preempt,
            placement=PLACEMENTS,
            notice_s=st.sampled_from([None, 0.0, 3.0, 30.0]),
        ),
        st.builds(faults.Preempt, flavor=FLAVORS, nodes=st.integers(1, 3)),
        st.builds(faults.NodeLost, placement=PLACEMENTS),
        st.builds(faults.Recreate, placement=PLACEMENTS),
        st.builds(faults.Evict, placement=PLACEMENTS),
        st.builds(
            faults.Fill,
            queue=st.sampled_from(["ours", "theirs"]),
            flavor=FLAVORS,
            gpus=st.integers(1, 6),
            duration_s=st.floats(0, 100),
        ),
        st.builds(faults.Hold, queue=st.just("ours"), is_held=st.booleans()),
    )
    queued = gangs.map(lambda spec: (f"queue {spec}", lambda bench: bench.queue(spec)))
    withdrawn = PLACEMENTS.map(lambda name: (f"withdraw {name}", lambda b: b.withdraw(name)))
    faulted = injected.map(lambda fault: (f"inject {fault}", lambda bench: bench.inject(fault)))
    waited = st.floats(0, 90).map(lambda s: (f"wait {s}", lambda bench: bench.wait(s)))
    exited = st.tuples(PLACEMENTS, st.sampled_from([0, 1, 80])).map(
        lambda pair: (f"exit {pair}", lambda bench: _exit(bench, *pair))
    )
    # Drawn in two steps, for one_of would weigh each kind of fault like all queueing together.
    kinds = [queued, queued, queued, faulted, faulted, waited, waited, withdrawn, exited]
    return st.sampled_from(kinds).flatmap(lambda kind: kind)


def _exit(bench: Bench, placement: str, exit_code: int) -> None:
    if placement in bench.state.names:
        bench.exit(placement, exit_code)


def make_bench() -> Bench:
    flavors = (
        make_flavor(max_nodes=4, mean_life_s=200.0, preemption_notice_s=5.0, warm_nodes=1),
        make_flavor(name="flex", capacity_type="FLEX", flex_wait_s=20.0, max_run_s=60.0, stock=6),
    )
    return Bench(make_config(flavors=flavors, nominal=5, lent=3, borrowing_limit=3))


@settings(max_examples=150)
@given(st.lists(deeds(), min_size=8, max_size=30))
def test_the_laws_of_a_cluster_hold_whatever_happens(story: list[tuple[str, Deed]]) -> None:
    bench = make_bench()
    for _, deed in story:
        deed(bench)
        check_quota(bench)
        check_nodes(bench)
        check_gangs(bench)
        check_order(bench)


@settings(max_examples=50)
@given(st.lists(deeds(), max_size=20))
def test_the_state_on_disk_is_the_whole_of_it(story: list[tuple[str, Deed]]) -> None:
    bench = make_bench()
    for _, deed in story:
        deed(bench)
    raw = msgspec.json.encode(bench.state)
    assert msgspec.json.encode(msgspec.json.decode(raw, type=State)) == raw


@settings(max_examples=50)
@given(st.lists(deeds(), max_size=20))
def test_a_step_that_is_repeated_changes_nothing(story: list[tuple[str, Deed]]) -> None:
    bench = make_bench()
    for _, deed in story:
        deed(bench)
    before = msgspec.json.encode(bench.state)
    bench.settle()
    assert msgspec.json.encode(bench.state) == before


@settings(max_examples=50)
@given(st.lists(deeds(), max_size=20))
def test_once_faults_end_and_all_is_withdrawn_the_cluster_is_empty_again(
    story: list[tuple[str, Deed]],
) -> None:
    bench = make_bench()
    for _, deed in story:
        deed(bench)
    bench.inject(faults.Restore())
    for name in list(bench.state.names):
        bench.withdraw(name)
    bench.wait(2000.0)
    assert bench.state.live_jobs() == []
    assert [node.is_warm for node in bench.state.nodes.values() if node.holder] == []
    assert all(node.is_warm for node in bench.state.nodes.values())


def check_quota(bench: Bench) -> None:
    """No more is reserved than there is, in all queues together."""
    for flavor in bench.config.flavors:
        nominal = sum(
            quota.nominal
            for queue in bench.config.queues
            for quota in queue.quotas
            if quota.flavor == flavor.name
        )
        reserved = sum(
            job.gpus
            for job in bench.state.jobs.values()
            if job.flavor == flavor.name and job.phase in HOLDS_QUOTA
        )
        assert reserved <= nominal


def check_nodes(bench: Bench) -> None:
    """No more nodes exist than can; each serves one job, and only one that may hold nodes."""
    state = bench.state
    for flavor in bench.config.flavors:
        of_flavor = [node for node in state.nodes.values() if node.flavor == flavor.name]
        assert len(of_flavor) <= flavor.max_nodes
    for job in state.jobs.values():
        held = [node for node in state.nodes.values() if node.holder == job.uid]
        assert len(held) <= job.nodes_wanted
        assert not held or job.phase in HOLDS_NODES
        assert all(node.flavor == job.flavor for node in held)


def check_gangs(bench: Bench) -> None:
    """A standing gang is whole or ending; what ended has nobody left; nobody starts twice."""
    for job in bench.state.jobs.values():
        ids = [member.id for member in job.members]
        assert len(set(ids)) == len(ids)
        ranks = [member.rank for member in job.alive]
        assert len(set(ranks)) == len(ranks)
        assert all(0 <= rank < job.nodes_wanted for rank in ranks)
        if job.phase in (Phase.WAITING, Phase.BOOKED, Phase.ENDED):
            assert job.alive == []
        if job.phase is Phase.ENDED:
            assert job.ended_s is not None
        if job.spec is not None and job.phase is Phase.STANDING:
            finished = [one for one in job.members if one.is_gone and one.exit_code == 0]
            assert len(job.alive) + len(finished) >= job.nodes_wanted


def check_order(bench: Bench) -> None:
    """Nobody waits for quota who could be let in, but behind one that could not."""
    state = bench.state
    for queue in bench.config.queues:
        for quota in queue.quotas:
            line = [
                job
                for job in state.jobs.values()
                if job.phase is Phase.WAITING and not job.never_fits
                if (job.queue, job.flavor) == (queue.name, quota.flavor)
            ]
            if not line or queue.name in state.held_queues:
                continue
            head = min(line, key=lambda job: (-job.priority, job.turn))
            there = standing(bench.config, state, queue.name, quota.flavor)
            assert head.gpus > there.available
            assert {job.cause for job in line} == {Cause.WAITING_FOR_QUOTA}
