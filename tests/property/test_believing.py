"""Whatever a cluster says, it stops nothing and breaks nothing that it is told to."""

from dataclasses import replace
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.history.codec import check_writable
from broker.history.commands import EndPlacement, ReportPlacement
from broker.history.regional import RegionState
from broker.loops.believing import believed, without_impostors
from broker.loops.reporting import reports
from broker.loops.translate import facts_of, signal_of
from broker.model.policy import RegionPolicy
from broker.service.convert_region import region_message
from regions.capacity import FlavorSeen, QueueSeen, RoomSeen, SignalSeen
from regions.cluster import Cause, ClusterObservation, MemberSeen, PlacementSeen, RankEnded, Stage
from regions.launcher.words import can_be_told
from tests.builders import Story
from tests.unit.loops.seeing import CLUSTER, NOW, epoch_seen, observation, placement_seen, sight_of

texts = st.sampled_from(["a", "\ud800", "\x1b[2J"]) | st.text(
    st.characters(exclude_categories=()), max_size=12
)
counts = st.none() | st.integers() | st.integers(-3, 40)
seconds = st.none() | st.floats()
prices = st.none() | st.decimals() | st.sampled_from([Decimal("1E+999999"), Decimal("-1")])
kinds = st.sampled_from(["SPOT", "FLEX", "RESERVED", "ON_DEMAND", "PREEMPTIBLE", ""])
rooms = st.builds(RoomSeen, zone=texts, accelerators=st.integers(), ranks=st.integers(-3, 40))
flavors = st.builds(
    FlavorSeen,
    flavor=texts,
    accelerator=texts,
    accelerators_per_node=st.integers(),
    capacity_type=kinds,
    zones=st.lists(texts, max_size=2).map(tuple),
    price_per_gpu_hour=prices,
    nominal=counts,
    reserved=counts,
    used=counts,
    parked=counts,
    borrowable=counts,
    nodes_free=counts,
    nodes_coming=counts,
    max_nodes=counts,
    startup_s=seconds,
    preemption_notice_s=seconds,
    eta_s=seconds,
    max_run_s=seconds,
    free=counts,
    most=counts,
    room=st.none() | st.lists(rooms, max_size=3).map(tuple),
)
queues = st.builds(
    QueueSeen,
    queue=texts,
    is_stopped=st.booleans(),
    pending=counts,
    pending_gpus=counts,
    flavors=st.lists(flavors, max_size=3).map(tuple),
)
signals = st.builds(
    SignalSeen,
    queue=texts,
    flavor=texts,
    kind=st.sampled_from(["STOCKOUT", "PREEMPTED", "WHATEVER"]),
    age_s=st.floats(),
    source=texts,
    detail=texts,
    gpus=st.integers(),
    wait_s=seconds,
    serial=st.integers(),
)
members = st.builds(
    MemberSeen,
    rank=st.integers(),
    member=texts,
    is_alive=st.booleans(),
    exit_code=counts,
    signal=counts,
)


def placements(story: Story) -> st.SearchStrategy[PlacementSeen]:
    placement = story.placement("alpha")
    return st.builds(
        PlacementSeen,
        placement=st.just(placement.id),
        run_key=st.just(story.run.uid) | texts,
        uid=texts,
        queue=texts,
        flavor=texts,
        stage=st.sampled_from(Stage),
        cause=st.sampled_from(Cause),
        message=texts,
        ahead=counts,
        ahead_gpus=counts,
        nodes_here=counts,
        nodes_wanted=counts,
        members=st.lists(members, max_size=3).map(tuple),
        standing=st.dictionaries(st.integers(), texts, max_size=2),
        is_whole_at_gate=st.booleans(),
        is_granted=st.booleans(),
        labels=st.dictionaries(texts, texts, max_size=2),
        eta_s=seconds,
        history=st.lists(st.tuples(st.floats(), st.integers()), max_size=3).map(tuple),
    )


@settings(max_examples=40)
@given(
    queues=st.lists(queues, max_size=3).map(tuple),
    signals=st.lists(signals, max_size=3).map(tuple),
    blind=st.lists(texts, max_size=2).map(tuple),
)
def test_what_is_believed_of_a_cluster_can_be_planned_with_and_shown(
    queues: tuple[QueueSeen, ...], signals: tuple[SignalSeen, ...], blind: tuple[str, ...]
) -> None:
    said = believed(observation(queues=queues, signals=signals, blind=blind))
    facts = facts_of(said, NOW.elapsed_s)
    for flavor in facts.flavors:
        price = flavor.price_per_gpu_hour
        assert price is None or 0 <= price * 8 <= Decimal(10**9)
    taken = [signal_of(CLUSTER, signal, NOW.elapsed_s) for signal in said.signals]
    assert all(one is None or 0 <= one.elapsed_s <= NOW.elapsed_s for one in taken)
    assert region_message(
        RegionState(id=CLUSTER), (facts,), (), {}, NOW, store="gs://east/broker", registry=None
    ).SerializeToString()
    assert all(can_be_told(text) for text in (*facts.blind, *(one.detail for one in taken if one)))
    assert believed(said) is said  # what can be is passed on as it came


@settings(max_examples=40)
@given(data=st.data())
def test_what_is_believed_of_a_placement_can_be_written_down(data: st.DataObject) -> None:
    story = Story().accepted().placed().prepared().reported()
    seen = data.draw(placements(story))
    said = believed(observation([seen]))
    for command in reports(
        story.run, CLUSTER, sight_of(said.placements.values()), RegionPolicy(), NOW
    ):
        assert isinstance(command, ReportPlacement | EndPlacement)
        check_writable(story.tell(command))
    assert believed(said) == said


@given(exit_code=counts, signal=counts)
def test_an_exit_code_that_no_process_has_is_unknown(
    exit_code: int | None, signal: int | None
) -> None:
    story = Story().accepted().placed().prepared().granted().started()
    epoch = story.run.open_epoch
    assert epoch is not None
    end = RankEnded(
        rank=0,
        nonce=epoch.nonces[0],
        kind="EXITED",
        cause="command",
        exit_code=exit_code,
        signal=signal,
        was_asked=False,
    )
    said: ClusterObservation = believed(observation((), [epoch_seen(story.run, ends=(end,))]))
    ((key, seen),) = said.epochs.items()
    assert key.run_key == story.run.uid
    assert all(code is None or abs(code) < 2**31 for one in seen.ends for code in (one.exit_code,))


def test_an_object_of_another_run_under_a_name_of_ours_says_nothing_of_ours() -> None:
    story = Story().accepted().placed().prepared().reported()
    placement, run = story.placement("alpha"), story.run
    ours = observation([placement_seen(placement, run, stage=Stage.ENDED)])
    owners = {placement.id: run.uid}
    assert without_impostors(ours, owners.get) is ours
    theirs = observation([placement_seen(placement, run, stage=Stage.ENDED, run_key="another")])
    said = without_impostors(theirs, owners.get)
    assert (said.is_whole, list(said.placements)) == (False, [f"{placement.id} of another"])
    sight = replace(sight_of(), observation=said)
    assert reports(run, CLUSTER, sight, RegionPolicy(), NOW) == ()
    assert without_impostors(theirs, lambda _: None) is theirs
