"""The rules by which a gang starts exactly once: what a launcher does next, what closes an epoch.

The rule of rules: two sides that cannot hear each other meet in one record, the owner of an epoch,
which is created once and never changed. Whoever creates it decides. Everything in this file is a
pure function of what was read, and is written so that acting on an old answer is harmless: every
fact it acts on stays true once it is true (a grant, an owner, a fence, an end, a process that is
gone). The one thing that can go stale, an absence, only ever leads to a create-if-absent.

Both sides of production call these very functions, and ``tests/model`` explores them state by
state. A comment at each rule says what goes wrong without it; the model finds just that.
Read ``next_step`` for a launcher, ``judge`` for a broker. Who is fresh at a gate is in
``freshness``, a restored backup's rules in ``restore``. What counts of a closed epoch, and where a
run resumes, are decided where the log is; a launcher never asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import FrozenSet, Optional, Tuple, Union

from regions.launcher.codec import Unreadable
from regions.launcher.freshness import GateWatch, whole_gang
from regions.launcher.layout import DrainOrder, EpochId, Fence, Grant, Revoked, Started
from regions.launcher.reading import Absent, Reading, Unreachable

Owner = Union[Started, Revoked]


class Cause(Enum):
    """Why a process did not run its command, or stopped it. The words of end reports."""

    GATE_TIMEOUT = "gate_timeout"
    NOT_LISTED = "not_listed"
    REVOKED = "revoked"
    FENCED = "fenced"
    WITHDRAWN = "withdrawn"
    MISMATCH = "mismatch"
    BUNDLE_BAD = "bundle_bad"
    CHECKPOINT_BAD = "checkpoint_bad"
    CANNOT_RUN = "cannot_run"
    PREEMPTED = "preempted"
    DRAINED = "drained"
    COMMAND = "command"


# ---- The launcher's side ------------------------------------------------------------------------


@dataclass(frozen=True)
class Standing:
    """All that one process knows when it asks what to do next.

    Times are seconds on its own monotonic clock. ``since_s`` is when it came to the gate.
    ``is_prepared``: it was let pass, its bundle is unpacked, and ``fence`` was read after that.
    """

    rank: int
    nonce: str
    placement: str
    world_size: int
    now_s: float
    since_s: float
    gate_timeout_s: float
    fresh_s: float
    watch: GateWatch
    grant: Reading[Grant]
    owner: Reading[Owner]
    fence: Reading[Fence]
    is_prepared: bool
    is_told_to_leave: bool


@dataclass(frozen=True)
class Wait:
    """Nothing to do yet: move the count, and look again."""

    why: str


@dataclass(frozen=True)
class CreateOwner:
    """Create the epoch's owner if it is absent; whatever the answer, read it and ask again."""

    owner: Started


@dataclass(frozen=True)
class Prepare:
    """This process will pass: get its bundle ready, then read the fence once more and ask again."""

    grant: Grant


@dataclass(frozen=True)
class Run:
    """Run the command, now."""

    grant: Grant


@dataclass(frozen=True)
class Leave:
    """Report the end, exit. Final: a process that has left never comes back."""

    cause: Cause


Step = Union[Wait, CreateOwner, Prepare, Run, Leave]


def next_step(standing: Standing) -> Step:
    """Say what a process in front of its command does next (L1 to L4)."""
    if standing.is_told_to_leave:
        # Before the command runs there is nothing to save: a notice simply ends the wait.
        return Leave(Cause.WITHDRAWN)
    grant = standing.grant
    if not isinstance(grant, Grant):
        return _wait_or_leave(standing, "no grant yet")
    if grant.placement != standing.placement or grant.world_size != standing.world_size:
        return Leave(Cause.MISMATCH)
    if is_fenced(standing.fence):
        return Leave(Cause.FENCED)
    owner = standing.owner
    if isinstance(owner, Revoked):
        # Also what a grant meets that arrives an hour after its revocation.
        return Leave(Cause.REVOKED)
    if isinstance(owner, Started):
        return _pass_or_leave(standing, grant, owner)
    if isinstance(owner, Absent) and standing.rank == 0:
        return _start_or_wait(standing, grant)
    return _wait_or_leave(standing, "granted, and not started yet")


def _start_or_wait(standing: Standing, grant: Grant) -> Step:
    # L1. Only a gang that is whole *now* may start. A gate record proves that a process stood here
    # once; after an eviction the records of the former pods are still there. Listing one of them
    # would start a gang with a hole: the others pass, wait for a peer that never comes, and hold
    # their GPUs until somebody fences them. Hence: a count that this very process saw move.
    gang = whole_gang(
        standing.watch,
        world_size=standing.world_size,
        now_s=standing.now_s,
        fresh_s=standing.fresh_s,
    )
    if gang is None:
        return _wait_or_leave(standing, "the gang is not whole")
    if gang[0] != standing.nonce:
        # Another rank 0 stands here, and this one does not even see itself move: not its gang.
        return _wait_or_leave(standing, "another rank 0 stands here")
    return CreateOwner(
        Started(grant_nonce=grant.epoch.nonce, placement=grant.placement, nonces=gang)
    )


def _pass_or_leave(standing: Standing, grant: Grant, owner: Started) -> Step:
    if not is_listed(standing, grant, owner):
        return Leave(Cause.NOT_LISTED)
    if not isinstance(standing.fence, Absent):
        # It could be there and unseen. Not to start costs minutes, to start wrongly costs a run.
        return _wait_or_leave(standing, "the fence cannot be read")
    # L3. Between being let pass and running lie the bundle's download and a slow disk: minutes. A
    # fence written meanwhile was written for a gang that had "not yet" started, and nobody would be
    # watching control until the command ran. So the fence is read again, last of all.
    return Run(grant) if standing.is_prepared else Prepare(grant)


def is_listed(standing: Standing, grant: Grant, owner: Started) -> bool:
    """Say whether the owner lists this very process, in its place, under the grant it saw (L2)."""
    # L2. That an owner exists is not enough: it lists those who may run. A pod that its cluster
    # brought back finds the same grant and an owner that says STARTED, and must not train: the
    # broker judges the listed ones alone, sees them gone, and starts the next gang. For the same
    # reason a create whose answer was lost is a win only if what is there now lists the creator.
    same_grant = owner.grant_nonce == grant.epoch.nonce and owner.placement == grant.placement
    return same_grant and owner.nonces[standing.rank : standing.rank + 1] == (standing.nonce,)


def _wait_or_leave(standing: Standing, why: str) -> Step:
    # L4. A gang at the gate holds nodes that somebody pays for; when nobody comes, also because the
    # broker is gone for good, it gives them back by itself.
    if standing.now_s - standing.since_s >= standing.gate_timeout_s:
        return Leave(Cause.GATE_TIMEOUT)
    return Wait(why)


def is_fenced(fence: Reading[Fence]) -> bool:
    """Say whether a fence is there. What it says does not matter, and may be a newer broker's."""
    return isinstance(fence, (Fence, Unreadable))


@dataclass(frozen=True)
class Keep:
    """Go on training."""


@dataclass(frozen=True)
class BeginDrain:
    """Ask the training to save and to say so."""

    order: DrainOrder


@dataclass(frozen=True)
class Stop:
    """End the command's process group: SIGTERM, grace, SIGKILL; then say so."""

    cause: Cause


def next_watch(
    fence: Reading[Fence], drain: Reading[DrainOrder], is_draining: bool
) -> Union[Keep, BeginDrain, Stop]:
    """Say what a process that runs its command does after a look at control (L5)."""
    if is_fenced(fence):
        return Stop(Cause.FENCED)
    # A store that does not answer stops no training: the gang may be the only one there is, and
    # the broker never takes silence for a stop.
    if is_draining or isinstance(drain, (Absent, Unreachable)):
        return Keep()
    if isinstance(drain, Unreadable):
        # Somebody asked, and to save once too often costs seconds.
        return BeginDrain(DrainOrder(reason="unreadable order", grace_s=0.0, deadline_unix_s=None))
    return BeginDrain(drain)


# ---- The broker's side --------------------------------------------------------------------------


class Wish(Enum):
    """What the broker would like of the epoch that it judges."""

    LET_RUN = "let it run"
    CLOSE = "close it, so that the next can open"


class How(Enum):
    """The four ways in which an epoch is closed (B2)."""

    REVOKED = "a: it never started and never will"
    ENDED = "b: each listed process reported its end or was seen gone"
    FENCED = "c: the fence is written, and each listed process stopped or is gone"
    UNREACHABLE = "d: somebody said to go on without its region"


@dataclass(frozen=True)
class Evidence:
    """What is known of one epoch. Every field but an absence or a silence stays true for ever.

    ``owner`` was read from the store *for this judgement* (an owner seen STARTED or REVOKED may be
    remembered). ``ended`` are nonces with an end report, ``gone`` nonces whose very process the
    cluster was seen to be without: positive evidence, never a failed look. ``is_region_silent``:
    the store or the cluster cannot be reached. ``go_on_by`` names the policy or the person who
    says to go on without it; None means nobody did.
    """

    epoch: EpochId
    owner: Reading[Owner]
    fence: Reading[Fence]
    ended: FrozenSet[str]
    gone: FrozenSet[str]
    is_region_silent: bool
    go_on_by: Optional[str]


@dataclass(frozen=True)
class NotStarted:
    """It may still start, and nobody wants it otherwise."""


@dataclass(frozen=True)
class StillOpen:
    """It started, and these listed processes have neither ended nor been seen gone."""

    waiting_for: Tuple[str, ...]


@dataclass(frozen=True)
class TryRevoke:
    """Create REVOKED if the owner is absent, read the owner again, and judge again."""


@dataclass(frozen=True)
class WriteFence:
    """Write the fence if it is absent, and judge again later."""

    waiting_for: Tuple[str, ...]


@dataclass(frozen=True)
class CannotSay:
    """Nothing may be concluded. ``why`` is for people."""

    why: str


@dataclass(frozen=True)
class Closed:
    """The next epoch may open. ``is_owed``: REVOKED-if-absent and the fence are still to be
    written, by judging again with the wish to close whenever the region answers."""

    how: How
    is_owed: bool


Verdict = Union[NotStarted, StillOpen, TryRevoke, WriteFence, CannotSay, Closed]


def judge(evidence: Evidence, wish: Wish) -> Verdict:
    """Say whether an epoch is closed, and if not, what to do about it (B2).

    Without this rule a broker that grew impatient would open the next epoch while the gang of the
    former one stands at its gate, grant in hand: two gangs of one run.
    """
    owner = evidence.owner
    if isinstance(owner, Revoked):
        return Closed(how=How.REVOKED, is_owed=False)
    if isinstance(owner, Started):
        return _judge_started(evidence, owner, wish)
    if isinstance(owner, Absent):
        # Not "it has not started, so it is over": its gang may create the owner in the very next
        # moment. Only REVOKED, written by us into the same place, makes sure that it cannot.
        return TryRevoke() if wish is Wish.CLOSE else NotStarted()
    if isinstance(owner, Unreachable) and wish is Wish.CLOSE and evidence.go_on_by is not None:
        # (d) Nothing is proven. A zombie may train on; the seal alone protects the run from it.
        return Closed(how=How.UNREACHABLE, is_owed=True)
    return CannotSay(owner.why)


def _judge_started(evidence: Evidence, owner: Started, wish: Wish) -> Verdict:
    if owner.grant_nonce != evidence.epoch.nonce:
        # The number was used by another life of the broker's data. Ours never started, and its gang
        # leaves as not listed. The other start is for ``restore.adopt`` to take over.
        return Closed(how=How.REVOKED, is_owed=False)
    # Judged on the listed nonces alone, rank by rank. A count of "pods gone" would let a pod that
    # the cluster re-created stand in for one that still trains behind a partition.
    waiting_for = tuple(
        nonce
        for nonce in owner.nonces
        if nonce not in evidence.ended and nonce not in evidence.gone
    )
    fenced = is_fenced(evidence.fence)
    if not waiting_for:
        return Closed(how=How.FENCED if fenced else How.ENDED, is_owed=False)
    if wish is Wish.LET_RUN:
        return StillOpen(waiting_for)
    is_given_up = evidence.is_region_silent and evidence.go_on_by is not None
    if isinstance(evidence.fence, Absent):
        # Also before (d): whoever can still hear is told, before anybody goes on without them.
        return WriteFence(waiting_for)
    if is_given_up:
        return Closed(how=How.UNREACHABLE, is_owed=not fenced)
    return StillOpen(waiting_for)


def may_withdraw(grant: Reading[Grant], owner: Reading[Owner], is_closed: bool) -> bool:
    """Say whether a placement's object may be removed from its cluster (B6).

    ``owner`` is that of the grant's epoch, read just now. A withdrawal that was decided before a
    start and arrives after it would kill a gang that counts, so a started one is closed first.
    """
    if is_closed or isinstance(grant, Absent):
        # Without a grant nobody passes. One that lands later finds a gate without processes.
        return True
    if not isinstance(grant, Grant):
        return False
    if isinstance(owner, Started):
        return owner.grant_nonce != grant.epoch.nonce
    return isinstance(owner, Revoked)
