"""The small streams: regions, teams, the log's own life."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from broker.history.events import Event, Recorded
from broker.history.refusals import IllegalMoveError, Refused
from broker.history.regional import (
    RATES_MAX,
    BrokerState,
    RegionState,
    TeamState,
    decide_broker,
    decide_region,
    decide_team,
    evolve_broker,
    evolve_region,
    evolve_team,
    unseen_regions,
)
from broker.history.regional_commands import (
    BeginIncarnation,
    BrokerCommand,
    CarrySpend,
    CordonRegion,
    DrainRegion,
    RecordCopyRate,
    RecordSurvey,
    RegionCommand,
    SetCaps,
    SetPolicy,
    UncordonRegion,
    WaiveRegion,
)
from broker.history.regional_events import CapsSet, RegionCordoned
from broker.model.copying import CopyKind
from broker.model.policy import RegionPolicy, TeamCaps
from broker.model.reasons import Reason
from tests.builders import BROKER, make_moment


def record(event: Event, stream_version: int) -> Recorded:
    return Recorded(
        position=stream_version,
        stream="stream",
        stream_version=stream_version,
        at=make_moment(10.0),
        actor=BROKER,
        event=event,
    )


def region_after(*commands: RegionCommand, incarnation: int = 1) -> RegionState:
    region = RegionState(id="alpha")
    for command in commands:
        for event in decide_region(region, command, incarnation):
            region = evolve_region(region, record(event, region.stream_version + 1))
        assert decide_region(region, command, incarnation) == ()
    return region


def broker_after(*commands: BrokerCommand) -> BrokerState:
    broker = BrokerState()
    for command in commands:
        for event in decide_broker(broker, command):
            broker = evolve_broker(broker, record(event, broker.stream_version + 1))
        assert decide_broker(broker, command) == ()
    return broker


def rate_of(source: str, bytes_per_s: float, kind: CopyKind = CopyKind.IMAGE) -> RecordCopyRate:
    return RecordCopyRate(kind=kind, source=source, bytes_per_s=bytes_per_s)


def test_a_rate_is_kept_by_pair_and_kind_and_only_where_forecasts_would_be_others() -> None:
    saved = rate_of("beta", 9e6, CopyKind.CHECKPOINT)
    region = region_after(rate_of("beta", 50e6), saved, rate_of("", 1e6))
    before = region.stream_version
    region = region_after(rate_of("beta", 50e6), saved, rate_of("", 1e6), rate_of("beta", 60e6))
    assert region.stream_version == before
    region = region_after(rate_of("beta", 50e6), saved, rate_of("", 1e6), rate_of("beta", 70e6))
    assert {(one.kind, one.source): one.bytes_per_s for one in region.copy_rates} == {
        (CopyKind.CHECKPOINT, "beta"): 9e6,
        (CopyKind.IMAGE, ""): 1e6,
        (CopyKind.IMAGE, "beta"): 70e6,
    }
    assert (
        region.copy_rate(CopyKind.IMAGE, "beta"),
        region.copy_rate(CopyKind.IMAGE, "gamma"),
    ) == (
        70e6,
        None,
    )


@pytest.mark.parametrize("rate", [0.0, -1.0, math.inf, math.nan])
def test_what_is_no_rate_is_not_written_down(rate: float) -> None:
    assert region_after(rate_of("beta", rate)).copy_rates == ()


def test_of_ever_new_pairs_the_latest_are_kept() -> None:
    region = region_after(*(rate_of(f"r{number}", 1e6) for number in range(RATES_MAX + 5)))
    assert len(region.copy_rates) == RATES_MAX
    assert region.copy_rates[-1].source == f"r{RATES_MAX + 4}"


def test_a_policy_is_replaced_whole_under_its_etag() -> None:
    policy = RegionPolicy(weight=0.5)
    region = region_after(SetPolicy(policy=policy, expected_generation=1))
    assert (region.policy, region.generation) == (policy, 2)
    stale = SetPolicy(policy=RegionPolicy(), expected_generation=1)
    with pytest.raises(Refused) as caught:
        decide_region(region, stale, 1)
    assert caught.value.reason is Reason.ETAG_MISMATCH


def test_a_drain_cordons_and_is_ended_by_the_uncordon() -> None:
    drain = DrainRegion(message="maintenance", grace_s=60.0)
    region = region_after(CordonRegion(message="flaky"), drain)
    assert region.is_cordoned
    assert region.drain is not None
    assert (region.drain.grace_s, region.drain.began) == (60.0, make_moment(10.0))
    open_again = region_after(CordonRegion(message="flaky"), drain, UncordonRegion())
    assert (open_again.is_cordoned, open_again.drain) == (False, None)


def test_caps_and_what_departed_runs_spent_stay_with_the_team() -> None:
    team = TeamState(id="vision")
    caps = SetCaps(caps=TeamCaps(running_gpus=8), expected_generation=1)
    for command in (caps, CarrySpend(usd=Decimal("1.5"), runs=2)):
        for event in decide_team(team, command):
            team = evolve_team(team, record(event, team.stream_version + 1))
    assert decide_team(team, caps) == ()
    assert (team.caps, team.generation) == (TeamCaps(running_gpus=8), 2)
    assert (team.carried_usd, team.carried_runs) == (Decimal("1.5"), 2)


def test_a_log_that_was_never_restored_waits_for_no_region() -> None:
    broker = broker_after(BeginIncarnation(incarnation=1, is_restored=False))
    assert unseen_regions(broker, {}, {"alpha"}) == frozenset()


def test_a_restored_broker_waits_until_each_region_is_read_or_waived() -> None:
    broker = broker_after(
        BeginIncarnation(incarnation=2, is_restored=True), RecordSurvey(region="alpha")
    )
    waived = region_after(WaiveRegion(), incarnation=2)
    regions = {"alpha": RegionState(id="alpha"), "beta": waived}
    assert unseen_regions(broker, regions, {"alpha", "beta", "gamma"}) == {"beta", "gamma"}
    beta = {"beta": RegionState(id="beta", waived_incarnation=2)}
    assert unseen_regions(broker, beta, {"alpha", "beta", "gamma"}) == {"gamma"}
    # A waiver and a survey hold for one restore.
    again = broker_after(
        BeginIncarnation(incarnation=2, is_restored=True),
        RecordSurvey(region="alpha"),
        BeginIncarnation(incarnation=3, is_restored=True),
    )
    assert unseen_regions(again, beta, {"alpha", "beta"}) == {"alpha", "beta"}


def test_a_log_does_not_go_back_to_a_former_life() -> None:
    broker = broker_after(BeginIncarnation(incarnation=2, is_restored=True))
    with pytest.raises(Refused):
        decide_broker(broker, BeginIncarnation(incarnation=1, is_restored=False))


def test_an_event_of_another_stream_or_out_of_turn_stops_the_log() -> None:
    caps = CapsSet(caps=TeamCaps(), generation=2)
    with pytest.raises(IllegalMoveError):
        evolve_region(RegionState(id="alpha"), record(caps, 1))
    with pytest.raises(IllegalMoveError):
        evolve_broker(BrokerState(), record(caps, 1))
    with pytest.raises(IllegalMoveError):
        evolve_team(TeamState(id="vision"), record(RegionCordoned(message="x"), 1))
    with pytest.raises(IllegalMoveError):
        evolve_region(RegionState(id="alpha"), record(RegionCordoned(message="x"), 2))
