"""Regions and policies, from the wire and back.

The rule: what a policy leaves unset takes the model's default. Read ``policy_of`` first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields as dataclass_fields
from decimal import Decimal

from google.protobuf import duration_pb2

from broker.history.regional import RegionState
from broker.model.capacity import ClusterFacts, FlavorFacts
from broker.model.capacity_seen import CapacitySeen, FlavorSaid
from broker.model.image import ImageOnItsWay, RegionRegistry
from broker.model.intent import CapacityType
from broker.model.moment import Moment
from broker.model.policy import Patience, RegionPolicy
from broker.model.reasons import Reason
from broker.model.sightings import Orphan
from broker.service import enums, fields, wire
from broker.service.convert_capacity import fact_message, signal_message, tell_said
from broker.service.errors import invalid
from broker.service.silence import silence_message
from broker.service.wire import Axis, member
from broker.v1 import region_pb2

WEIGHT_MAX = 1_000.0
HEDGE_WIDTH_MAX = 10
COPIES_MAX = 20
DAY_S = 86_400.0
POLICY_DURATION_MAX_S = 366 * DAY_S
# What a policy may say, least and most, where it is not anything up to the longest of all. A gang
# stands no time at a gate of 0 s, and news that fades within 0 s divides by it; a launcher takes no
# more than 30 days, and a cancel no more than one to save.
DURATION_BOUNDS_S: Mapping[str, tuple[float, float]] = {
    "gate_timeout": (1.0, 30 * DAY_S),
    "fence_grace": (0.0, 30 * DAY_S),
    "drain_grace": (0.0, DAY_S),
    "patience.start_report": (1.0, POLICY_DURATION_MAX_S),
    "patience.stockout_half_life": (1.0, POLICY_DURATION_MAX_S),
}
PATIENCE = tuple(f.name.removesuffix("_s") for f in dataclass_fields(Patience))


def policy_of(message: region_pb2.Policy) -> RegionPolicy:
    """Return the policy of a request. Raises InvalidArgument."""
    default, has = RegionPolicy(), message.HasField
    weight = message.weight if has("weight") else default.weight
    width = message.hedge_width if has("hedge_width") else default.hedge_width
    copies = message.checkpoint_copies if has("checkpoint_copies") else default.checkpoint_copies
    _within(weight, 0, WEIGHT_MAX, "policy.weight")
    _within(width, 1, HEDGE_WIDTH_MAX, "policy.hedge_width")
    _within(copies, 0, COPIES_MAX, "policy.checkpoint_copies")
    return RegionPolicy(
        is_allowed=message.allowed if has("allowed") else default.is_allowed,
        weight=weight,
        capacity_types=_capacity_types(message) or default.capacity_types,
        price_caps=_price_caps(message),
        patience=_patience(message.patience),
        hedge_width=width,
        gate_timeout_s=_duration(message, "gate_timeout", default.gate_timeout_s),
        fence_grace_s=_duration(message, "fence_grace", default.fence_grace_s),
        drain_s=_duration(message, "drain_grace", default.drain_s),
        replace_unreachable_after_s=_duration(message, "replace_unreachable_after", 0.0)
        if has("replace_unreachable_after")
        else None,
        checkpoint_copies=copies,
        egress_budget_bytes_per_hour=fields.not_negative(
            message.egress_budget_bytes_per_hour, "policy.egress_budget_bytes_per_hour"
        )
        if has("egress_budget_bytes_per_hour")
        else None,
    )


def _within(value: float, least: float, most: float, field: str) -> None:
    # Not a number compares false with everything, so it is refused here too.
    if not least <= value <= most:
        raise invalid(field, f"is not between {least:g} and {most:g}")


def _duration(message: region_pb2.Policy, name: str, default: float) -> float:
    if not message.HasField(name):  # type: ignore[arg-type]  # its name is one of the message's
        return default
    return _bounded(getattr(message, name), name)


def _bounded(duration: duration_pb2.Duration, name: str) -> float:
    seconds = fields.duration_s(duration, f"policy.{name}")
    least_s, most_s = DURATION_BOUNDS_S.get(name, (0.0, POLICY_DURATION_MAX_S))
    if not least_s <= seconds <= most_s:
        raise invalid(f"policy.{name}", f"is not between {least_s:.0f} s and {most_s:.0f} s")
    return seconds


def _capacity_types(message: region_pb2.Policy) -> tuple[CapacityType, ...]:
    _within(len(message.capacity_types), 0, len(CapacityType), "policy.capacity_types")
    named = (
        member(enums.CAPACITY_TYPE_OF, number, f"policy.capacity_types[{i}]")
        for i, number in enumerate(message.capacity_types)
    )
    return tuple(dict.fromkeys(named))


def _price_caps(
    message: region_pb2.Policy,
) -> tuple[tuple[CapacityType, Decimal], ...]:
    caps: dict[CapacityType, Decimal] = {}
    for i, cap in enumerate(message.price_caps):
        field = f"policy.price_caps[{i}]"
        kind = member(enums.CAPACITY_TYPE_OF, cap.capacity_type, f"{field}.capacity_type")
        if kind in caps:
            raise invalid(f"{field}.capacity_type", "has a cap already")
        if not cap.HasField("price_per_gpu_hour"):
            raise invalid(f"{field}.price_per_gpu_hour", "is required")
        caps[kind] = fields.money(cap.price_per_gpu_hour, f"{field}.price_per_gpu_hour")
    return tuple(caps.items())


def _patience(message: region_pb2.Patience) -> Patience:
    given = {
        f"{name}_s": _bounded(getattr(message, name), f"patience.{name}")
        for name in PATIENCE
        if message.HasField(name)  # type: ignore[arg-type]  # a test holds that it has them all
    }
    return Patience(**given)


def policy_message(state: RegionState) -> region_pb2.Policy:
    """Return a region's policy with its defaults filled in."""
    policy = state.policy
    message = region_pb2.Policy(
        name=f"regions/{state.id}/policy",
        allowed=policy.is_allowed,
        weight=policy.weight,
        capacity_types=[enums.CAPACITY_TYPE[one] for one in policy.capacity_types],
        price_caps=[
            region_pb2.PriceCap(
                capacity_type=enums.CAPACITY_TYPE[kind], price_per_gpu_hour=wire.money(price)
            )
            for kind, price in policy.price_caps
        ],
        hedge_width=policy.hedge_width,
        gate_timeout=wire.duration(policy.gate_timeout_s),
        fence_grace=wire.duration(policy.fence_grace_s),
        drain_grace=wire.duration(policy.drain_s),
        checkpoint_copies=policy.checkpoint_copies,
        egress_budget_bytes_per_hour=policy.egress_budget_bytes_per_hour,
        etag=str(state.generation),
    )
    for name in PATIENCE:
        seconds = getattr(policy.patience, f"{name}_s")
        getattr(message.patience, name).CopyFrom(wire.duration(seconds))
    if policy.replace_unreachable_after_s is not None:
        message.replace_unreachable_after.CopyFrom(
            wire.duration(policy.replace_unreachable_after_s)
        )
    return message


def region_message(
    state: RegionState,
    clusters: Sequence[ClusterFacts],
    orphans: Sequence[Orphan],
    capacities: Mapping[str, CapacitySeen],
    now: Moment,
    *,
    store: str,
    registry: RegionRegistry | None,
    copies: Sequence[ImageOnItsWay] = (),
) -> region_pb2.Region:
    """Return a region with its clusters as last seen; ``capacities`` are by cluster."""
    stands = region_pb2.RegionState.REGION_STATE_OPEN
    if state.drain is not None:
        stands = region_pb2.RegionState.REGION_STATE_DRAINING
    elif state.is_cordoned:
        stands = region_pb2.RegionState.REGION_STATE_CORDONED
    message = region_pb2.Region(
        name=f"regions/{state.id}",
        state=stands,
        message=state.cordon_message,
        store=store,
        clusters=[
            _cluster(facts, orphans, capacities.get(facts.cluster, CapacitySeen()), state, now)
            for facts in clusters
        ],
    )
    if state.doubt is not None:
        message.store_reason = enums.REASON[state.doubt.reason]
        message.store_message = state.doubt.message
    message.image_copies.extend(
        region_pb2.ImageCopy(image=one.name, done_bytes=one.done_bytes, size_bytes=one.size_bytes)
        for one in copies
    )
    if registry is not None:
        message.registry.CopyFrom(
            region_pb2.ImageRegistry(
                prefix=registry.prefix,
                login=registry.login,
                upload=registry.upload,
                pull_bytes_per_second=round(registry.pull_bytes_per_s),
            )
        )
    return message


def _cluster(
    facts: ClusterFacts,
    orphans: Sequence[Orphan],
    capacity: CapacitySeen,
    state: RegionState,
    now: Moment,
) -> region_pb2.ClusterStatus:
    axis = Axis(now)
    message = region_pb2.ClusterStatus(
        cluster=facts.cluster,
        reachable=facts.is_reachable,
        store_reachable=facts.is_store_reachable,
        blind=facts.blind,
        not_configured=not facts.is_configured,
        silence_message=silence_message(facts, state.policy, now),
        flavors=[
            _flavor(
                flavor,
                capacity.flavors.get(flavor.key),
                is_stopped=flavor.key.queue in facts.stopped_queues,
            )
            for flavor in facts.flavors
        ],
        signals=[signal_message(one, axis) for one in capacity.signals],
        known=[fact_message(one, axis) for one in capacity.known],
        notes=capacity.notes,
        orphans=[_orphan(one, state) for one in orphans if one.cluster == facts.cluster],
    )
    if facts.seen_elapsed_s is not None:
        message.seen_time.CopyFrom(axis.time(facts.seen_elapsed_s))
    if facts.silent_since_elapsed_s is not None:
        message.silent_time.CopyFrom(axis.time(facts.silent_since_elapsed_s))
    return message


def _orphan(orphan: Orphan, state: RegionState) -> region_pb2.Orphan:
    known = state.orphan(orphan.cluster, orphan.object)
    message = region_pb2.Orphan(
        object=orphan.object,
        message=orphan.message,
        since_time=wire.timestamp(orphan.since_wall_s),
        ours=orphan.is_ours,
        removing=known is not None and known.is_to_go,
    )
    if known is not None:
        message.reason = enums.REASON[Reason.ORPHAN_SEEN]
    return message


def _flavor(
    facts: FlavorFacts, said: FlavorSaid | None, *, is_stopped: bool
) -> region_pb2.FlavorStatus:
    message = region_pb2.FlavorStatus(
        queue=facts.key.queue,
        flavor=facts.key.flavor,
        accelerator=facts.accelerator,
        accelerators_per_node=facts.accelerators_per_node,
        capacity_type=enums.CAPACITY_TYPE[facts.capacity_type],
        zones=facts.zones,
        nominal=facts.nominal,
        reserved=facts.reserved,
        used=facts.used,
        borrowable=facts.borrowable,
        free=facts.headroom,
        topology_message=facts.not_close,
        pending=facts.pending_ahead,
        pending_gpus=facts.pending_ahead_gpus,
        nodes_free=facts.nodes_free,
        nodes_coming=facts.nodes_coming,
        max_nodes=facts.max_nodes,
        stopped=is_stopped,
        room=[
            region_pb2.FreeRoom(
                zone=each.zone,
                accelerators_per_rank=each.accelerators,
                ranks=each.ranks,
                ranks_close=each.ranks_close,
            )
            for each in facts.room or ()
        ],
    )
    if facts.price_per_gpu_hour is not None:
        message.price_per_gpu_hour.CopyFrom(wire.money(facts.price_per_gpu_hour))
    if facts.startup_s is not None:
        message.startup_time.CopyFrom(wire.duration(facts.startup_s))
    if facts.eta_s is not None:
        message.booking_wait.CopyFrom(wire.duration(facts.eta_s))
    if facts.max_run_s is not None:
        message.max_run_time.CopyFrom(wire.duration(facts.max_run_s))
    if said is not None:
        tell_said(message, said)
    return message
