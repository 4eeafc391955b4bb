"""What signals say about capacity."""

from collections.abc import Iterable

import pytest

from broker.model.capacity import FlavorKey, Signal, SignalKind
from broker.model.intent import CapacityType
from broker.placement.outlook import Outlook, outlook

KEY = FlavorKey(cluster="c", queue="q", flavor="spot")
HALF_LIFE_S = 1800.0


def _signal(kind: SignalKind, at_s: float, wait_s: float | None = None, gpus: int = 0) -> Signal:
    return Signal(key=KEY, kind=kind, elapsed_s=at_s, source="test", wait_s=wait_s, gpus=gpus)


def believed(
    signals: Iterable[Signal], now_s: float, gpus: int = 8, half_life_s: float = HALF_LIFE_S
) -> Outlook:
    return outlook(signals, CapacityType.SPOT, now_s, gpus=gpus, half_life_s=half_life_s)


def test_nodes_that_were_asked_for_before_the_outage_do_not_end_it() -> None:
    signals = (
        _signal(SignalKind.PARTIAL, 100.0),
        _signal(SignalKind.NODES_CAME, 102.0, wait_s=2.0),
    )
    found = believed(signals, 130.0)
    assert found.outage_s == 30.0
    assert found.chance < believed((), 130.0).chance


def test_nodes_that_were_asked_for_after_the_outage_end_it() -> None:
    signals = (
        _signal(SignalKind.STOCKOUT, 100.0),
        _signal(SignalKind.NODES_CAME, 160.0, wait_s=20.0),
    )
    assert believed(signals, 170.0).outage_s is None


def test_a_cloud_that_lets_the_project_have_no_more_is_worse_than_one_that_has_no_more() -> None:
    times = (100.0, 200.0, 300.0)
    spent = believed([_signal(SignalKind.CLOUD_QUOTA, at) for at in times], 310.0)
    dry = believed([_signal(SignalKind.STOCKOUT, at) for at in times], 310.0)
    assert spent.chance < dry.chance < believed((), 310.0).chance
    assert spent.outage_s == dry.outage_s == 210.0
    came = _signal(SignalKind.NODES_CAME, 400.0, wait_s=20.0)
    assert believed([_signal(SignalKind.CLOUD_QUOTA, 100.0), came], 410.0).outage_s is None


def test_a_queue_that_can_never_take_a_gang_says_nothing_of_machines() -> None:
    refused = [_signal(SignalKind.QUOTA_REFUSED, at) for at in (100.0, 200.0)]
    assert believed(refused, 210.0) == believed((), 210.0)


def test_a_burst_is_one_observation() -> None:
    one = (_signal(SignalKind.PREEMPTED, 100.0),)
    eight = tuple(_signal(SignalKind.PREEMPTED, 100.0 + i) for i in range(8))
    assert believed(eight, 110.0) == believed(one, 110.0)


def test_a_pool_that_just_took_machines_back_is_believed_less_than_one_never_tried() -> None:
    signals = (
        _signal(SignalKind.NODES_CAME, 100.0, wait_s=2.0),
        _signal(SignalKind.PREEMPTED, 130.0),
    )
    never_tried = believed((), 140.0)
    assert believed(signals, 140.0).chance < never_tried.chance


def test_one_node_that_came_ends_an_outage_for_its_size_and_not_for_eight() -> None:
    dry = _signal(SignalKind.PARTIAL, 100.0)
    one = _signal(SignalKind.NODES_CAME, 160.0, wait_s=20.0, gpus=1)
    assert believed((dry, one), 170.0, gpus=1).outage_s is None
    assert believed((dry, one), 170.0, gpus=8).outage_s == 70.0
    alone = believed((dry,), 170.0, gpus=8).chance
    eight = _signal(SignalKind.NODES_CAME, 160.0, wait_s=20.0, gpus=8)
    chances = [believed((dry, came), 170.0, gpus=8).chance for came in (one, eight)]
    assert alone < chances[0] < chances[1]


def test_nodes_that_came_one_by_one_after_an_outage_end_it_together() -> None:
    dry = _signal(SignalKind.STOCKOUT, 100.0)
    ones = [_signal(SignalKind.NODES_CAME, 160.0 + n, wait_s=20.0, gpus=1) for n in range(8)]
    assert believed((dry, *ones[:7]), 200.0).outage_s is not None
    assert believed((dry, *ones), 200.0).outage_s is None
    together = _signal(SignalKind.NODES_CAME, 160.0, wait_s=20.0, gpus=8)
    assert believed((dry, *ones), 200.0).chance == pytest.approx(
        believed((dry, together), 200.0).chance, abs=0.01
    )


def test_a_policy_says_how_fast_news_fades() -> None:
    dry = (_signal(SignalKind.STOCKOUT, 0.0),)
    never = believed((), 600.0).chance
    slow, fast = (believed(dry, 600.0, half_life_s=s).chance for s in (1800.0, 60.0))
    assert slow < fast
    assert fast == pytest.approx(never, abs=0.02)
