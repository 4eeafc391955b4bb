"""What the words of an end mean: the run's own, the launcher's, the machine's. Pure.

The rule: see ``words``. Whose fault an end is decides which limit it is counted against, so that a
machine that is taken back is never the run's own failure, and a crash never the machine's.
"""

from regions.cluster import Cause
from regions.kueue.vocabulary import Word
from regions.kueue.words import Deed, Fault, Row


def _row(cause: Cause, fault: Fault, deed: Deed, sentence: str, advice: str = "") -> Row:
    return Row(cause=cause, fault=fault, deed=deed, sentence=sentence, advice=advice)


def _own(sentence: str, advice: str = "Look at the last lines of its log.") -> Row:
    return _row(Cause.MEMBER_EXITED, Fault.USER, Deed.ENDS, sentence, advice)


def _launcher(fault: Fault, sentence: str, advice: str = "") -> Row:
    return _row(Cause.MEMBER_EXITED, fault, Deed.JUDGES, sentence, advice)


_LOST, _GONE = Cause.NODE_LOST, Cause.NODE_PREEMPTED

END_ROWS: dict[Word, Row] = {
    Word.COMPLETED: _row(Cause.NONE, Fault.NONE, Deed.NOTHING, "Every process finished"),
    Word.COMMAND_FAILED: _own("Its command failed"),
    Word.COMMAND_NOT_FOUND: _own(
        "Its command is not in the image or the bundle", "Correct the command's first word."
    ),
    Word.COMMAND_NOT_EXECUTABLE: _own(
        "Its command is there and cannot be run", "Give it the right to be executed, and a #! line."
    ),
    Word.LAUNCHER_NOT_STARTED: _own(
        "The image has no python3, which the launcher needs",
        "Put a Python of 3.8 or later into the image, or name it in the flavor's profile.",
    ),
    Word.LAUNCHER_FAILED: _launcher(
        Fault.ORCHESTRATION,
        "The launcher ended at its gate, before the command could begin",
        "Look at the last lines of its log; the image's Python has to be 3.8 or later.",
    ),
    Word.MODULE_MISSING: _own(
        "A Python module that it imports is not there", "Add it to the image or to the bundle."
    ),
    Word.OUT_OF_MEMORY: _own(
        "It used more memory than it asked for",
        "Ask for more memory, load less at once, or use fewer data workers.",
    ),
    Word.GPU_OUT_OF_MEMORY: _own(
        "The memory of a GPU was not enough",
        "Use a smaller batch, sharding or activation checkpointing, or larger GPUs.",
    ),
    Word.SHARED_MEMORY_FULL: _own(
        "Shared memory was not enough, as with many data workers",
        "Use fewer data workers, or have shm_bytes raised in the flavor's profile.",
    ),
    Word.DISK_FULL: _own(
        "A disk that it writes to is full", "Keep fewer checkpoints, or write to the store."
    ),
    Word.NCCL_TIMEOUT: _row(
        Cause.MEMBER_EXITED,
        Fault.TRANSIENT,
        Deed.JUDGES,
        "A collective operation between the GPUs timed out: one rank was slow, stuck or gone",
        "See which rank did not come to it; again and again with the same rank it is the machine.",
    ),
    Word.NCCL_ERROR: _row(
        Cause.MEMBER_EXITED,
        Fault.TRANSIENT,
        Deed.JUDGES,
        "The GPUs could not speak with each other",
        "Look at the NCCL environment in the flavor's profile and at the network's interfaces.",
    ),
    Word.GPU_FAULT: _row(
        Cause.MEMBER_EXITED,
        Fault.TRANSIENT,
        Deed.JUDGES,
        "A GPU failed",
        "Have the cluster's operators look at the machine.",
    ),
    Word.PORT_TAKEN: _own(
        "A port that it listens on was taken", "Use MASTER_PORT, and another one only if free."
    ),
    Word.CRASHED: _own("Its process crashed"),
    Word.KILLED: _own(
        "Its process was killed, and nobody says by whom",
        "Often this is memory: ask for more and see whether it comes again.",
    ),
    Word.TERMINATED: _row(
        Cause.MEMBER_EXITED, Fault.TRANSIENT, Deed.JUDGES, "Its process was asked to end, and did"
    ),
    Word.GATE_TIMEOUT: _launcher(
        Fault.RESOURCE, "It stood at its gate as long as it may and gave its machines back"
    ),
    Word.LEFT_GATE: _launcher(
        Fault.ORCHESTRATION, "It left its gate: another start of the run counts, not this one"
    ),
    Word.FENCED: _launcher(Fault.NONE, "It was told to stop, and did"),
    Word.DRAINED: _launcher(Fault.NONE, "It was asked to save and leave, and did"),
    Word.NOTICE_HEARD: _row(
        _GONE, Fault.RESOURCE, Deed.RESUMES, "It was given notice to leave its machine, and left"
    ),
    Word.BUNDLE_DAMAGED: _launcher(
        Fault.ORCHESTRATION,
        "The bundle in the region's store is damaged or missing",
        "Submit the run again, so that the bundle is stored anew.",
    ),
    Word.CHECKPOINT_DAMAGED: _launcher(
        Fault.ORCHESTRATION,
        "The checkpoint in the region's store is not whole any more, or is another",
        "If it comes again, look at the region's disk or bucket.",
    ),
    Word.LAUNCHER_MISTOLD: _launcher(
        Fault.ORCHESTRATION,
        "The launcher was not told all that it needs",
        "Compare the flavor's profile with the region's store.",
    ),
    Word.NODE_PREEMPTED: _row(
        _GONE, Fault.RESOURCE, Deed.RESUMES, "The cloud took one of its machines back"
    ),
    Word.NODE_SHUT_DOWN: _row(
        _GONE, Fault.RESOURCE, Deed.RESUMES, "One of its machines was shut down"
    ),
    Word.NODE_LOST: _row(
        _LOST,
        Fault.TRANSIENT,
        Deed.RESUMES,
        "One of its machines is gone or does not answer",
        "If it does not come back, have it removed, or marked as out of service.",
    ),
    Word.NODE_MEMORY_SHORT: _row(
        _LOST,
        Fault.TRANSIENT,
        Deed.RESUMES,
        "Its machine ran short of memory and put it out",
        "Name the memory that a rank needs, so that room is kept for it.",
    ),
    Word.NODE_DISK_SHORT: _own(
        "Its machine ran short of disk and put it out",
        "Write to the store or to a volume instead of the machine's own disk.",
    ),
    Word.NODE_REFUSED_IT: _row(
        _LOST, Fault.TRANSIENT, Deed.RESUMES, "Its machine had no room for it after all"
    ),
    Word.MACHINE_EMPTIED: _row(
        Cause.EVICTED, Fault.RESOURCE, Deed.RESUMES, "Its machine was emptied by its operators"
    ),
    Word.PREEMPTED_BY_SCHEDULER: _row(
        Cause.EVICTED,
        Fault.RESOURCE,
        Deed.RESUMES,
        "Something of higher priority took its machine, beside the queues",
        "Ask the cluster's operators what runs there outside of the queues.",
    ),
    Word.DEADLINE_OF_JOB: _row(
        Cause.EVICTED, Fault.RESOURCE, Deed.RESUMES, "The cluster ended it after a time of its own"
    ),
    Word.GANG_BROKEN: _row(
        Cause.MEMBER_EXITED,
        Fault.ORCHESTRATION,
        Deed.JUDGES,
        "One of its processes ended, and with it the gang; what it said is not kept",
    ),
    Word.BEING_REMOVED: _row(
        Cause.WITHDRAWN, Fault.NONE, Deed.NOTHING, "It is being removed from the cluster"
    ),
    Word.NOT_SEEN: _row(
        Cause.UNKNOWN,
        Fault.NONE,
        Deed.WAITS,
        "What becomes of it cannot be seen just now",
        "Have a look at what the region says that it cannot see, and at the broker's rights there.",
    ),
    Word.UNKNOWN: _row(
        Cause.UNKNOWN,
        Fault.ORCHESTRATION,
        Deed.WAITS,
        "The cluster says something that the broker has no word for",
        "Look at the object that is named; what it says is shown as it is.",
    ),
}
