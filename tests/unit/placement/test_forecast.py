"""What signals say of capacity, and what that makes of the time to start."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from broker.model.capacity import Certainty, FlavorFacts, FreeRoom, Signal, SignalKind
from broker.model.intent import CapacityType, TopologyWish
from broker.placement.forecast import GATE_S, forecast
from broker.placement.outlook import ADVICE_HALF_LIFE_S, LOOK_AGAIN_MAX_S, Outlook, outlook
from tests.unit.placement.pictures import H100X8, make_flavor, signal

FLAVOR = make_flavor()
HALF_LIFE_S = 1800.0


def believe(*seen: tuple[SignalKind, float], now_s: float = 10_000.0) -> Outlook:
    return weighed([signal(FLAVOR, kind, at_s) for kind, at_s in seen], now_s)


def weighed(
    signals: Iterable[Signal], now_s: float, kind: CapacityType = CapacityType.SPOT
) -> Outlook:
    return outlook(signals, kind, now_s, gpus=8, half_life_s=HALF_LIFE_S)


def test_one_stockout_says_more_than_no_news_and_fades() -> None:
    nothing = believe()
    fresh = believe((SignalKind.STOCKOUT, 10_000.0))
    old = believe((SignalKind.STOCKOUT, 10_000.0), now_s=10_000.0 + 6 * HALF_LIFE_S)
    assert fresh.chance < 0.5 < nothing.chance
    assert old.chance == pytest.approx(nothing.chance, abs=0.02)
    assert old.outage_s is None


def test_nodes_that_came_end_an_outage() -> None:
    seen = believe((SignalKind.STOCKOUT, 9_000.0), (SignalKind.NODES_CAME, 9_900.0))
    assert seen.outage_s is None
    assert seen.chance > 0.5


def test_an_outage_that_lasts_is_looked_at_ever_more_rarely() -> None:
    young = believe((SignalKind.STOCKOUT, 9_940.0))
    old = believe((SignalKind.STOCKOUT, 7_000.0), (SignalKind.STOCKOUT, 9_990.0))
    assert (young.outage_s, old.outage_s) == (60.0, 3_000.0)
    assert young.look_again_s == 30.0
    assert old.look_again_s == 1_500.0
    ancient = believe((SignalKind.STOCKOUT, 1.0), (SignalKind.STOCKOUT, 99_999.0), now_s=100_000.0)
    assert ancient.look_again_s == LOOK_AGAIN_MAX_S


def test_advice_is_believed_until_something_was_seen_and_fades() -> None:
    def after(chance: float | None, *seen: SignalKind, at_s: float = 10_000.0) -> float:
        advised = replace(signal(FLAVOR, SignalKind.ADVISED, at_s), chance=chance)
        later = [signal(FLAVOR, kind, 10_000.0) for kind in seen]
        return weighed([advised, *later], 10_000.0).chance

    nothing = believe().chance
    assert after(0.1) < nothing < after(0.95)
    assert after(None) == nothing
    # What the cloud sells as nearly certain is not, once it was tried.
    assert after(0.95, SignalKind.STOCKOUT) < 0.5
    assert after(0.1, SignalKind.NODES_CAME) > 0.5
    assert after(0.1, at_s=10_000.0 - 6 * ADVICE_HALF_LIFE_S) == pytest.approx(nothing, abs=0.02)


def test_on_demand_is_believed_more_than_spot_and_neither_is_certain() -> None:
    chances = [
        weighed((), 0.0, kind).chance for kind in (CapacityType.SPOT, CapacityType.ON_DEMAND)
    ]
    assert 0.5 < chances[0] < chances[1] < 1.0


def foreseen(flavor: FlavorFacts, seen: Outlook | None = None) -> tuple[float | None, Certainty]:
    found = forecast(flavor, seen or believe(), H100X8, None)
    return found.p50_s, found.certainty


def test_free_nodes_with_free_quota_start_at_once() -> None:
    assert foreseen(make_flavor(nodes_free=1)) == (GATE_S, Certainty.NODES_FREE)


ROOM = tuple(
    FreeRoom(zone=zone, accelerators=size, ranks=ranks)
    for zone, size, ranks in (("a", 8, 1), ("a", 4, 3), ("b", 8, 1), ("b", 4, 2), ("b", 1, 9))
)


@pytest.mark.parametrize(
    ("topology", "per_node", "ranks"),
    [
        (TopologyWish.NONE, 8, 2),
        (TopologyWish.PREFERRED, 4, 5),
        (TopologyWish.NONE, 3, 5),
        (TopologyWish.REQUIRED, 8, 1),
        (TopologyWish.REQUIRED, 4, 3),
        (TopologyWish.REQUIRED, 1, 9),
    ],
)
def test_a_gang_starts_at_once_where_all_of_it_fits_as_it_has_to_stand(
    topology: TopologyWish, per_node: int, ranks: int
) -> None:
    flavor = replace(make_flavor(nominal=800, nodes_free=2), room=ROOM)
    for nodes, certainty in ((ranks, Certainty.NODES_FREE), (ranks + 1, Certainty.QUOTA_ONLY)):
        option = replace(H100X8, accelerators_per_node=per_node, nodes=nodes, topology=topology)
        assert forecast(flavor, believe(), option, None).certainty is certainty


def test_ranks_that_have_to_stand_close_need_room_in_one_domain() -> None:
    room = tuple(
        FreeRoom(zone=zone, accelerators=8, ranks=ranks, ranks_close=close)
        for zone, ranks, close in (("a", 5, 2), ("b", 3, 3))
    )
    flavor = replace(make_flavor(nominal=800, nodes_free=8), room=room)
    required = replace(H100X8, topology=TopologyWish.REQUIRED)
    assert (flavor.ranks_free(H100X8), flavor.ranks_free(required)) == (8, 3)


def test_quota_alone_is_not_capacity() -> None:
    assert foreseen(FLAVOR) == (60.0 + GATE_S, Certainty.QUOTA_ONLY)
    in_outage = foreseen(FLAVOR, believe((SignalKind.STOCKOUT, 9_400.0)))
    assert in_outage == (600.0 + 60.0 + GATE_S, Certainty.QUOTA_ONLY)


def test_unknown_quota_is_not_zero_and_not_free() -> None:
    p50_s, certainty = foreseen(make_flavor(nominal=None, nodes_free=4))
    assert certainty is Certainty.UNKNOWN
    assert p50_s is not None
    assert p50_s > 1000.0


def test_the_queue_ahead_drains_at_the_rate_that_was_seen() -> None:
    full = make_flavor(reserved=64, ahead_gpus=24, nodes_free=8)
    admitted = [replace(signal(FLAVOR, SignalKind.ADMITTED, 9_000.0), gpus=32)]
    seen = weighed(admitted, 10_000.0)
    found = forecast(full, seen, H100X8, None)
    assert found.p50_s == pytest.approx((24 + 8) / (32 / 1000.0) + GATE_S)
    assert "24 H100 ahead" in found.basis


def test_booked_capacity_comes_when_its_cluster_says() -> None:
    flex = replace(make_flavor(capacity_type=CapacityType.FLEX), eta_s=7200.0)
    assert foreseen(flex) == (7200.0 + GATE_S, Certainty.BOOKED)


def test_the_chance_is_that_of_a_start_within_the_wait() -> None:
    chances = [forecast(FLAVOR, believe(), H100X8, left).chance for left in (0.0, 65.0, 650.0)]
    assert chances[0] == 0.0
    assert chances[1] == pytest.approx(believe().chance / 2)
    assert chances[2] > 0.99 * believe().chance


def test_how_long_nodes_took_of_late_is_what_they_are_expected_to_take() -> None:
    came = signal(FLAVOR, SignalKind.NODES_CAME, 9_000.0, wait_s=400.0)
    seen = weighed([came], 10_000.0)
    assert foreseen(FLAVOR, seen)[0] == 400.0 + GATE_S
