"""The broker's hand in a region's store: reads what launchers say, writes what they must hear.

The rule: what was read is told apart from what could not be, and every write is a create-if-absent,
so that each may be repeated, late or lost. Shared by the adapters of all clusters whose region has
a store. Knows no broker. Read ``read_run`` first.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from regions.cluster import StoreClaims
from regions.launcher import codec, layout
from regions.launcher.freshness import GateWatch, watch_gates, whole_gang
from regions.launcher.gate import read_gates
from regions.launcher.reading import Absent, Reading, Unreachable, read_record
from regions.launcher.restore import StoreSeen
from regions.launcher.rules import Owner, may_withdraw
from regions.launcher.store import Store, StoreUnreachable, read_bounded

T = TypeVar("T")

MARKERS = frozenset(
    {".complete", ".metadata", "trainer_state.json", "checkpoint.ckpt", "_CHECKPOINT_METADATA"}
)
"""What shows that a checkpoint folder may be complete: ours, PyTorch DCP's, Hugging Face's,
Lightning's, Orbax's. Which of them counts is told by the run's format, to who looks closer."""


MAX_NAMES = 100_000
"""Of one folder. A run with more is not read: a look must end, for the sake of the others."""
MAX_LIVES = 1_000
"""Lives of a broker in one store. Each restore begins one."""
NUMBER_MAX = 18
"""Digits of a life's number: it is a count of restores, or a time in seconds."""
CLAIM_MAX_BYTES = 500


class RecordConflictError(Exception):
    """Another record of the same name is there already, and says something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementInStore:
    """One placement's gate, as this observer has watched it, and its grant."""

    watch: GateWatch
    grant: Reading[layout.Grant]

    def standing(self, now_s: float, fresh_s: float) -> dict[int, str]:
        """Return the nonces, by rank, of those that stand here with a fresh count."""
        return {
            seen.gate.rank: seen.gate.nonce
            for seen in self.watch.sightings
            if seen.moved_at_s is not None and now_s - seen.moved_at_s <= fresh_s
        }

    def whole_gang(self, world_size: int, now_s: float, fresh_s: float) -> tuple[str, ...] | None:
        """Return the nonces of a gang that stands whole at the gate now, or None."""
        return whole_gang(self.watch, world_size=world_size, now_s=now_s, fresh_s=fresh_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochInStore:
    """All that a store says of one epoch.

    ``ends`` are by nonce, those left at the gate included. ``checkpoints`` are the steps whose
    marker is there, ``unfinished`` those without one.
    """

    epoch: layout.EpochId
    owner: Reading[Owner]
    drain: Reading[layout.DrainOrder]
    fence: Reading[layout.Fence]
    reports: Mapping[str, layout.Report]
    ends: Mapping[str, layout.End]
    checkpoints: tuple[int, ...]
    unfinished: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInStore:
    """One run in one store, as of one look. ``owners`` are by epoch number, ``epochs`` by id."""

    run_key: str
    placements: Mapping[str, PlacementInStore] = field(default_factory=dict)
    epochs: Mapping[layout.EpochId, EpochInStore] = field(default_factory=dict)
    owners: Mapping[int, Reading[Owner]] = field(default_factory=dict)

    def as_seen(self, region: str) -> StoreSeen:
        """Return what a restored broker joins with its log."""
        grants = tuple(
            seen.grant for seen in self.placements.values() if isinstance(seen.grant, layout.Grant)
        )
        return StoreSeen(region=region, owners=self.owners, grants=grants)


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """What the caller need not see again: epochs that are sealed and placements that ended."""

    epochs: frozenset[layout.EpochId] = frozenset()
    placements: frozenset[str] = frozenset()


def read_run(
    store: Store, run_key: str, known: RunInStore | None, closed: Closed, now_s: float
) -> RunInStore:
    """Look at one run. Final records in ``known`` are not read again, closed parts not at all.

    ``known`` is what this function returned before, or None; ``now_s`` is the observer's monotonic
    clock. The cost is that of what is still open. Raises StoreUnreachable: nothing was concluded,
    and ``known`` is still what is known.
    """
    keys = layout.RunKeys(run_key)
    before = known or RunInStore(run_key=run_key)
    look = _Look(store=store, keys=keys, before=before, closed=closed, now_s=now_s)
    folders = [name[:-1] for name in _listed(store, keys.root) if name.endswith("/")]
    placements = _read_placements(look)
    numbers = {number for name in folders if (number := layout.owner_number_of(name)) is not None}
    granted = {
        seen.grant.epoch for seen in placements.values() if isinstance(seen.grant, layout.Grant)
    }
    # An epoch is looked at from its grant on: its folder appears with the first report only.
    wanted = granted | {epoch for name in folders if (epoch := layout.epoch_of(name)) is not None}
    numbers |= {epoch.number for epoch in wanted}
    owners = {number: _read_owner(look, number) for number in sorted(numbers)}
    by_epoch = {
        seen.grant.epoch: placement
        for placement, seen in placements.items()
        if isinstance(seen.grant, layout.Grant)
    }
    epochs = {}
    for epoch in sorted(wanted, key=lambda one: (one.number, one.nonce)):
        if epoch in closed.epochs and epoch in before.epochs:
            epochs[epoch] = before.epochs[epoch]
        else:
            epochs[epoch] = _read_epoch(look, epoch, owners[epoch.number], by_epoch.get(epoch))
    return replace(before, placements=placements, epochs=epochs, owners=owners)


def write_grant(store: Store, run_key: str, grant: layout.Grant) -> None:
    """Write a placement's grant; the same one again is done. Raises RecordConflictError."""
    key = layout.RunKeys(run_key).grant(grant.placement)
    _create(store, key, codec.write_grant(grant), codec.read_grant, grant)


def revoke(store: Store, run_key: str, number: int, by: str) -> Reading[Owner]:
    """Create REVOKED if the owner is absent, and return who owns the epoch now.

    ``by`` names who decided it. A silence is returned as such: it may have been written.
    """
    key = layout.RunKeys(run_key).owner(number)
    try:
        store.create_if_absent(key, codec.write_owner(layout.Revoked(by=by)))
    except StoreUnreachable as error:
        return Unreachable(str(error))
    return read_record(store, key, codec.read_owner)


def drain(store: Store, run_key: str, epoch: layout.EpochId, order: layout.DrainOrder) -> None:
    """Ask an epoch to save and let go. The first order stands."""
    store.create_if_absent(layout.RunKeys(run_key).drain(epoch), codec.write_drain(order))


def fence(store: Store, run_key: str, epoch: layout.EpochId, reason: str) -> None:
    """Tell an epoch to stop, once and for all."""
    record = codec.write_fence(layout.Fence(reason=reason))
    store.create_if_absent(layout.RunKeys(run_key).fence(epoch), record)


def can_withdraw(store: Store, run_key: str, placement: str, is_closed: bool) -> bool:
    """Read the owner, and say whether the placement's object may be removed from its cluster.

    ``is_closed``: the caller's log says that the placement's epoch is closed. Call it last of all
    before the removal.
    """
    keys = layout.RunKeys(run_key)
    grant = read_record(store, keys.grant(placement), codec.read_grant)
    owner: Reading[Owner] = Absent()
    if isinstance(grant, layout.Grant):
        owner = read_record(store, keys.owner(grant.epoch.number), codec.read_owner)
    return may_withdraw(grant, owner, is_closed)


def claim_identity(store: Store, name: str) -> str:
    """Call a store by a name if it has none yet, and return what it is called."""
    store.create_if_absent(layout.IDENTITY, name.encode())
    return read_identity(store)


def read_identity(store: Store) -> str:
    """Return what the first broker called the store; empty when none did."""
    return _text(store, layout.IDENTITY)


def claim_incarnation(store: Store, number: int, name: str) -> bool:
    """Say in the store that ``name`` is this life of the broker's data. False: another is."""
    key = layout.incarnation_key(number)
    return store.create_if_absent(key, name.encode()) or _text(store, key) == name


def read_claims(store: Store, known: StoreClaims | None = None) -> StoreClaims:
    """Return who the store says that it is. A life that is ``known`` is not read again.

    Raises StoreUnreachable, also for a store that holds more lives than there can be.
    """
    names = [n for n in store.list("incarnations/") if n.isascii() and n.isdigit()]
    if len(names) > MAX_LIVES:
        raise StoreUnreachable(f"incarnations/: more than {MAX_LIVES} names")
    identity = read_identity(store)
    kept = known.lives if known is not None and known.identity == identity else {}
    lives = {
        int(name): kept.get(int(name)) or _text(store, f"incarnations/{name}")
        for name in names
        if len(name) <= NUMBER_MAX
    }
    return StoreClaims(identity=identity, lives=lives)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """One look at one run: where, and what is known already."""

    store: Store
    keys: layout.RunKeys
    before: RunInStore
    closed: Closed
    now_s: float


def _read_placements(look: _Look) -> dict[str, PlacementInStore]:
    seen = {}
    for name in _listed(look.store, look.keys.placements):
        placement = name.rstrip("/")
        if not (name.endswith("/") and layout.is_name(placement)):
            continue
        last = look.before.placements.get(placement)
        if placement in look.closed.placements and last is not None:
            seen[placement] = last
            continue
        gates = read_gates(look.store, look.keys, placement)
        watch = watch_gates(last.watch if last else GateWatch(), gates, look.now_s)
        grant: Reading[layout.Grant] = last.grant if last else Absent()
        if not isinstance(grant, layout.Grant):
            grant = _read(look.store, look.keys.grant(placement), codec.read_grant)
        seen[placement] = PlacementInStore(watch=watch, grant=grant)
    return seen


def _read_owner(look: _Look, number: int) -> Reading[Owner]:
    last = look.before.owners.get(number)
    if isinstance(last, layout.Started | layout.Revoked):
        return last
    return _read(look.store, look.keys.owner(number), codec.read_owner)


def _read_epoch(
    look: _Look, epoch: layout.EpochId, owner: Reading[Owner], placement: str | None
) -> EpochInStore:
    store, keys, last = look.store, look.keys, look.before.epochs.get(epoch)
    drain_order: Reading[layout.DrainOrder] = last.drain if last else Absent()
    if not isinstance(drain_order, layout.DrainOrder):
        drain_order = _read(store, keys.drain(epoch), codec.read_drain)
    fence_order: Reading[layout.Fence] = last.fence if last else Absent()
    if not isinstance(fence_order, layout.Fence):
        fence_order = _read(store, keys.fence(epoch), codec.read_fence)
    reports, ends = _read_reports(store, keys, epoch, last)
    if placement is not None:
        ends |= _read_gate_ends(store, keys, placement, ends)
    complete, unfinished = _read_checkpoints(store, keys, epoch, last)
    return EpochInStore(
        epoch=epoch,
        owner=owner,
        drain=drain_order,
        fence=fence_order,
        reports=reports,
        ends=ends,
        checkpoints=complete,
        unfinished=unfinished,
    )


def _read_reports(
    store: Store, keys: layout.RunKeys, epoch: layout.EpochId, last: EpochInStore | None
) -> tuple[dict[str, layout.Report], dict[str, layout.End]]:
    """Read reports and ends. A process that ended reports no more, so neither is read again."""
    reports = dict(last.reports) if last else {}
    ends = dict(last.ends) if last else {}
    names = _listed(store, keys.reports(epoch))
    for nonce in sorted({name.removesuffix(".end") for name in names}):
        if not layout.is_nonce(nonce) or nonce in ends:
            continue
        # The end before the report: the last report was written before it.
        if f"{nonce}.end" in names:
            end = _read(store, keys.end(epoch, nonce), codec.read_end)
            if isinstance(end, layout.End) and end.nonce == nonce:
                ends[nonce] = end
        report = _read(store, keys.report(epoch, nonce), codec.read_report)
        if isinstance(report, layout.Report) and report.nonce == nonce:
            reports[nonce] = report
    return reports, ends


def _read_gate_ends(
    store: Store, keys: layout.RunKeys, placement: str, ends: Mapping[str, layout.End]
) -> dict[str, layout.End]:
    """Read the ends of those that left before they saw the grant: rank 0 may have listed them."""
    found = {}
    for name in _listed(store, keys.gates(placement)):
        nonce = name.removesuffix(".end")
        if nonce == name or not layout.is_nonce(nonce) or nonce in ends:
            continue
        end = _read(store, keys.gate_end(placement, nonce), codec.read_end)
        if isinstance(end, layout.End) and end.nonce == nonce:
            found[nonce] = end
    return found


def _read_checkpoints(
    store: Store, keys: layout.RunKeys, epoch: layout.EpochId, last: EpochInStore | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the complete and the unfinished steps. A complete one stays so until it is removed."""
    known = frozenset(last.checkpoints if last else ())
    names = [name[:-1] for name in _listed(store, keys.checkpoints(epoch)) if name.endswith("/")]
    steps = sorted(step for name in names if (step := layout.step_of(name)) is not None)
    complete = tuple(
        step
        for step in steps
        if step in known or MARKERS.intersection(_listed(store, f"{keys.checkpoint(epoch, step)}/"))
    )
    return complete, tuple(step for step in steps if step not in complete)


def _create(
    store: Store,
    key: str,
    data: bytes,
    parse: Callable[[bytes], T | codec.Unreadable],
    wanted: T,
) -> None:
    if store.create_if_absent(key, data):
        return
    found = _read(store, key, parse)
    if found != wanted:
        raise RecordConflictError(f"{key} is there and says: {str(found)[:500]}")


def _read(
    store: Store, key: str, parse: Callable[[bytes], T | codec.Unreadable]
) -> T | Absent | codec.Unreadable:
    found = read_record(store, key, parse)
    if isinstance(found, Unreachable):
        raise StoreUnreachable(found.why)
    return found


def _listed(store: Store, prefix: str) -> tuple[str, ...]:
    names = store.list(prefix)
    if len(names) > MAX_NAMES:
        raise StoreUnreachable(f"{prefix}: more than {MAX_NAMES} names")
    return names


def _text(store: Store, key: str) -> str:
    """Return a short text, empty when it is absent. What is none or too long is told as it is."""
    raw = read_bounded(store, key, CLAIM_MAX_BYTES) or b""
    return raw.decode("ascii", errors="replace")
