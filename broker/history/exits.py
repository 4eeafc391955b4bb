"""Whose fault the ends of a gang's ranks were, as far as the ends themselves can say. Pure.

The rule: a command that ends by itself leaves its exit code; what takes a machine, or a gang, ends
a process by a signal, or leaves no word at all; and a launcher that ended its command says why. Who
knows more, the cluster or the broker's own order, is asked first. Read ``by_exits``.
"""

from broker.model.reasons import Reason
from broker.model.run import RankEnd

# What launchers say of a command that they stopped; of one that ended by itself they say nothing.
TOLD = frozenset({"drained", "preempted", "withdrawn", "fenced"})
CANNOT_RUN = "cannot run"  # the command that the user gave is none: nobody ended it

SIGNALLED = 128  # above it a shell, and a launcher, tell of a signal
KILL = 9


def by_exits(ends: tuple[RankEnd, ...]) -> tuple[Reason, str]:
    """Return why a gang ended of which nothing is known but its ends, not all of them good."""
    gone = [end for end in ends if has_vanished(end)]
    if gone:
        # A command that fails leaves its exit code; a machine that goes leaves nothing.
        return Reason.NODE_LOST, f"Rank {gone[0].rank} vanished without an exit code"
    if was_told(ends):
        # Its cluster told it, and did not tell us: the peers of who left fail on their own.
        return Reason.EVICTED, "Its gang was told to leave, and not by us"
    failed = [end for end in sorted(ends, key=lambda end: end.rank) if is_bad(end)]
    return Reason.COMMAND_FAILED, said(failed[0]) if failed else "The ranks were told to stop"


def is_bad(end: RankEnd) -> bool:
    """Return whether a rank ended otherwise than with success."""
    return end.exit_code != 0


def has_vanished(end: RankEnd) -> bool:
    """Return whether nothing is known of a rank but that it is gone."""
    return end.exit_code is None and end.signal is None


def was_told(ends: tuple[RankEnd, ...]) -> bool:
    """Return whether a launcher stopped its command because somebody told it to."""
    return any(end.cause in TOLD for end in ends)


def is_by_itself(end: RankEnd) -> bool:
    """Return whether a rank's command surely ended by itself, well or not."""
    is_told = end.signal is not None or end.cause not in ("", CANNOT_RUN)
    return end.exit_code is not None and end.exit_code <= SIGNALLED and not is_told


def is_own_failure(end: RankEnd) -> bool:
    """Return whether a rank's command surely ended by itself, without success."""
    return is_bad(end) and is_by_itself(end)


def has_begun_it(end: RankEnd) -> bool:
    """Return whether a rank that was the first of its gang to end failed by its own doing.

    Of the first one a signal counts as well: had its machine or its place been taken, the cluster
    would say so. Where not even that is known of it, nothing is.
    """
    return is_bad(end) and not has_vanished(end) and end.cause in ("", CANNOT_RUN)


def said(end: RankEnd) -> str:
    """Say how a rank ended, as a person would look for it."""
    if KILL in (end.signal, (end.exit_code or 0) - SIGNALLED):
        how = "was killed (signal 9), most likely because it ran out of memory"
    elif end.signal is not None:
        how = f"ended with signal {end.signal}"
    else:
        how = f"ended with exit code {end.exit_code}"
    return f"Rank {end.rank} {how}" + (f" ({end.cause})" if end.cause else "")
