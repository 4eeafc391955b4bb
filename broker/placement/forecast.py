"""How soon a gang would start on a flavor: quota, then nodes, each with what is known of it.

The rule: quota is not capacity. A gang starts when the queue ahead has drained and its nodes
stand; the first comes from headroom and the observed rate of admissions, the second from free
nodes, the cluster's own word, or what nodes took of late. Unknown is not zero.
"""

from math import exp2

from broker.model.capacity import Certainty, FlavorFacts, Forecast
from broker.model.intent import CapacityType, HardwareOption
from broker.placement.outlook import Outlook
from broker.placement.words import counted, duration

# Seconds for nodes to come where neither the flavor nor a signal says.
STARTUP_S: dict[CapacityType, float] = {
    CapacityType.RESERVED: 60.0,
    CapacityType.ON_DEMAND: 180.0,
    CapacityType.SPOT: 180.0,
    CapacityType.FLEX: 1800.0,
}
GATE_S = 5.0  # from nodes to a whole gang at its gate
HOLD_S = 3600.0  # how long a gang holds quota where no admission was seen yet
UNKNOWN_QUOTA_S = 1800.0
SPREAD = 3.3  # p90 over p50 of an exponential wait: ln 10 / ln 2
FREE_NODES_CHANCE = 0.97  # a node seen free can be taken by another before the gang asks


def forecast(
    flavor: FlavorFacts,
    outlook: Outlook,
    option: HardwareOption,
    remaining_s: float | None,
    *,
    pull_s: float = 0.0,
) -> Forecast:
    """Return the distribution of the time to start for a gang that asks now.

    ``remaining_s`` is what is left of the run's wait, None for no bound. ``pull_s`` is how long
    machines that have nothing of its image pull it: nobody knows which of them have.
    """
    quota_s, quota_words = _quota(flavor, outlook, option.gpus)
    free = flavor.ranks_free(option)
    has_nodes = free is not None and free >= option.nodes
    if has_nodes and quota_s == 0.0:
        chance = max(FREE_NODES_CHANCE, outlook.chance)
        return Forecast(
            p50_s=GATE_S + pull_s,
            p90_s=GATE_S * SPREAD + pull_s,
            chance=chance * _within(GATE_S + pull_s, remaining_s),
            certainty=Certainty.NODES_FREE,
            basis=f"free now: {_free(flavor, free or 0)}{_pull(pull_s)}",
        )
    nodes_s, node_words = _nodes(flavor, outlook, has_nodes)
    p50_s = (quota_s or 0.0) + nodes_s + GATE_S
    return Forecast(
        p50_s=p50_s + pull_s,
        p90_s=p50_s * SPREAD + pull_s,
        chance=outlook.chance * _within(p50_s + pull_s, remaining_s),
        certainty=_certainty(flavor, quota_s),
        basis=f"{quota_words}; {node_words}{_pull(pull_s)}",
    )


def _pull(pull_s: float) -> str:
    return f"; its image is pulled in {duration(pull_s)}" if pull_s >= 1.0 else ""


def _free(flavor: FlavorFacts, ranks: int) -> str:
    if flavor.room is None:
        return counted(ranks, "node")
    return f"room for {counted(ranks, 'rank')}"


def _quota(flavor: FlavorFacts, outlook: Outlook, gpus: int) -> tuple[float, str]:
    """Return the median seconds until quota is reserved, and why."""
    headroom = flavor.headroom
    if headroom is None:
        return UNKNOWN_QUOTA_S, "its quota was not seen"
    ahead = flavor.pending_ahead_gpus or 0
    missing = gpus + ahead - headroom
    if missing <= 0:
        return 0.0, "quota is free"
    rate = outlook.drain_gpus_per_s or max(1, flavor.nominal or 1) / HOLD_S
    wait_s = missing / rate
    who = f"{ahead} {flavor.accelerator} ahead" if ahead else f"{headroom} of {gpus} GPUs free"
    pace = "rate seen" if outlook.drain_gpus_per_s else "usual rate"
    return wait_s, f"{who}, about {duration(wait_s)} at the {pace}"


def _nodes(flavor: FlavorFacts, outlook: Outlook, has_nodes: bool) -> tuple[float, str]:
    """Return the median seconds until the nodes stand once quota is there, and why."""
    if flavor.eta_s is not None:
        return flavor.eta_s, f"booked capacity is said to come in {duration(flavor.eta_s)}"
    if has_nodes:
        return 0.0, "nodes are free"
    takes_s = outlook.takes_s or flavor.startup_s or STARTUP_S[flavor.capacity_type]
    if outlook.outage_s is not None:
        # Lindy: an outage of unknown end is half over.
        rest_s = max(outlook.outage_s, outlook.look_again_s)
        return rest_s + takes_s, f"out of stock for {duration(outlook.outage_s)}"
    return takes_s, f"nodes take about {duration(takes_s)}"


def _certainty(flavor: FlavorFacts, quota_s: float) -> Certainty:
    if flavor.headroom is None:
        return Certainty.UNKNOWN
    is_booked = flavor.eta_s is not None or flavor.capacity_type is CapacityType.RESERVED
    return Certainty.BOOKED if is_booked and quota_s == 0.0 else Certainty.QUOTA_ONLY


def _within(p50_s: float, remaining_s: float | None) -> float:
    """Return the chance that an exponential wait of this median ends in time."""
    if remaining_s is None:
        return 1.0
    return 1.0 - exp2(-max(0.0, remaining_s) / max(p50_s, 0.001))
