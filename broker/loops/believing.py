"""What a cluster may say: numbers that can be, texts that can be told. Pure.

The rule: what cannot be is unknown, and a flavor that cannot be told apart is left out and said to
be unseen; nothing that a cluster says stops an agent, is written down unreadable, or moves a
user's terminal. What is as it may be is passed on as it came. Read ``believed`` first.
"""

import math
import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from decimal import Decimal

from broker.model.intent import CapacityType
from regions.capacity import FlavorSeen, QueueSeen, RoomSeen, SignalSeen
from regions.cluster import (
    ClusterObservation,
    EpochKey,
    EpochSeen,
    MemberSeen,
    PlacementSeen,
    RankEnded,
)
from regions.launcher.words import can_be_told, told

COUNT_MAX = 2**31 - 1  # what the wire's counts hold
SECONDS_MAX = 1e9  # thirty years
PRICE_MAX = Decimal(1_000_000)  # dollars for a GPU hour
NAME_MAX = 253  # the longest name that Kubernetes gives
TEXT_MAX = 2000
SENTENCES_MAX = 100
HISTORY_MAX = 100
ROOMS_MAX = 1000  # zones of a flavor times sizes of ranks
CAPACITY_TYPES = frozenset(kind.value for kind in CapacityType)


def believed(observation: ClusterObservation) -> ClusterObservation:
    """Return an observation with what cannot be left out of it."""
    queues = tuple(_queue(queue) for queue in observation.queues if _is_name(queue.queue))
    flavors = sum(len(queue.flavors) for queue in observation.queues)
    is_less = sum(len(queue.flavors) for queue in queues) < flavors
    blind = tuple(told(said, TEXT_MAX) for said in observation.blind[:SENTENCES_MAX])
    if is_less:
        blind = (*blind, "it shows flavors that cannot be")
    placements = {
        name: _placement(seen)
        for name, seen in observation.placements.items()
        if name == seen.placement and _is_name(name)
    }
    epochs = _epochs(observation.epochs)
    signals = tuple(
        _signal(seen)
        for seen in observation.signals
        if _is_name(seen.queue) and _is_name(seen.flavor)
    )
    is_as_it_came = (
        blind == observation.blind
        and epochs is observation.epochs
        and _are_same(queues, observation.queues)
        and _are_same(signals, observation.signals)
        and _are_same(placements.values(), observation.placements.values())
    )
    if is_as_it_came:
        return observation
    return replace(
        observation,
        queues=queues,
        blind=blind,
        placements=placements,
        epochs=epochs,
        signals=signals,
    )


def without_impostors(
    observation: ClusterObservation, owner_of: Callable[[str], str | None]
) -> ClusterObservation:
    """Return an observation in which each placement that the log knows belongs to its run.

    ``owner_of`` names the key of the run that has a placement, None for a stranger. An object of
    another run under a name of ours says nothing of ours: it is shown as a stranger, and what it
    hides was not seen. Believed, its end would close a start whose gang trains.
    """
    placements = observation.placements
    odd = {
        name
        for name, seen in placements.items()
        if (owner := owner_of(name)) is not None and owner != seen.run_key
    }
    if not odd:
        return observation
    return replace(
        observation,
        is_whole=False,
        blind=(*observation.blind, *(f"{name} is of another run" for name in sorted(odd))),
        placements={
            f"{name} of {told(seen.run_key, NAME_MAX)}" if name in odd else name: seen
            for name, seen in placements.items()
        },
    )


def without_store(observation: ClusterObservation, why: str) -> ClusterObservation:
    """Return an observation whose store was not read: what answered in its place is another one."""
    return replace(
        observation,
        is_whole=False,
        is_store_readable=False,
        blind=(*observation.blind, told(why, TEXT_MAX)),
        epochs={},
        unread={},
    )


def _are_same(some: Collection[object], others: Collection[object]) -> bool:
    """Whether these are the very same objects: nothing was left out of any of them."""
    return len(some) == len(others) and all(map(operator.is_, some, others))


def _queue(queue: QueueSeen) -> QueueSeen:
    flavors = tuple(_flavor(flavor) for flavor in queue.flavors if _can_be(flavor))
    is_fine = _is_count(queue.pending) and _is_count(queue.pending_gpus)
    if is_fine and _are_same(flavors, queue.flavors):
        return queue
    return replace(
        queue,
        pending=_count(queue.pending),
        pending_gpus=_count(queue.pending_gpus),
        flavors=flavors,
    )


def _can_be(flavor: FlavorSeen) -> bool:
    names = (flavor.flavor, flavor.accelerator, *flavor.zones)
    is_a_size = 0 <= flavor.accelerators_per_node <= COUNT_MAX
    return is_a_size and flavor.capacity_type in CAPACITY_TYPES and all(map(_is_name, names))


def _flavor(flavor: FlavorSeen) -> FlavorSeen:
    price = flavor.price_per_gpu_hour
    can_be_paid = price is not None and price.is_finite() and 0 <= price <= PRICE_MAX
    counts = (
        flavor.nominal,
        flavor.reserved,
        flavor.used,
        flavor.parked,
        flavor.borrowable,
        flavor.nodes_free,
        flavor.nodes_coming,
        flavor.max_nodes,
        flavor.free,
        flavor.most,
    )
    spans = (flavor.startup_s, flavor.preemption_notice_s, flavor.eta_s, flavor.max_run_s)
    has_room = flavor.room is None or (
        len(flavor.room) <= ROOMS_MAX and all(map(_is_room, flavor.room))
    )
    is_fine = has_room and (can_be_paid or price is None)
    if is_fine and all(map(_is_count, counts)) and all(map(_is_span, spans)):
        return flavor
    return replace(
        flavor,
        price_per_gpu_hour=price if can_be_paid else None,
        nominal=_count(flavor.nominal),
        reserved=_count(flavor.reserved),
        used=_count(flavor.used),
        parked=_count(flavor.parked),
        borrowable=_count(flavor.borrowable),
        nodes_free=_count(flavor.nodes_free),
        nodes_coming=_count(flavor.nodes_coming),
        max_nodes=_count(flavor.max_nodes),
        startup_s=_seconds(flavor.startup_s),
        preemption_notice_s=_seconds(flavor.preemption_notice_s),
        eta_s=_seconds(flavor.eta_s),
        max_run_s=_seconds(flavor.max_run_s),
        free=_count(flavor.free),
        most=_count(flavor.most),
        room=flavor.room if has_room else None,
    )


def _is_room(seen: RoomSeen) -> bool:
    is_named = not seen.zone or _is_name(seen.zone)
    return is_named and all(0 <= each <= COUNT_MAX for each in (seen.accelerators, seen.ranks))


def _placement(seen: PlacementSeen) -> PlacementSeen:
    is_fine = (
        can_be_told(seen.message + seen.uid)
        and len(seen.message) <= TEXT_MAX
        and all(map(_is_count, (seen.ahead, seen.ahead_gpus, seen.nodes_here, seen.nodes_wanted)))
        and _is_span(seen.eta_s)
        and _is_span(seen.ends_s)
        and _is_history(seen.history)
        and all(_is_code(one.exit_code) and _is_code(one.signal) for one in seen.members)
        and all(can_be_told(name + value) for name, value in seen.labels.items())
    )
    if is_fine:
        return seen
    return replace(
        seen,
        uid=told(seen.uid, NAME_MAX),
        message=told(seen.message, TEXT_MAX),
        ahead=_count(seen.ahead),
        ahead_gpus=_count(seen.ahead_gpus),
        nodes_here=_count(seen.nodes_here),
        nodes_wanted=_count(seen.nodes_wanted),
        eta_s=_seconds(seen.eta_s),
        ends_s=_seconds(seen.ends_s),
        # Of times that cannot be none is believed: what is counted as of now still is.
        history=seen.history if _is_history(seen.history) else (),
        members=tuple(_member(one) for one in seen.members),
        labels={told(name, NAME_MAX): told(value, TEXT_MAX) for name, value in seen.labels.items()},
    )


def _member(member: MemberSeen) -> MemberSeen:
    return replace(member, exit_code=_code(member.exit_code), signal=_code(member.signal))


def _epochs(epochs: Mapping[EpochKey, EpochSeen]) -> Mapping[EpochKey, EpochSeen]:
    odd = {
        key: replace(seen, ends=tuple(_end(end) for end in seen.ends))
        for key, seen in epochs.items()
        if not all(_is_code(end.exit_code) and _is_code(end.signal) for end in seen.ends)
    }
    return {**epochs, **odd} if odd else epochs


def _end(end: RankEnded) -> RankEnded:
    return replace(end, exit_code=_code(end.exit_code), signal=_code(end.signal))


def _signal(seen: SignalSeen) -> SignalSeen:
    is_fine = (
        len(seen.source) <= NAME_MAX
        and len(seen.detail) <= TEXT_MAX
        and can_be_told(seen.source + seen.detail)
        and _is_count(seen.gpus)
        and _is_span(seen.age_s)
        and _is_span(seen.wait_s)
    )
    if is_fine:
        return seen
    return replace(
        seen,
        age_s=_seconds(seen.age_s) or 0.0,
        source=told(seen.source, NAME_MAX),
        detail=told(seen.detail, TEXT_MAX),
        gpus=_count(seen.gpus) or 0,
        wait_s=_seconds(seen.wait_s),
    )


def _is_name(text: str) -> bool:
    return len(text) <= NAME_MAX and can_be_told(text)


def _is_count(count: int | None) -> bool:
    return count is None or 0 <= count <= COUNT_MAX


def _count(count: int | None) -> int | None:
    return count if _is_count(count) else None


def _is_span(seconds: float | None) -> bool:
    return seconds is None or (math.isfinite(seconds) and 0 <= seconds <= SECONDS_MAX)


def _seconds(seconds: float | None) -> float | None:
    return seconds if _is_span(seconds) else None


def _is_history(history: tuple[tuple[float, int], ...]) -> bool:
    ages = [age_s for age_s, _ in history]
    is_possible = all(_is_span(age_s) and _is_count(count) for age_s, count in history)
    return is_possible and len(ages) <= HISTORY_MAX and ages == sorted(ages, reverse=True)


def _is_code(code: int | None) -> bool:
    return code is None or -COUNT_MAX <= code <= COUNT_MAX


def _code(code: int | None) -> int | None:
    return code if _is_code(code) else None
