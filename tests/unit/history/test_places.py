"""A region's store and the orphans in its clusters, as the log folds them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.history.events import Event, Recorded
from broker.history.refusals import Code, Refused
from broker.history.regional import (
    KnownOrphan,
    RegionState,
    StoreDoubt,
    decide_region,
    evolve_region,
)
from broker.history.regional_commands import (
    AcceptStore,
    ClaimStore,
    DoubtStore,
    RecordOrphan,
    RecordOrphanGone,
    RegionCommand,
    RemoveOrphan,
)
from broker.history.regional_events import OrphanRemovalOrdered, OrphanSeen, StoreAccepted
from broker.history.regional_places import ORPHANS_MAX
from broker.model.reasons import Reason
from tests.builders import BROKER, make_moment

WIPED = DoubtStore(reason=Reason.STORE_WIPED, message="it has lost its name")
ORPHAN = RecordOrphan(cluster="a-1", object="p1", message="of nobody", is_ours=True)
REMOVE = RemoveOrphan(cluster="a-1", object="p1")


def record(event: Event, stream_version: int) -> Recorded:
    return Recorded(
        position=stream_version,
        stream="regions/alpha",
        stream_version=stream_version,
        at=make_moment(10.0),
        actor=BROKER,
        event=event,
    )


def after(*commands: RegionCommand, region: RegionState | None = None) -> RegionState:
    region = region or RegionState(id="alpha")
    for command in commands:
        for event in decide_region(region, command, 1):
            region = evolve_region(region, record(event, region.stream_version + 1))
        assert decide_region(region, command, 1) == ()
    return region


def test_a_store_is_claimed_once_and_another_never_in_its_place() -> None:
    region = after(ClaimStore(store="one"))
    assert (region.store, region.doubt) == ("one", None)
    with pytest.raises(Refused, match="known as one"):
        decide_region(region, ClaimStore(store="two"), 1)


def test_a_doubt_ends_when_the_right_store_is_back() -> None:
    region = after(ClaimStore(store="one"), WIPED)
    assert region.doubt == StoreDoubt(reason=Reason.STORE_WIPED, message="it has lost its name")
    assert after(ClaimStore(store="one"), region=region).doubt is None


def test_a_person_puts_another_store_in_the_place_of_a_lost_one() -> None:
    region = after(ClaimStore(store="one"), WIPED)
    assert decide_region(region, AcceptStore(), 1) == (StoreAccepted(lost="one"),)
    region = after(AcceptStore(), ClaimStore(store="two"), region=region)
    assert (region.store, region.doubt) == ("two", None)


def test_a_store_that_nothing_speaks_against_is_not_given_up() -> None:
    region = after(ClaimStore(store="one"))
    assert decide_region(region, AcceptStore(), 1) == ()


def test_a_store_with_open_starts_is_not_accepted_before_somebody_closed_them() -> None:
    region = after(ClaimStore(store="one"), WIPED)
    runs = [f"teams/t/runs/r{i}" for i in range(7)]
    with pytest.raises(Refused, match=r"7 runs .*r0, .*broker replace") as refused:
        decide_region(region, AcceptStore(), 1, open_starts=runs)
    assert refused.value.code is Code.FAILED_PRECONDITION


def test_another_brokers_store_is_never_accepted() -> None:
    theirs = DoubtStore(reason=Reason.STORE_NOT_OURS, message="another broker works there")
    with pytest.raises(Refused, match="another broker works there"):
        decide_region(after(theirs), AcceptStore(), 1)


def test_an_orphan_is_said_with_its_reason_and_leaves_when_it_is_gone() -> None:
    (seen,) = decide_region(RegionState(id="alpha"), ORPHAN, 1)
    assert isinstance(seen, OrphanSeen)
    assert seen.reason is Reason.ORPHAN_SEEN
    assert after(ORPHAN).orphans == (
        KnownOrphan(
            cluster="a-1",
            object="p1",
            message="of nobody",
            is_ours=True,
            since=make_moment(10.0),
        ),
    )
    assert after(ORPHAN, RecordOrphanGone(cluster="a-1", object="p1")).orphans == ()


def test_a_cluster_that_shows_ever_more_of_them_does_not_fill_the_log() -> None:
    region = RegionState(id="alpha")
    for i in range(2 * ORPHANS_MAX):
        region = after(
            RecordOrphan(cluster="a-1", object=f"p{i}", message="", is_ours=False), region=region
        )
    assert (len(region.orphans), region.stream_version) == (ORPHANS_MAX, ORPHANS_MAX)


def test_what_nobody_wrote_down_is_not_removed() -> None:
    with pytest.raises(Refused, match="no orphan p1") as refused:
        decide_region(RegionState(id="alpha"), REMOVE, 1)
    assert refused.value.code is Code.NOT_FOUND


orphan_commands = st.builds(
    RecordOrphan,
    cluster=st.sampled_from(["a-1", "a-2"]),
    object=st.sampled_from(["p1", "p2"]),
    message=st.just(""),
    is_ours=st.booleans(),
)
gone = st.builds(
    RecordOrphanGone, cluster=st.sampled_from(["a-1", "a-2"]), object=st.sampled_from(["p1", "p2"])
)
removals = st.builds(
    RemoveOrphan, cluster=st.sampled_from(["a-1", "a-2"]), object=st.sampled_from(["p1", "p2"])
)


@given(st.lists(orphan_commands | gone | removals, max_size=12))
def test_a_stranger_is_never_removed(commands: list[RegionCommand]) -> None:
    region = RegionState(id="alpha")
    ours: set[tuple[str, str]] = set()
    for command in commands:
        try:
            events = decide_region(region, command, 1)
        except Refused:
            continue
        for event in events:
            region = evolve_region(region, record(event, region.stream_version + 1))
            match event:
                case OrphanSeen():
                    key = (event.cluster, event.object)
                    ours = ours | {key} if event.is_ours else ours - {key}
                case OrphanRemovalOrdered():
                    assert (event.cluster, event.object) in ours
    assert all(one.is_ours for one in region.orphans if one.is_to_go)
