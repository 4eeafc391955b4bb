"""What every kind of cluster makes of a look at its store: who stands at a gate, what changed, what
is told by the store alone. Pure.

The rule: a placement's gate is in the store, its processes are in the cluster; only who is in both
stands there. Read ``at_gate`` first.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, fields
from operator import attrgetter

from regions.cluster import ClusterObservation, EpochKey, EpochSeen, OwnerState, PlacementSeen
from regions.gatehouse import RunInStore
from regions.launcher import layout
from regions.store_eye import Look


@dataclass(frozen=True, slots=True, kw_only=True)
class AtGate:
    """One placement's gate: the nonces that stand there by rank, and whether all of them do."""

    standing: Mapping[int, str]
    is_whole: bool
    is_granted: bool


def at_gate(
    placement: str,
    run: RunInStore | None,
    epochs: Mapping[EpochKey, EpochSeen],
    *,
    ranks: int,
    alive: Set[str],
    now_s: float,
    fresh_s: float,
) -> AtGate:
    """Say who of a gang of so many ranks stands at its gate with a fresh count.

    ``alive`` are the members that its cluster has, by its own names of them; ``now_s`` is the
    monotonic clock by which the store was looked at.
    """
    in_store = run.placements.get(placement) if run is not None else None
    if run is None or in_store is None:
        return AtGate(standing={}, is_whole=False, is_granted=False)
    is_granted = isinstance(in_store.grant, layout.Grant)
    if _is_decided(run.run_key, in_store.grant, epochs):
        return AtGate(standing={}, is_whole=False, is_granted=is_granted)
    here = {
        sighting.gate.nonce
        for sighting in in_store.watch.sightings
        if not sighting.gate.member or sighting.gate.member in alive
    }
    seen = in_store.standing(now_s, fresh_s)
    gang = in_store.whole_gang(ranks, now_s, fresh_s)
    return AtGate(
        standing={rank: nonce for rank, nonce in seen.items() if nonce in here},
        is_whole=gang is not None and here.issuperset(gang),
        is_granted=is_granted,
    )


def _is_decided(run_key: str, grant: object, epochs: Mapping[EpochKey, EpochSeen]) -> bool:
    """Whether the placement's gang has left the gate: its epoch has an owner."""
    if not isinstance(grant, layout.Grant):
        return False
    key = EpochKey(run_key=run_key, number=grant.epoch.number, nonce=grant.epoch.nonce)
    seen = epochs.get(key)
    return seen is not None and seen.owner in (OwnerState.STARTED, OwnerState.REVOKED)


def store_alone(
    cluster: str, region: str, look: Look, silence: str, now_s: float
) -> ClusterObservation:
    """Return what a region's store tells while its cluster does not answer, and why it does not."""
    blind = (silence, *((f"store: {look.trouble}",) if look.trouble else ()))
    return ClusterObservation(
        cluster=cluster,
        region=region,
        seen_at_s=now_s,
        is_whole=False,
        is_store_readable=not look.trouble,
        blind=blind,
        queues=(),
        placements={},
        epochs=look.epochs,
        signals=(),
        changed=None,
        keeps_secrets=False,
        claims=look.claims,
        unread=look.unread,
    )


def changed(
    last: ClusterObservation | None, placements: Mapping[str, PlacementSeen], look: Look
) -> frozenset[str] | None:
    """Name the placements and runs that differ from the last observation; None: all may."""
    if last is None:
        return None
    names = placements.keys() | last.placements.keys()
    before = last.placements
    found = {name for name in names if _differ(placements.get(name), before.get(name))}
    keys = look.epochs.keys() | last.epochs.keys()
    epochs = ((key, look.epochs.get(key), last.epochs.get(key)) for key in keys)
    # Most were not read anew: who asks for the same object first does not compare its fields.
    found |= {key.run_key for key, now, then in epochs if now is not then and now != then}
    found |= look.unread.keys() - last.unread.keys()
    return frozenset(found)


_STILL = attrgetter(*(each.name for each in fields(PlacementSeen) if each.name != "history"))


def _differ(one: PlacementSeen | None, other: PlacementSeen | None) -> bool:
    """Whether a placement changed. How long ago its nodes came and went grows by itself."""
    if one is None or other is None:
        return one is not other
    if _STILL(one) != _STILL(other):
        return True
    return [nodes for _, nodes in one.history] != [nodes for _, nodes in other.history]
