"""A process at its gate: looks, asks the rules, does the one thing they say, and looks again.

The rule: nothing is decided here. Read ``stand_at_gate`` first.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import List, Optional, Tuple, Union

from regions.launcher import codec, layout
from regions.launcher.child import Ear
from regions.launcher.freshness import GateWatch, watch_gates
from regions.launcher.reading import Absent, Reading, Unreachable, read_record
from regions.launcher.rules import (
    Cause,
    CreateOwner,
    Leave,
    Owner,
    Prepare,
    Run,
    Standing,
    next_step,
)
from regions.launcher.settings import Settings
from regions.launcher.store import Measured, Store, StoreUnreachable

EAGER, SLOWER = 8.0, 1.25
"""A wait begins with looks that are so many times as close, each further from the next than the one
before: whoever watches a gate needs two of them to see its count move, and what a gang waits for
mostly comes while it is new. A few seconds later it is the plain poll, which the store can bear."""
MAX_AT_GATE = 4 * layout.MAX_RANKS
"""Of the largest gang, and of what it was before its cluster made it anew; each is read at every
look, so that there must be an end."""


@dataclass(frozen=True)
class Place:
    """One process, and where it works: its settings, store, nonce and private directory."""

    settings: Settings
    store: Measured
    keys: layout.RunKeys
    nonce: str
    private_dir: str

    @property
    def bundle_dir(self) -> str:
        """Where the user's bundle is unpacked."""
        return os.path.join(self.private_dir, "bundle")


@dataclass
class _Knowledge:
    """What was learned so far. A record that was read is final, and is not read again."""

    watch: GateWatch = field(default_factory=GateWatch)
    grant: Reading[layout.Grant] = field(default_factory=Absent)
    owner: Reading[Owner] = field(default_factory=Absent)
    fence: Reading[layout.Fence] = field(default_factory=Absent)
    is_prepared: bool = False
    count: int = 0
    looks: int = 0  # since it came, or since the grant did


def stand_at_gate(place: Place, ear: Ear) -> Tuple[Union[Run, Leave], Optional[layout.Grant]]:
    """Stand at the gate until the rules say to run or to leave; also return the grant, if seen."""
    known = _Knowledge()
    since_s = time.monotonic()
    while True:
        _look(place, known)
        step = next_step(_standing(place, known, ear, since_s))
        if isinstance(step, (Run, Leave)):
            return step, known.grant if isinstance(known.grant, layout.Grant) else None
        if isinstance(step, CreateOwner) and _create_owner(place, known, step):
            continue
        if isinstance(step, Prepare):
            cause = _prepare(place, known, step.grant)
            if cause is not None:
                return Leave(cause), step.grant
            if known.is_prepared:
                continue
        settings = place.settings
        ear.sleep(pause_s(settings.gate_poll_s, known.looks, settings.world_size))
        known.looks += 1


def pause_s(poll_s: float, looks: int, world_size: int) -> float:
    """Return how long to wait after a look, by how many waits there were before, in seconds.

    Who is a whole gang waits for nobody: it sees its own count move by looking once more.
    """
    if looks == 0 and world_size == 1:
        return 0.0
    return min(poll_s, poll_s / EAGER * SLOWER ** min(looks, 100))


def _standing(place: Place, known: _Knowledge, ear: Ear, since_s: float) -> Standing:
    settings = place.settings
    return Standing(
        rank=settings.rank,
        nonce=place.nonce,
        placement=settings.placement,
        world_size=settings.world_size,
        now_s=time.monotonic(),
        since_s=since_s,
        gate_timeout_s=settings.gate_timeout_s,
        fresh_s=settings.gate_fresh_s,
        watch=known.watch,
        grant=known.grant,
        owner=known.owner,
        fence=known.fence,
        is_prepared=known.is_prepared,
        is_told_to_leave=ear.notices > 0,
    )


def _look(place: Place, known: _Knowledge) -> None:
    settings, store, keys = place.settings, place.store, place.keys
    known.count += 1
    with suppress(StoreUnreachable):
        gate = layout.Gate(
            rank=settings.rank,
            nonce=place.nonce,
            count=known.count,
            member=settings.member,
            node=settings.node,
            gang=settings.gang,
            cluster=settings.cluster,
        )
        store.put(keys.gate(settings.placement, place.nonce), codec.write_gate(gate))
    if not isinstance(known.grant, layout.Grant):
        known.grant = read_record(store, keys.grant(settings.placement), codec.read_grant)
        if isinstance(known.grant, layout.Grant):
            known.looks = 0
    if isinstance(known.grant, layout.Grant):
        epoch = known.grant.epoch
        if not isinstance(known.owner, (layout.Started, layout.Revoked)):
            known.owner = read_record(store, keys.owner(epoch.number), codec.read_owner)
        known.fence = read_record(store, keys.fence(epoch), codec.read_fence)
    if settings.rank == 0 and not isinstance(known.owner, (layout.Started, layout.Revoked)):
        with suppress(StoreUnreachable):
            gates = read_gates(store, keys, settings.placement)
            known.watch = watch_gates(known.watch, gates, time.monotonic())


def read_gates(store: Store, keys: layout.RunKeys, placement: str) -> Tuple[layout.Gate, ...]:
    """Read who stands, or stood, at a gate; those that said they left, and garbage, left out."""
    names = store.list(keys.gates(placement))
    if len(names) > MAX_AT_GATE:
        raise StoreUnreachable(f"{keys.gates(placement)}: more than {MAX_AT_GATE} records")
    left = {name[: -len(".end")] for name in names if name.endswith(".end")}
    gates: List[layout.Gate] = []
    for name in names:
        if not layout.is_nonce(name) or name in left:
            continue
        found = read_record(store, keys.gate(placement, name), codec.read_gate)
        if isinstance(found, Unreachable):
            raise StoreUnreachable(found.why)
        if isinstance(found, layout.Gate) and found.nonce == name:
            gates.append(found)
    return tuple(gates)


def _create_owner(place: Place, known: _Knowledge, step: CreateOwner) -> bool:
    if not isinstance(known.grant, layout.Grant):
        return False
    key = place.keys.owner(known.grant.epoch.number)
    try:
        # The answer is not used: what is there now is read, and decides.
        place.store.create_if_absent(key, codec.write_owner(step.owner))
    except StoreUnreachable:
        return False
    return True


def _prepare(place: Place, known: _Knowledge, grant: layout.Grant) -> Optional[Cause]:
    """See that the checkpoint is there, and get the bundle ready. Returns why to leave, or None.

    A silent store is tried again.
    """
    say_preparing(place, grant)
    if grant.resume_from is not None:
        from regions.launcher import resume  # who begins from nothing starts sooner without

        try:
            fault = resume.fault_of(place.store, grant.resume_from, grant.resume_digest)
        except StoreUnreachable:
            return None
        if fault:
            # It goes to the process's own log, where people look.
            sys.stderr.write(f"launcher: {fault}\n")
            return Cause.CHECKPOINT_BAD
    if grant.bundle is None:
        known.is_prepared = True
        return None
    from regions.launcher import bundle  # who has none starts sooner without what unpacks it

    try:
        scratch = os.path.join(place.private_dir, "bundle.tar.gz")
        bundle.prepare(place.store, grant.bundle, place.bundle_dir, scratch)
        known.is_prepared = True
    except StoreUnreachable:
        return None
    except bundle.BundleBad:
        return Cause.BUNDLE_BAD
    return None


EMPTY_REPORT = layout.Report(
    rank=0,
    nonce="0" * 32,
    beat=0,
    phase=layout.PREPARING,
    step=None,
    loss=None,
    samples=None,
    is_drained=False,
    drained_step=None,
)


def say_preparing(place: Place, grant: layout.Grant) -> None:
    """Report that this process was let pass and gets ready."""
    report = replace(EMPTY_REPORT, rank=place.settings.rank, nonce=place.nonce)
    with suppress(StoreUnreachable):
        place.store.put(place.keys.report(grant.epoch, place.nonce), codec.write_report(report))
