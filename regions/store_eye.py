"""What a region's store says, looked at again and again at the cost of what is still open.

The rule: a store that cannot be read leaves everything as it was last known, and is said to be so;
nothing becomes absent by it. What cannot be read of one run is that run's alone. The cluster is
looked at before the store, so that a process seen gone has had the time to write its last word.
Read ``StoreEye.look`` first; every kind of cluster looks through a ``TimedEye``.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from regions import gatehouse
from regions.cluster import (
    EpochKey,
    EpochSeen,
    OwnerState,
    RankEnded,
    RankReport,
    StoreClaims,
)
from regions.gatehouse import Closed, EpochInStore, RunInStore
from regions.glance import Charging, Glance, Kept
from regions.launcher import layout
from regions.launcher.reading import Absent, Reading
from regions.launcher.rules import Owner
from regions.launcher.store import Store, StoreError

RESYNC_S = 60.0
"""How often runs are looked for that nobody named."""
CLAIMS_S = 5.0
"""How often a store with a name, in which nothing is open, is asked who it is; any other is at each
look."""
CALM_S = 0.4
"""How long a run is passed over in which nothing is about to happen: while others start, the
store is looked at more often, and each look would cost what all that trains there does."""
CHARGED_CALM_S = 5.0
"""As that, where each call costs money: it is as often as who trains says something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look. ``trouble`` is empty if the store answered; ``unread`` are the runs, by their keys,
    of which something could not be read all the same, and why. ``claims`` None: not read yet."""

    runs: Mapping[str, RunInStore]
    epochs: Mapping[EpochKey, EpochSeen]
    claims: StoreClaims | None
    trouble: str
    unread: Mapping[str, str] = field(default_factory=dict)


class StoreEye:
    """Watches one store for one observer. Not to be used from two threads at once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pages = store if isinstance(store, Charging) else None
        self._calm_s = CALM_S if self._pages is None else CHARGED_CALM_S
        self._kept: dict[str, Kept] = {}
        self._runs: dict[str, RunInStore] = {}
        self._epochs: dict[str, dict[EpochKey, EpochSeen]] = {}
        self._open: set[str] = set()
        self._claims: StoreClaims | None = None
        self._claims_at_s = 0.0
        self._unread: dict[str, str] = {}
        self._read_s: dict[str, float] = {}
        self._resync_at_s: float | None = None

    def look(
        self,
        active: Iterable[str],
        gone: frozenset[str],
        now_s: float,
        calm: frozenset[str] = frozenset(),
    ) -> Look:
        """Look at the runs that are open, and at ``active`` ones, by their keys.

        ``gone`` are members that the cluster saw gone; ``now_s`` is the monotonic clock. In
        ``calm`` runs nothing is about to happen, and of none of their members more is known than at
        the last look: they are read now and then.
        """
        trouble, named = "", frozenset(active)
        wanted = {*self._open, *named, *self._unread}
        self._kept = {one: kept for one, kept in self._kept.items() if one in wanted}
        try:
            if self._are_claims_due(bool(wanted), now_s):
                self._ask_who_it_is(now_s)
                wanted = {*self._open, *named, *self._unread}
            wanted -= {one for one in calm & wanted if self._is_fresh(one, now_s)}
            wanted |= self._found(now_s)
        except StoreError as error:
            wanted = set()
            trouble = str(error)
        for run_key in sorted(wanted):
            self._unread.pop(run_key, None)
            try:
                self._read(run_key, gone, now_s)
            except (StoreError, layout.BadKey) as error:
                self._unread[run_key] = str(error)
                trouble = self._silence()
                if trouble:
                    break
        trouble = trouble or self._turned(wanted)
        return Look(
            runs=dict(self._runs),
            epochs={key: seen for run in self._epochs.values() for key, seen in run.items()},
            claims=self._claims,
            trouble=trouble,
            unread={} if trouble else dict(self._unread),
        )

    def _is_fresh(self, run_key: str, now_s: float) -> bool:
        """Whether a run was read a moment ago, and all of it could be."""
        at_s = self._read_s.get(run_key)
        return at_s is not None and now_s - at_s < self._calm_s and run_key not in self._unread

    def _are_claims_due(self, is_needed: bool, now_s: float) -> bool:
        """Whether to ask who the store is; one that charges is asked its name behind each look."""
        is_old = now_s >= self._claims_at_s + CLAIMS_S
        return self._is_nameless() or is_old or (is_needed and self._pages is None)

    def _is_nameless(self) -> bool:
        return self._claims is None or not self._claims.identity

    def _ask_who_it_is(self, now_s: float) -> None:
        """Read the store's claims, and forget all that was read when it is another store.

        A disk that was wiped, or another one, answers to the same path. What was read of the one
        before is nothing that this one holds, and is forgotten; whether this one is to be believed
        is for the broker to say, whose log remembers which it was.
        """
        before = self._claims
        self._claims = gatehouse.read_claims(self._store, before)
        self._claims_at_s = now_s
        if before is not None and before.identity != self._claims.identity:
            self._runs, self._epochs, self._open, self._unread = {}, {}, set(), {}
            self._read_s, self._kept = {}, {}
            self._resync_at_s = None

    def _turned(self, read: set[str]) -> str:
        """Why what was just read may be of two stores, or nothing."""
        was = self._claims.identity if self._claims is not None else ""
        try:
            is_other = bool(read and was) and gatehouse.read_identity(self._store) != was
        except StoreError as error:
            return str(error)
        if not is_other:
            return ""
        self._claims_at_s = float("-inf")
        return "another store came into its place while it was read"

    def _silence(self) -> str:
        """Why the store does not answer, or nothing: then the trouble is one run's."""
        try:
            self._store.list("runs/")
        except StoreError as error:
            return str(error)
        return ""

    def _found(self, now_s: float) -> set[str]:
        """The runs of the store that were not looked at yet, now and then."""
        if not self._is_resync_due(now_s):
            return set()
        names = {name[:-1] for name in self._store.list("runs/") if name.endswith("/")}
        for run_key in self._runs.keys() - names:
            del self._runs[run_key]
            self._epochs.pop(run_key, None)
            self._read_s.pop(run_key, None)
            self._open.discard(run_key)
        for run_key in self._unread.keys() - names:
            del self._unread[run_key]
        self._resync_at_s = now_s + RESYNC_S
        return {name for name in names - self._runs.keys() if layout.is_name(name)}

    def _is_resync_due(self, now_s: float) -> bool:
        return self._resync_at_s is None or now_s >= self._resync_at_s

    def _read(self, run_key: str, gone: frozenset[str], now_s: float) -> None:
        before = self._runs.get(run_key)
        over = {key for key, seen in self._epochs.get(run_key, {}).items() if _is_over(seen)}
        closed = _closed(before, over) if before is not None else Closed()
        run = gatehouse.read_run(self._glance(run_key), run_key, before, closed, now_s)
        epochs = _epochs_seen(run, gone)
        self._runs[run_key] = run
        self._read_s[run_key] = now_s
        self._epochs[run_key] = epochs
        if all(_is_over(seen) for seen in epochs.values()):
            self._open.discard(run_key)
        else:
            self._open.add(run_key)

    def _glance(self, run_key: str) -> Store:
        """Return the store as what is read of one run is to be read from it."""
        if self._pages is None:
            return self._store
        kept = self._kept.setdefault(run_key, Kept())
        return Glance(self._store, self._pages, layout.RunKeys(run_key).root, kept)


class TimedEye:
    """Looks at a store in a thread, with a deadline. One look at a time: what hangs is waited for
    by the next look, not joined by a second one."""

    def __init__(self, store: Store, within_s: float) -> None:
        self._eye = StoreEye(store)
        self._within_s = within_s
        self._last = Look(runs={}, epochs={}, claims=None, trouble="not looked at yet")
        self._running: asyncio.Future[Look] | None = None

    async def look(
        self,
        active: Iterable[str],
        gone: frozenset[str],
        now_s: float,
        calm: frozenset[str] = frozenset(),
    ) -> Look:
        """Look, or say that the store does not answer and what was last known of it."""
        if self._running is None:
            loop = asyncio.get_running_loop()
            self._running = loop.run_in_executor(None, self._eye.look, active, gone, now_s, calm)
        done, _ = await asyncio.wait({self._running}, timeout=self._within_s)
        if not done:
            return replace(self._last, trouble="it did not answer in time")
        finished, self._running = self._running, None
        self._last = finished.result()
        return self._last


def _closed(run: RunInStore, over: set[EpochKey]) -> Closed:
    """What need not be read again: nobody is left who could write there."""
    numbers = {(key.number, key.nonce) for key in over}
    epochs = frozenset(one for one in run.epochs if (one.number, one.nonce) in numbers)
    placements = frozenset(
        name
        for name, seen in run.placements.items()
        if isinstance(seen.grant, layout.Grant) and seen.grant.epoch in epochs
    )
    return Closed(epochs=epochs, placements=placements)


def _is_over(seen: EpochSeen) -> bool:
    if seen.owner is OwnerState.STARTED:
        done = {end.rank for end in seen.ends} | seen.gone
        return len(done) == len(seen.nonces)
    return seen.owner is OwnerState.REVOKED


def _epochs_seen(run: RunInStore, gone: frozenset[str]) -> dict[EpochKey, EpochSeen]:
    members = {
        sighting.gate.nonce: sighting.gate.member
        for placement in run.placements.values()
        for sighting in placement.watch.sightings
    }
    placements = {
        seen.grant.epoch: name
        for name, seen in run.placements.items()
        if isinstance(seen.grant, layout.Grant)
    }
    left = {nonce for nonce, member in members.items() if member in gone}
    found = {}
    for epoch, in_store in run.epochs.items():
        key = EpochKey(run_key=run.run_key, number=epoch.number, nonce=epoch.nonce)
        found[key] = _epoch_seen(key, in_store, placements.get(epoch, ""), left)
    for number, owner in run.owners.items():
        key = _owner_alone(run.run_key, number, owner)
        is_shown = key in found or (not key.nonce and any(one.number == number for one in found))
        if not is_shown:
            found[key] = _bare(key, owner)
    return found


def _epoch_seen(key: EpochKey, in_store: EpochInStore, placement: str, left: set[str]) -> EpochSeen:
    owner = in_store.owner
    state = _owner_state(key, owner)
    nonces = owner.nonces if isinstance(owner, layout.Started) else ()
    nonces = nonces if state is OwnerState.STARTED else ()
    ranks = {nonce: rank for rank, nonce in enumerate(nonces)}
    ends = tuple(
        RankEnded(
            rank=rank,
            nonce=nonce,
            kind=end.kind,
            cause=end.cause,
            exit_code=end.exit_code,
            signal=end.signal,
            was_asked=end.was_asked,
        )
        for nonce, rank in ranks.items()
        if (end := in_store.ends.get(nonce)) is not None
    )
    return EpochSeen(
        key=key,
        placement=placement or (owner.placement if isinstance(owner, layout.Started) else ""),
        owner=state,
        nonces=nonces,
        reports=tuple(
            _report(rank, in_store.reports[nonce])
            for nonce, rank in ranks.items()
            if nonce in in_store.reports
        ),
        ends=ends,
        gone=frozenset(
            rank for nonce, rank in ranks.items() if nonce in left and nonce not in in_store.ends
        ),
        # Something unreadable is there all the same, and a launcher heeds it as such.
        is_drain_written=not isinstance(in_store.drain, Absent),
        is_fence_written=not isinstance(in_store.fence, Absent),
        checkpoints=in_store.checkpoints,
    )


def _report(rank: int, report: layout.Report) -> RankReport:
    return RankReport(
        rank=rank,
        nonce=report.nonce,
        beat=report.beat,
        is_running=report.phase != layout.PREPARING,
        step=report.step,
        loss=report.loss,
        is_drain_acked=report.is_drained,
        drain_step=report.drained_step,
        trouble=report.trouble,
    )


def _owner_state(key: EpochKey, owner: Reading[Owner]) -> OwnerState:
    match owner:
        case layout.Started():
            # A start of the same number by another life of the broker: this one never was.
            is_own = owner.grant_nonce == key.nonce
            return OwnerState.STARTED if is_own else OwnerState.REVOKED
        case layout.Revoked():
            return OwnerState.REVOKED
        case Absent():
            return OwnerState.ABSENT
        case _:
            return OwnerState.UNREADABLE


def _owner_alone(run_key: str, number: int, owner: Reading[Owner]) -> EpochKey:
    """The key of an owner whose epoch left no other trace; a revoked one's nonce is not known."""
    nonce = owner.grant_nonce if isinstance(owner, layout.Started) else ""
    return EpochKey(run_key=run_key, number=number, nonce=nonce)


def _bare(key: EpochKey, owner: Reading[Owner]) -> EpochSeen:
    is_started = isinstance(owner, layout.Started)
    return EpochSeen(
        key=key,
        placement=owner.placement if isinstance(owner, layout.Started) else "",
        owner=OwnerState.STARTED if is_started else _owner_state(key, owner),
        nonces=owner.nonces if isinstance(owner, layout.Started) else (),
        reports=(),
        ends=(),
        gone=frozenset(),
        is_drain_written=False,
        is_fence_written=False,
        checkpoints=(),
    )
