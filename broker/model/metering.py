"""How many machines a placement has, and for how long: a step function, booked as it goes.

The rule: a machine is counted from when it came until it was seen gone, whatever the state of its
gang; one that never came is never counted. Between two facts the last one holds, also over a
silence: unknown is not zero. A fact that names its time counts from that time, but never from
before what is booked. Read ``told`` first.
"""

from typing import assert_never

from broker.model.bill import Meter, NodesFrom
from broker.model.replacing import replace
from broker.model.run import Arrival, Placement, Site
from broker.model.states import PlacementState

_MS = 1000


def booked(meter: Meter, state: PlacementState, until_s: float) -> Meter:
    """Return the meter with what its machines did up to ``until_s`` booked to a state's phase."""
    until_ms = max(meter.since_ms, round(until_s * _MS))
    spent_ms = (until_ms - meter.since_ms) * meter.nodes
    paid = meter.paid
    match state:
        case PlacementState.PREPARING | PlacementState.QUEUED | PlacementState.PROVISIONING:
            # A cluster may leave machines with a gang that it puts back into the queue.
            paid = replace(paid, provisioning_ms=paid.provisioning_ms + spent_ms)
        case PlacementState.AT_GATE:
            paid = replace(paid, at_gate_ms=paid.at_gate_ms + spent_ms)
        case PlacementState.RUNNING:
            paid = replace(paid, running_ms=paid.running_ms + spent_ms)
        case PlacementState.ENDED:
            return meter
        case _:
            assert_never(state)
    return replace(meter, since_ms=until_ms, paid=paid)


def told(placement: Placement, nodes: tuple[NodesFrom, ...], now_s: float) -> Meter:
    """Return the placement's meter after its cluster told how its machines came and went.

    ``nodes`` are in the order of their times. What was before the last booking stays as it is.
    """
    meter = placement.meter
    for one in nodes:
        before = booked(meter, placement.state, min(one.at_s, now_s))
        meter = replace(before, nodes=_possible(placement.site, one.nodes))
    return meter


def whole_since_s(site: Site, nodes: tuple[NodesFrom, ...]) -> float | None:
    """Return when the last of the gang's machines came, as told; None when it never was whole."""
    came_s, was_whole = None, False
    for one in nodes:
        is_whole = one.nodes >= site.nodes
        if is_whole and not was_whole:
            came_s = one.at_s
        was_whole = is_whole
    return came_s


def arrived(placement: Placement, state: PlacementState, arrival: Arrival) -> int:
    """Return how many machines a placement has now that it was seen in a state.

    Where its cluster does not count them, the state tells: none of a gang in line, all of a whole
    one, and of one whose machines are on their way all, unless it was counted before.
    """
    if arrival.nodes_here is not None:
        return _possible(placement.site, arrival.nodes_here)
    match state:
        case PlacementState.PREPARING | PlacementState.QUEUED | PlacementState.ENDED:
            return 0
        case PlacementState.PROVISIONING:
            was_counted = placement.arrival.nodes_here is not None
            return placement.meter.nodes if was_counted else placement.site.nodes
        case PlacementState.AT_GATE:
            return placement.site.nodes
        case PlacementState.RUNNING:
            return placement.meter.nodes
        case _:
            assert_never(state)


def gpus_per_node(site: Site) -> int:
    """Return the accelerators of one machine of the gang."""
    return site.gpus // max(1, site.nodes)


def _possible(site: Site, nodes: int) -> int:
    """A gang has no more machines than it asked for, whatever a cluster says."""
    return max(0, min(nodes, site.nodes))
