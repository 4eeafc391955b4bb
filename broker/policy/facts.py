"""What a run's open epoch does, as the shell read it from its store and cluster.

The rule: only what listed processes said, or what was positively seen, is a fact (B4); a look that
failed leaves a field as it was. The shell builds these from the port, policy only reads them.
"""

from dataclasses import dataclass

from broker.history.commands import RecordCheckpoint, RefuseCheckpoint
from broker.model.bill import NodesFrom
from broker.model.capacity_seen import ClusterWord
from broker.model.checkpoint import EpochId
from broker.model.reasons import Reason
from broker.model.run import CloseRule, RankEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochFacts:
    """One open epoch as last seen. Points in time are broker seconds.

    ``ends`` are the listed ranks that ended or were seen gone (exit code and signal None: gone),
    ``first_end_s`` is when the first end was seen, ``failed_s`` when the first was that the command
    ended by itself, without success; ``has_failed_unasked`` says that it was there before a word to
    drain stood in the store. ``closed`` is the rule by which the start protocol calls the epoch
    closed, None while it does not. ``found`` is what a scan of its store found complete,
    ``refused`` what has a marker and is not; ``unread_until_s`` is until when a close waits for a
    store that cannot be read, None when it waits for none. ``cause`` is what its cluster says
    happened to the gang or its machines, or one of OWN_ENDS when the first end that it saw was the
    command's own; None for nothing. ``notice_until_s`` is when a machine of it is announced
    to be taken. ``nodes`` is since when the gang has how many machines, empty where its cluster
    does not tell. ``heard`` is when each rank that has not ended was last seen to report, by rank;
    empty while its store cannot be read. ``word`` is its cluster's own for what is wrong with the
    gang, None for nothing.
    """

    epoch: EpochId
    ends: tuple[RankEnd, ...] = ()
    first_end_s: float | None = None
    failed_s: float | None = None
    has_failed_unasked: bool = False
    closed: CloseRule | None = None
    found: tuple[RecordCheckpoint, ...] = ()
    refused: tuple[RefuseCheckpoint, ...] = ()
    unread_until_s: float | None = None
    cause: Reason | None = None
    message: str = ""
    notice_until_s: float | None = None
    nodes: tuple[NodesFrom, ...] = ()
    heard: tuple[tuple[int, float], ...] = ()
    word: ClusterWord | None = None
