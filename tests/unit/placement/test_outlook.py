"""What signals say about capacity."""

from broker.model.capacity import FlavorKey, Signal, SignalKind
from broker.model.intent import CapacityType
from broker.placement.outlook import outlook

KEY = FlavorKey(cluster="c", queue="q", flavor="spot")


def _signal(kind: SignalKind, at_s: float, wait_s: float | None = None) -> Signal:
    return Signal(key=KEY, kind=kind, elapsed_s=at_s, source="test", wait_s=wait_s)


def test_nodes_that_were_asked_for_before_the_outage_do_not_end_it() -> None:
    signals = (
        _signal(SignalKind.PARTIAL, 100.0),
        _signal(SignalKind.NODES_CAME, 102.0, wait_s=2.0),
    )
    found = outlook(signals, CapacityType.SPOT, 130.0)
    assert found.outage_s == 30.0
    assert found.chance < outlook((), CapacityType.SPOT, 130.0).chance


def test_nodes_that_were_asked_for_after_the_outage_end_it() -> None:
    signals = (
        _signal(SignalKind.STOCKOUT, 100.0),
        _signal(SignalKind.NODES_CAME, 160.0, wait_s=20.0),
    )
    assert outlook(signals, CapacityType.SPOT, 170.0).outage_s is None


def test_a_burst_is_one_observation() -> None:
    one = (_signal(SignalKind.PREEMPTED, 100.0),)
    eight = tuple(_signal(SignalKind.PREEMPTED, 100.0 + i) for i in range(8))
    assert outlook(eight, CapacityType.SPOT, 110.0) == outlook(one, CapacityType.SPOT, 110.0)


def test_a_pool_that_just_took_machines_back_is_believed_less_than_one_never_tried() -> None:
    signals = (
        _signal(SignalKind.NODES_CAME, 100.0, wait_s=2.0),
        _signal(SignalKind.PREEMPTED, 130.0),
    )
    never_tried = outlook((), CapacityType.SPOT, 140.0)
    assert outlook(signals, CapacityType.SPOT, 140.0).chance < never_tried.chance
