"""How an epoch stands by the start protocol: the port's facts as evidence for its rules. Pure.

The rule: nothing is judged here; ``regions.launcher.rules.judge`` does, on what was read. A store
that could not be read is unreachable, never absent, while an owner once seen stays seen, because
it never changes (B2). Read ``weigh`` first.
"""

from dataclasses import dataclass

from broker.history.exits import KILL, has_begun_it, said
from broker.loops.sight import ClusterSight
from broker.loops.translate import REASON_OF, SENTENCE_MAX, end_at_gate, lowered
from broker.model.reasons import FailureClass, Reason
from broker.model.run import CloseRule, Epoch, RankEnd, Run
from regions.cluster import (
    Cause,
    EpochSeen,
    MemberSeen,
    OwnerState,
    PlacementSeen,
    RankEnded,
    Stage,
)
from regions.launcher import exits, layout, rules
from regions.launcher.codec import Unreadable
from regions.launcher.reading import Absent, Reading, Unreachable
from regions.launcher.words import told

RULES = {
    rules.How.REVOKED: CloseRule.NEVER_STARTED,
    rules.How.ENDED: CloseRule.SEEN_ENDED,
    rules.How.FENCED: CloseRule.FENCE_HEARD,
    rules.How.UNREACHABLE: CloseRule.UNREACHABLE,
}

LEFT_GATE = "LEFT_GATE"
# What the end report of a listed process that never ran its command says.
_GATE_CAUSES = {
    "gate_timeout": Reason.START_NOT_REPORTED,
    "withdrawn": Reason.EVICTED,
    "preempted": Reason.NODE_PREEMPTED,
    "bundle_bad": Reason.BUNDLE_DAMAGED,
    "checkpoint_bad": Reason.COPY_NOT_VERIFIED,
    "mismatch": Reason.GANG_RECREATED,
    "not_listed": Reason.GANG_RECREATED,
}
_EXPLAINS = frozenset(
    {
        Cause.NODE_PREEMPTED,
        Cause.CAPACITY_REVOKED,
        Cause.NODE_LOST,
        Cause.EVICTED,
        Cause.WITHDRAWN,
        Cause.WEDGED,
        Cause.IMAGE_PULL_FAILING,
    }
)


_LAUNCHER_EXITS = {
    code: cause.value.replace("_", " ")
    for cause, code in exits.OF_CAUSE.items()
    if cause is not rules.Cause.CANNOT_RUN
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """What a cluster or a launcher says happened, None when it says nothing of use."""

    cause: Reason | None
    message: str


def weigh(
    run: Run, epoch: Epoch, sight: ClusterSight, *, is_lost: bool, go_on_by: str | None
) -> rules.Verdict:
    """Judge the run's open epoch, or one that still owes its fence.

    ``is_lost``: its object was gone from a whole look at its cluster for longer than a fence needs
    to be heard. ``go_on_by`` names who says to go on without its region, or None.
    """
    seen = sight.epoch(run, epoch)
    owner = _owner(epoch, seen, sight)
    evidence = rules.Evidence(
        epoch=layout.EpochId(number=epoch.id.number, nonce=epoch.id.nonce),
        owner=owner,
        fence=_fence(seen, sight),
        ended=frozenset(end.nonce for end in seen.ends) if seen is not None else frozenset(),
        gone=_gone(epoch, seen, sight, is_lost=is_lost),
        is_region_silent=sight.is_silent,
        go_on_by=go_on_by,
    )
    return rules.judge(evidence, _wish(run, epoch, owner, sight))


def _wish(run: Run, epoch: Epoch, owner: Reading[rules.Owner], sight: ClusterSight) -> rules.Wish:
    """Return what the broker would like of an epoch: its end, once ordered or its place is gone."""
    is_started = isinstance(owner, layout.Started)
    has_escaped = epoch.is_recalled and is_started
    if (epoch.stop is not None and not has_escaped) or epoch.is_owed:
        return rules.Wish.CLOSE
    if has_lost_its_place(epoch, sight) or (not is_started and is_removed(run, epoch, sight)):
        return rules.Wish.CLOSE
    return rules.Wish.LET_RUN


def is_removed(run: Run, epoch: Epoch, sight: ClusterSight) -> bool:
    """Whether the object of a gang was there, and a whole look at its cluster did not find it.

    Somebody removed it while nobody looked: no gang comes to the gate any more. Of one that started
    processes may be left that nobody sees end; one that did not is revoked, which is always safe.
    """
    was_there = run.placements[epoch.placement].was_queued
    return was_there and sight.is_whole and sight.placement(epoch.placement) is None


def has_lost_its_place(epoch: Epoch, sight: ClusterSight) -> bool:
    """Return whether its cluster was seen to hold no member of its gang any more."""
    seen = sight.placement(epoch.placement)
    return sight.is_reachable and seen is not None and seen.stage is Stage.ENDED


def rank_ends(
    epoch: Epoch, seen: EpochSeen | None, placement: PlacementSeen | None, *, is_all_over: bool
) -> tuple[RankEnd, ...]:
    """Return how each listed rank ended that has, in order of rank.

    ``is_all_over``: the protocol says that every one has; those without a report are gone, and how
    they failed is what their cluster, ``placement``, saw of them.
    """
    reported = {end.rank: end for end in seen.ends} if seen is not None else {}
    gone = seen.gone if seen is not None else frozenset()
    failed = _failed(placement)
    nonces = epoch.nonces or (seen.nonces if seen is not None else ())
    return tuple(
        _rank_end(rank, reported.get(rank), failed.get(rank))
        for rank in range(len(nonces))
        if rank in reported or rank in gone or is_all_over
    )


def explain(epoch: Epoch, seen: EpochSeen | None, placement: PlacementSeen | None) -> Explained:
    """Return what explains the end of a gang beside its exits.

    That it started its store says, or the log, also while the store says nothing.
    """
    if placement is not None and placement.cause in _EXPLAINS:
        return Explained(cause=REASON_OF[placement.cause], message=placement.message[:SENTENCE_MAX])
    is_started = bool(epoch.nonces) or (seen is not None and seen.owner is OwnerState.STARTED)
    first = _first_end(seen, placement)
    if first is not None and is_started and has_begun_it(first):
        # What its cluster did to the peers follows from it, and what they say of it explains
        # nothing: killed before their last word they look like lost machines (law 5).
        return _own_end(first, placement)
    for end in sorted(seen.ends, key=lambda end: not _is_of(end, first)) if seen else ():
        # One that ran its command hears of its peers' end too: what it says explains nothing.
        if end.kind == LEFT_GATE and end.cause in _GATE_CAUSES:
            message = f"rank {end.rank}: {end.cause.replace('_', ' ')}"
            return Explained(cause=_GATE_CAUSES[end.cause], message=message)
    if seen is not None and placement is not None and is_started and _is_recreated(seen, placement):
        message = "its cluster killed its gang and made it again"
        return Explained(cause=Reason.GANG_RECREATED, message=message)
    if placement is not None and placement.stage is Stage.ENDED and not is_started:
        # Its processes left the gate before it could start.
        cause, message = end_at_gate(placement)
        return Explained(cause=cause, message=f"{epoch.region}: {message}")
    return Explained(cause=None, message="")


def _own_end(first: RankEnd, placement: PlacementSeen | None) -> Explained:
    """Say how the rank ended that ended first, and by its last words of what."""
    message, word = said(first), None if placement is None else placement.said
    if word is None:
        return Explained(cause=Reason.COMMAND_FAILED, message=message)
    # Without last words it is told by the very code or signal that was said already.
    if not word.sentence.rpartition(": ")[2].startswith(("exit code ", "signal ")):
        message = told(f"{message}: {lowered(word.sentence)}", SENTENCE_MAX)
    is_passing = word.fault == FailureClass.TRANSIENT.value
    cause = Reason.TRANSIENT_FAULT if is_passing else Reason.COMMAND_FAILED
    return Explained(cause=cause, message=message)


def failed_unasked(seen: EpochSeen, placement: PlacementSeen | None) -> bool:
    """Return whether a command that ended by itself did so before anybody could have left.

    ``seen`` was read from the store just now. No clock tells it: those of machines, stores and
    brokers differ. What stands in a store that holds no word to drain was not brought about by one,
    and a launcher says whether it had heard such a word before its command ended. One that had not,
    and was the first of its gang, failed by itself; of one whose peers had heard it and are gone it
    cannot be said, for without them it could not go on.
    """
    if not seen.is_drain_written:
        return True
    own = {
        end.rank
        for end in seen.ends
        if not end.was_asked and has_begun_it(_rank_end(end.rank, end, None))
    }
    first = _first_end(seen, placement)
    if first is not None:
        return first.rank in own
    has_left = bool(seen.gone) or any(end.was_asked for end in seen.ends)
    return bool(own) and not has_left


def _first_end(seen: EpochSeen | None, placement: PlacementSeen | None) -> RankEnd | None:
    """Return how the rank ended whose end made the cluster end its gang, None when it did not."""
    if placement is None or placement.cause is not Cause.MEMBER_EXITED:
        return None
    first = next((one for one in placement.members if one.member == placement.first_exit), None)
    if first is None or first.rank not in _failed(placement):
        return None
    reported = {end.rank: end for end in seen.ends} if seen is not None else {}
    return _rank_end(first.rank, reported.get(first.rank), first)


def _is_of(end: RankEnded, first: RankEnd | None) -> bool:
    return first is not None and end.rank == first.rank


def _is_recreated(seen: EpochSeen, placement: PlacementSeen) -> bool:
    """Whether every listed process is gone without a word, and others stand in their place."""
    is_gone = len(seen.gone) == len(seen.nonces)
    return is_gone and any(member.is_alive for member in placement.members)


def _owner(epoch: Epoch, seen: EpochSeen | None, sight: ClusterSight) -> Reading[rules.Owner]:
    if epoch.nonces:
        return layout.Started(
            grant_nonce=epoch.id.nonce, placement=epoch.placement, nonces=epoch.nonces
        )
    if seen is not None and seen.owner is OwnerState.STARTED:
        return layout.Started(
            grant_nonce=epoch.id.nonce, placement=epoch.placement, nonces=seen.nonces
        )
    if seen is not None and seen.owner is OwnerState.REVOKED:
        return layout.Revoked(by="")
    if not sight.is_store_readable:
        return Unreachable("the region's store does not answer")
    if seen is not None and seen.owner is OwnerState.UNREADABLE:
        return Unreadable("its owner record cannot be read")
    return Absent()


def _fence(seen: EpochSeen | None, sight: ClusterSight) -> Reading[layout.Fence]:
    if seen is not None and seen.is_fence_written:
        return layout.Fence(reason="")
    return Absent() if sight.is_store_readable else Unreachable("the store does not answer")


def _gone(
    epoch: Epoch, seen: EpochSeen | None, sight: ClusterSight, *, is_lost: bool
) -> frozenset[str]:
    nonces = epoch.nonces or (seen.nonces if seen is not None else ())
    if is_lost or has_lost_its_place(epoch, sight):
        # ENDED is the cluster's word that it holds no member of it and will bring none.
        return frozenset(nonces)
    ranks = seen.gone if seen is not None else frozenset()
    return frozenset(nonces[rank] for rank in ranks if rank < len(nonces))


def _failed(placement: PlacementSeen | None) -> dict[int, MemberSeen]:
    """Return, by rank, the processes whose failure their cluster saw.

    A success is believed of a listed process alone, in the store (B4); of a rank that had two
    processes, nothing is said. One that was killed says nothing, but for the first of all.
    """
    members = () if placement is None else placement.members
    ranks = [member.rank for member in members]
    return {
        member.rank: member
        for member in members
        if (member.exit_code or (member.signal and not _is_killed_after(placement, member)))
        and ranks.count(member.rank) == 1
    }


def _is_killed_after(placement: PlacementSeen | None, member: MemberSeen) -> bool:
    """Whether a process was killed by whoever took its machine or its gang, as like as not."""
    is_first = placement is not None and (
        placement.cause is Cause.MEMBER_EXITED and placement.first_exit == member.member
    )
    return member.signal == KILL and not is_first


def _rank_end(rank: int, end: RankEnded | None, failed: MemberSeen | None) -> RankEnd:
    if end is None and failed is not None:
        code = failed.exit_code
        cause = "" if code is None else _LAUNCHER_EXITS.get(code, "")
        return RankEnd(rank=rank, exit_code=code, signal=failed.signal, cause=cause)
    if end is None:
        return RankEnd(rank=rank, exit_code=None, cause="seen gone")
    # "command" says nothing: it is what a rank does.
    cause = "" if end.cause == "command" else end.cause.replace("_", " ")
    return RankEnd(rank=rank, exit_code=end.exit_code, signal=end.signal, cause=cause)
