"""What the words of a queue mean: waiting for quota, behind a check, put out again. Pure.

The rule: see ``words``. A row is a word's cause, whose fault it is, what is said, what a person can
do, and what the broker does by itself.
"""

from regions.cluster import Cause
from regions.kueue.vocabulary import Word
from regions.kueue.words import Deed, Fault, Row


def _row(cause: Cause, fault: Fault, deed: Deed, sentence: str, advice: str = "") -> Row:
    return Row(cause=cause, fault=fault, deed=deed, sentence=sentence, advice=advice)


_QUOTA, _NEVER, _STOPPED = Cause.WAITING_FOR_QUOTA, Cause.QUOTA_NEVER_FITS, Cause.QUEUE_STOPPED
_SMALLER = "Ask for fewer or smaller machines, or accept more regions and capacity types."
_OPERATORS = "Ask the cluster's operators; the object that is named shows them what to mend."

QUEUE_ROWS: dict[Word, Row] = {
    Word.NOT_LOOKED_AT_YET: _row(
        _QUOTA, Fault.NONE, Deed.WAITS, "The cluster has not yet looked at it"
    ),
    Word.NOT_TAKEN_UP: _row(
        Cause.WEDGED,
        Fault.ORCHESTRATION,
        Deed.LEAVES,
        "The cluster does not take it up, though its turn has come",
        "Show the object that is named to the cluster's operators.",
    ),
    Word.WAITING_FOR_QUOTA: _row(
        _QUOTA, Fault.RESOURCE, Deed.WAITS, "Its queue has not enough quota free", _SMALLER
    ),
    Word.WAITING_FOR_OTHERS_TO_LEAVE: _row(
        _QUOTA, Fault.RESOURCE, Deed.WAITS, "Others of lower priority are leaving to make room"
    ),
    Word.OVERTAKEN: _row(
        _QUOTA, Fault.RESOURCE, Deed.WAITS, "Another gang was let in first and took the room"
    ),
    Word.WAITING_FOR_ANOTHER_GANG: _row(
        _QUOTA,
        Fault.RESOURCE,
        Deed.WAITS,
        "The cluster lets nobody in until those let in before have started",
    ),
    Word.BACKING_OFF: _row(
        _QUOTA, Fault.RESOURCE, Deed.WAITS, "The cluster tries it again only after a pause"
    ),
    Word.QUOTA_NEVER_FITS: _row(
        _NEVER, Fault.RESOURCE, Deed.LEAVES, "Its queue can never have so much quota", _SMALLER
    ),
    Word.RESOURCE_NOT_COVERED: _row(
        Cause.REFUSED,
        Fault.ORCHESTRATION,
        Deed.LEAVES,
        "Its queue has no quota at all for something that it asks for",
        "Leave that wish out of the run or of the flavor's profile, or ask for quota of it.",
    ),
    Word.FLAVOR_MISMATCH: _row(
        Cause.REFUSED,
        Fault.ORCHESTRATION,
        Deed.LEAVES,
        "No kind of machine of its queue is the one that it was offered",
        "Compare the labels in the flavor's profile with the flavor's own.",
    ),
    Word.TAINT_NOT_TOLERATED: _row(
        Cause.REFUSED,
        Fault.ORCHESTRATION,
        Deed.LEAVES,
        "The machines of its queue are kept for others by a mark that it does not carry",
        "Add a toleration for the mark to the flavor's profile.",
    ),
    Word.TOPOLOGY_DOES_NOT_FIT: _row(
        _QUOTA,
        Fault.RESOURCE,
        Deed.WAITS,
        "Not enough machines that stand close together are free",
        "Prefer machines that stand close instead of requiring them, or ask for fewer.",
    ),
    Word.TOPOLOGY_NOT_OFFERED: _row(
        Cause.REFUSED,
        Fault.ORCHESTRATION,
        Deed.LEAVES,
        "The wish for machines that stand close does not go with this kind of machine",
        "Leave the topology wish out, or correct topology_level in the flavor's profile.",
    ),
    Word.QUEUE_STOPPED: _row(
        _STOPPED,
        Fault.RESOURCE,
        Deed.MOVES,
        "The queue is stopped by its operators",
        "Ask them when it goes on, or accept other regions.",
    ),
    Word.QUEUE_MISSING: _row(
        Cause.REFUSED, Fault.ORCHESTRATION, Deed.LEAVES, "The queue is not there", _OPERATORS
    ),
    Word.QUEUE_TERMINATING: _row(
        Cause.REFUSED, Fault.ORCHESTRATION, Deed.LEAVES, "The queue is being removed", _OPERATORS
    ),
    Word.QUEUE_INACTIVE: _row(
        _STOPPED, Fault.ORCHESTRATION, Deed.MOVES, "The queue lets nobody in", _OPERATORS
    ),
    Word.QUEUE_MISCONFIGURED: _row(
        _STOPPED,
        Fault.ORCHESTRATION,
        Deed.MOVES,
        "The queue lets nobody in, because its settings contradict each other",
        _OPERATORS,
    ),
    Word.FLAVOR_MISSING: _row(
        _STOPPED,
        Fault.ORCHESTRATION,
        Deed.MOVES,
        "The queue lets nobody in, because a kind of machine that it names is not there",
        _OPERATORS,
    ),
    Word.TOPOLOGY_MISSING: _row(
        _STOPPED,
        Fault.ORCHESTRATION,
        Deed.MOVES,
        "The queue lets nobody in, because the map of its machines is not there",
        _OPERATORS,
    ),
    Word.CHECK_MISSING: _row(
        _STOPPED,
        Fault.ORCHESTRATION,
        Deed.MOVES,
        "The queue lets nobody in, because a check that it names is not there",
        _OPERATORS,
    ),
    Word.CHECK_INACTIVE: _row(
        _STOPPED,
        Fault.ORCHESTRATION,
        Deed.MOVES,
        "The queue lets nobody in, because nobody answers for a check that it names",
        _OPERATORS,
    ),
    Word.NAMESPACE_REFUSED: _row(
        Cause.REFUSED,
        Fault.ORCHESTRATION,
        Deed.LEAVES,
        "The queue does not take gangs of the broker's namespace",
        _OPERATORS,
    ),
    Word.RESOURCES_INVALID: _row(
        Cause.REFUSED,
        Fault.USER,
        Deed.TRIES,
        "What it asks for contradicts itself",
        "Correct cpu and memory of the run, or of the flavor's profile.",
    ),
    Word.RANGE_EXCEEDED: _row(
        Cause.REFUSED,
        Fault.USER,
        Deed.TRIES,
        "It asks for more or less than the namespace allows for one process",
        "Correct cpu and memory of the run, or ask for the namespace's range to be widened.",
    ),
    Word.HELD_BY_OTHERS: _row(
        _STOPPED, Fault.ORCHESTRATION, Deed.MOVES, "Somebody else holds it in the queue", _OPERATORS
    ),
    Word.CHECK_PENDING: _row(
        Cause.WAITING_FOR_CHECK,
        Fault.RESOURCE,
        Deed.LEAVES,
        "It has its quota and waits for a check of the cluster",
        "Ask who answers for the check that is named.",
    ),
    Word.CHECK_FAILED: _row(
        Cause.WAITING_FOR_CHECK,
        Fault.RESOURCE,
        Deed.LEAVES,
        "A check of the cluster put it back and will be tried again",
    ),
    Word.CHECK_REJECTED: _row(
        Cause.REFUSED,
        Fault.RESOURCE,
        Deed.LEAVES,
        "A check of the cluster refused it for good",
        "Ask who answers for the check that is named.",
    ),
    Word.WAITING_FOR_FLEX: _row(
        Cause.WAITING_FOR_FLEX, Fault.RESOURCE, Deed.WAITS, "Flex capacity is booked and to come"
    ),
    Word.FLEX_NOT_ACCEPTED: _row(
        Cause.WAITING_FOR_FLEX,
        Fault.RESOURCE,
        Deed.WAITS,
        "Flex capacity was asked for, and the cloud has not taken the request yet",
    ),
    Word.FLEX_FAILED: _row(
        Cause.FLEX_FAILED,
        Fault.RESOURCE,
        Deed.LEAVES,
        "The cloud could not give the flex capacity",
        "Accept other regions or capacity types beside it.",
    ),
    Word.FLEX_BOOKING_EXPIRED: _row(
        Cause.BOOKING_EXPIRED,
        Fault.RESOURCE,
        Deed.LEAVES,
        "Flex capacity came, and was taken back before the gang could use it",
    ),
    Word.FLEX_CAPACITY_REVOKED: _row(
        Cause.CAPACITY_REVOKED,
        Fault.RESOURCE,
        Deed.RESUMES,
        "The cloud took the flex capacity back",
    ),
    Word.PREEMPTED_BY_PRIORITY: _row(
        Cause.EVICTED,
        Fault.RESOURCE,
        Deed.RESUMES,
        "A run of higher priority in its queue took its place",
        "Raise the run's priority, or accept places with more quota.",
    ),
    Word.QUOTA_RECLAIMED: _row(
        Cause.EVICTED,
        Fault.RESOURCE,
        Deed.RESUMES,
        "The quota that it had borrowed was taken back by those it belongs to",
        "Accept places with quota of the team's own.",
    ),
    Word.NOT_READY_IN_TIME: _row(
        Cause.EVICTED,
        Fault.RESOURCE,
        Deed.RESUMES,
        "The cluster put it out, because not all of its processes had started in time",
    ),
    Word.EVICTED_BY_CHECK: _row(
        Cause.EVICTED, Fault.RESOURCE, Deed.RESUMES, "A check of the cluster put it out"
    ),
    Word.EVICTED_WITH_QUEUE: _row(
        Cause.EVICTED,
        Fault.RESOURCE,
        Deed.RESUMES,
        "The operators stopped its queue and put out all that ran in it",
    ),
    Word.EVICTED_BY_NODE_FAILURE: _row(
        Cause.NODE_LOST,
        Fault.TRANSIENT,
        Deed.RESUMES,
        "The cluster put it out, because one of its machines failed",
    ),
    Word.EVICTED_TO_MIGRATE: _row(
        Cause.EVICTED,
        Fault.RESOURCE,
        Deed.RESUMES,
        "The cluster put it out to move it to another kind of machine",
    ),
    Word.EVICTED: _row(Cause.EVICTED, Fault.RESOURCE, Deed.RESUMES, "The cluster put it out"),
    Word.SWITCHED_OFF: _row(
        Cause.EVICTED,
        Fault.RESOURCE,
        Deed.RESUMES,
        "Somebody switched it off in the cluster",
        "Ask who did; the object that is named keeps the time.",
    ),
    Word.EVICTED_TOO_OFTEN: _row(
        Cause.EVICTED,
        Fault.RESOURCE,
        Deed.RESUMES,
        "The cluster put it out more often than it tries again",
    ),
    Word.TIME_LIMIT_OF_QUEUE: _row(
        Cause.EVICTED,
        Fault.RESOURCE,
        Deed.RESUMES,
        "It ran as long as the cluster lets a gang run",
        "Save often enough, or ask for a longer limit.",
    ),
    Word.WEDGED: _row(
        Cause.WEDGED,
        Fault.ORCHESTRATION,
        Deed.LEAVES,
        "The cluster holds quota for it, runs nothing of it and will not go on by itself",
        "Show the object that is named to the cluster's operators.",
    ),
    Word.FAILED_TO_START: _row(
        Cause.REFUSED,
        Fault.ORCHESTRATION,
        Deed.LEAVES,
        "The cluster could not prepare it for the machines that it was given",
        "Compare what the flavor's profile sets with the flavor's own labels.",
    ),
    Word.OUT_OF_SYNC: _row(
        Cause.REFUSED,
        Fault.ORCHESTRATION,
        Deed.LEAVES,
        "Somebody changed it, and the cluster's books no longer agree with it",
    ),
}
