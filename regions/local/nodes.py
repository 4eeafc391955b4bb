"""Machines: bought, arrived, idle, given back, taken away, or never there at all.

The rule: a node exists only when it came; quota promises none. A gang keeps the nodes that came
for it while it waits for the rest, and its members start on each node as it comes, as pods do.
Read ``provide`` first.
"""

import random
from collections import Counter

from regions.cluster import Cause
from regions.local import gangs
from regions.local.config import FlavorConfig, WorldConfig
from regions.local.state import HOLDS_NODES, Job, Node, Phase, State

MAX_HISTORY = 64
"""Changes of a gang's nodes that are kept: who asks now and then has seen what came before."""
SIGNAL_AGAIN_S = 30.0
"""A stockout that lasts is said again this often: one observation is worth hours, not seconds."""


def arrive(config: WorldConfig, state: State, now_s: float) -> None:
    """Make ready what has come by now, and say what it took."""
    came: dict[str, list[Node]] = {}
    for node in state.nodes.values():
        if not node.is_ready and node.ready_at_s <= now_s:
            node.is_ready = True
            node.idle_since_s = None if node.holder else now_s
            came.setdefault(node.holder, []).append(node)
    for holder, nodes in came.items():
        job = state.jobs.get(holder)
        flavor = config.flavor(nodes[0].flavor)
        if job is None or flavor is None:
            continue
        state.signal(
            "NODES_CAME",
            now_s,
            queue=job.queue,
            flavor=job.flavor,
            source=job.name,
            detail=f"{len(nodes)} nodes",
            gpus=len(nodes) * flavor.accelerators_per_node,
            wait_s=now_s - min(node.bought_s for node in nodes),
        )


def depart(config: WorldConfig, state: State, now_s: float) -> None:
    """Begin the notices that are due, and remove the nodes whose time is over or long idle."""
    for node in list(state.nodes.values()):
        flavor = config.flavor(node.flavor)
        if node.dies_at_s is not None and node.dies_at_s <= now_s and node.takes_at_s is None:
            notice_s = flavor.preemption_notice_s if flavor is not None else 0.0
            is_planned = node.ends_at_s is not None and node.ends_at_s <= now_s + notice_s
            take(state, node, now_s, notice_s, Cause.NODE_PREEMPTED, is_planned=is_planned)
        if node.takes_at_s is not None and node.takes_at_s <= now_s:
            _vanish(state, node, now_s)
        elif flavor is None or _is_idle_too_long(node, flavor, now_s):
            del state.nodes[node.id]


def take(
    state: State,
    node: Node,
    now_s: float,
    notice_s: float,
    cause: Cause,
    *,
    is_planned: bool = False,
) -> None:
    """Begin to take a node away. With a notice its member hears SIGTERM first."""
    if node.takes_at_s is not None and node.takes_at_s <= now_s + notice_s:
        return
    node.takes_at_s, node.take_cause = now_s + notice_s, cause
    job = state.jobs.get(node.holder)
    if job is None or job.phase is Phase.ENDED:
        return
    if not is_planned:
        # Said with the notice: a gang that heard it leaves before the node does. A planned end says
        # nothing of the pool.
        state.signal(
            "NODE_LOST" if cause is Cause.NODE_LOST else "PREEMPTED",
            now_s,
            queue=job.queue,
            flavor=job.flavor,
            source=job.name,
            detail=f"node {node.id}",
            gpus=job.gpus // max(1, job.nodes_wanted),
        )
    if job.phase in (Phase.PROVISIONING, Phase.STANDING):
        job.cause = job.take_cause = cause
        how = "given back as planned" if is_planned else "taken away"
        job.message = f"node {node.id} is {how} in {notice_s:.0f} s"
        job.eta_s = node.takes_at_s
    for member in job.alive:
        if member.node == node.id and member.order == "RUN":
            member.order = "TERM"


def _vanish(state: State, node: Node, now_s: float) -> None:
    """Remove a node with everything that runs on it, and end the job it was part of."""
    del state.nodes[node.id]
    job = state.jobs.get(node.holder)
    if job is None or job.phase is Phase.ENDED:
        return
    for member in job.alive:
        if member.node == node.id:
            member.order = "KILL"
    verb = "was lost" if node.take_cause is Cause.NODE_LOST else "was preempted"
    gangs.stop(job, now_s, node.take_cause, f"node {node.id} {verb}")


def provide(config: WorldConfig, state: State, now_s: float) -> None:
    """Give every admitted job its nodes, in the order of admission: free ones, then bought ones."""
    _release(config, state, now_s)
    for job in sorted(state.live_jobs(), key=lambda job: job.admitted_turn):
        flavor = config.flavor(job.flavor)
        if flavor is None:
            continue
        if job.phase is Phase.BOOKED:
            _hear_booking(state, job, flavor, now_s)
            if job.eta_s is None or job.eta_s <= now_s:
                _redeem(state, job, flavor, now_s)
        if job.spec is None and job.phase is Phase.STANDING:
            _seat_others(state, job, flavor, now_s)
        elif job.phase is Phase.PROVISIONING:
            _assign(state, job)
            _buy(config, state, job, flavor, now_s)
            _start_on_nodes(state, job)


def _release(config: WorldConfig, state: State, now_s: float) -> None:
    """Take nodes from gangs that went; what was booked is given back with them."""
    for node in list(state.nodes.values()):
        job = state.jobs.get(node.holder)
        if not node.holder or (job is not None and job.phase in HOLDS_NODES):
            continue
        flavor = config.flavor(node.flavor)
        if flavor is not None and flavor.capacity_type == "FLEX" and not node.is_warm:
            del state.nodes[node.id]
            continue
        node.holder = ""
        node.idle_since_s = now_s if node.is_ready else None


def held_by(state: State, job: Job) -> list[Node]:
    """The nodes that a job holds, ready or coming, in the order they were bought."""
    return [node for node in state.nodes.values() if node.holder == job.uid]


def here(state: State, job: Job) -> int:
    """How many nodes are there for a job.

    A member whose record was lost is on no known node, and still stands on one.
    """
    return _ready(state)[job.uid] + _off_record(job)


def note_history(state: State, now_s: float) -> None:
    """Write down for each of our jobs whose nodes came or went since when it has how many."""
    ready = _ready(state)
    for job in state.jobs.values():
        known = job.history[-1][1] if job.history else 0
        is_over = job.phase is Phase.ENDED
        if job.spec is None or (is_over and known == 0):
            continue
        count = 0 if is_over else ready[job.uid] + _off_record(job)
        if count != known:
            job.history.append((now_s, count))
            del job.history[:-MAX_HISTORY]


def _ready(state: State) -> Counter[str]:
    return Counter(node.holder for node in state.nodes.values() if node.is_ready)


def _off_record(job: Job) -> int:
    return sum(1 for member in job.alive if not member.node)


def _assign(state: State, job: Job) -> None:
    missing = job.nodes_wanted - len(held_by(state, job))
    free = [
        node
        for node in state.nodes.values()
        if node.flavor == job.flavor and not node.holder and node.takes_at_s is None
    ]
    free.sort(key=lambda node: (not node.is_ready, node.ready_at_s))
    for node in free[: max(0, missing)]:
        node.holder, node.idle_since_s = job.uid, None


def _buy(config: WorldConfig, state: State, job: Job, flavor: FlavorConfig, now_s: float) -> None:
    """Buy what is missing, as far as the flavor has it, and say it when it has not."""
    missing = job.nodes_wanted - len(held_by(state, job))
    count = min(missing, can_buy(state, flavor))
    for index in range(count):
        ready_at_s = now_s + flavor.startup_s + index * flavor.spread_s
        _add(config, state, flavor, job, now_s=now_s, ready_at_s=ready_at_s)
    if flavor.name in state.stock:
        state.stock[flavor.name] -= count
    _explain(state, job, flavor, now_s)


def can_buy(state: State, flavor: FlavorConfig) -> int:
    """How many more nodes of the flavor could be bought now."""
    existing = sum(1 for node in state.nodes.values() if node.flavor == flavor.name)
    return max(0, min(flavor.max_nodes - existing, state.stock.get(flavor.name, flavor.max_nodes)))


def booking_s(state: State, flavor: FlavorConfig) -> float | None:
    """In how many seconds nodes booked now would stand; None: not booked, or no time is named."""
    if flavor.capacity_type != "FLEX" or flavor.name in state.silent_flex:
        return None
    return flavor.flex_wait_s + flavor.startup_s if can_buy(state, flavor) else None


def _explain(state: State, job: Job, flavor: FlavorConfig, now_s: float) -> None:
    """Say why the job still waits for nodes."""
    if job.take_cause is not None:
        return
    held = held_by(state, job)
    here = sum(1 for node in held if node.is_ready)
    coming = [node for node in held if not node.is_ready]
    missing = job.nodes_wanted - len(held)
    job.eta_s = max((node.ready_at_s for node in coming), default=None) if missing == 0 else None
    job.message = f"{here} of {job.nodes_wanted} nodes are here, {len(coming)} are coming"
    if here == job.nodes_wanted:
        job.cause = Cause.PODS_STARTING
    elif missing == 0:
        job.cause = Cause.NODES_COMING
    else:
        job.cause = Cause.PARTIAL_ARRIVAL if held else Cause.STOCKOUT
        job.message += f"; {flavor.name} has no further one in stock"
        if now_s >= job.signal_again_s:
            job.signal_again_s = now_s + SIGNAL_AGAIN_S
            state.signal(
                "PARTIAL" if held else "STOCKOUT",
                now_s,
                queue=job.queue,
                flavor=job.flavor,
                source=job.name,
                detail=job.message,
                gpus=missing * flavor.accelerators_per_node,
            )


def _start_on_nodes(state: State, job: Job) -> None:
    """Want a member on each node that is here and has none; ranks in the order of arrival."""
    ranks = {member.rank for member in gangs.present(job)}
    taken = {member.node for member in gangs.present(job)}
    free_ranks = (rank for rank in range(job.nodes_wanted) if rank not in ranks)
    for node in held_by(state, job):
        if node.is_ready and node.id not in taken:
            gangs.place(job, next(free_ranks), node.id)


def _hear_booking(state: State, job: Job, flavor: FlavorConfig, now_s: float) -> None:
    """Say what is heard of a booking: of one that gets no answer, that nothing is."""
    if flavor.name not in state.silent_flex:
        if job.silent_at_s is not None:
            job.silent_at_s, job.cause = None, Cause.WAITING_FOR_FLEX
        return
    job.message, job.eta_s = "asked for; nothing is heard of it", None
    if job.silent_at_s is None:
        job.silent_at_s = now_s + flavor.flex_silent_s
    if now_s >= job.silent_at_s:
        job.cause = Cause.FLEX_SILENT


def _redeem(state: State, job: Job, flavor: FlavorConfig, now_s: float) -> None:
    """Turn a booking into nodes, all at once, unless the flavor is out of stock."""
    if flavor.name in state.silent_flex:
        return
    free = sum(1 for node in state.nodes.values() if node.flavor == flavor.name and not node.holder)
    if free + can_buy(state, flavor) < job.nodes_wanted:
        job.message, job.eta_s = "booked; the cloud names no time", None
        return
    gangs.provision(job)


def _seat_others(state: State, job: Job, flavor: FlavorConfig, now_s: float) -> None:
    """A job of others takes free nodes, and its own come with it up to the flavor's limit."""
    _assign(state, job)
    existing = sum(1 for node in state.nodes.values() if node.flavor == flavor.name)
    missing = job.nodes_wanted - len(held_by(state, job))
    for _ in range(min(missing, max(0, flavor.max_nodes - existing))):
        _add(None, state, flavor, job, now_s=now_s, ready_at_s=now_s).is_ready = True


def _add(
    config: WorldConfig | None,
    state: State,
    flavor: FlavorConfig,
    job: Job | None,
    *,
    now_s: float,
    ready_at_s: float,
) -> Node:
    number = state.next_number()
    zones = flavor.zones or ("",)
    node = Node(
        id=f"{flavor.name}-{number}",
        flavor=flavor.name,
        zone=zones[number % len(zones)],
        bought_s=now_s,
        ready_at_s=ready_at_s,
        holder=job.uid if job is not None else "",
    )
    if config is not None:
        if flavor.max_run_s is not None:
            node.ends_at_s = ready_at_s + flavor.max_run_s
        node.dies_at_s = _end_of_life(config, flavor, node)
    state.nodes[node.id] = node
    return node


def _end_of_life(config: WorldConfig, flavor: FlavorConfig, node: Node) -> float | None:
    """When the notice begins: by the flavor's bound on a run, or by the seeded chance of a life."""
    lives = []
    if flavor.max_run_s is not None:
        lives.append(max(0.0, flavor.max_run_s - flavor.preemption_notice_s))
    if flavor.mean_life_s:
        chance = random.Random(f"{config.seed}:{node.id}")
        lives.append(chance.expovariate(1 / flavor.mean_life_s))
    return node.ready_at_s + min(lives) if lives else None


def warm(config: WorldConfig, state: State, now_s: float) -> None:
    """Set up the nodes that stand from the start."""
    for flavor in config.flavors:
        for _ in range(min(flavor.warm_nodes, flavor.max_nodes)):
            node = _add(None, state, flavor, None, now_s=now_s, ready_at_s=now_s)
            node.is_ready = node.is_warm = True


def _is_idle_too_long(node: Node, flavor: FlavorConfig, now_s: float) -> bool:
    return (
        node.idle_since_s is not None
        and not node.is_warm
        and now_s >= node.idle_since_s + flavor.scale_down_s
    )


def ends_at_s(state: State, job: Job) -> float | None:
    """When the first of a job's nodes is given back as planned, None when none is."""
    ends = [node.ends_at_s for node in held_by(state, job) if node.is_ready]
    return min((at_s for at_s in ends if at_s is not None), default=None)


def next_at_s(config: WorldConfig, state: State) -> list[float]:
    """The times at which a node will come or go by itself."""
    times = []
    for node in state.nodes.values():
        if not node.is_ready:
            times.append(node.ready_at_s)
        if node.takes_at_s is not None:
            times.append(node.takes_at_s)
        elif node.dies_at_s is not None:
            times.append(node.dies_at_s)
        flavor = config.flavor(node.flavor)
        if flavor is not None and node.idle_since_s is not None and not node.is_warm:
            times.append(node.idle_since_s + flavor.scale_down_s)
    return times
