"""What is said of a gang's end: its own, its launcher's, or its machine's."""

from dataclasses import replace
from typing import Any

import pytest

from regions.cluster import Cause
from regions.kueue.end_hearing import IMPENDING
from regions.kueue.explanation import explain
from regions.kueue.objects.pod import Pod
from regions.kueue.objects.taints import Taint
from regions.kueue.vocabulary import Word
from regions.kueue.words import Fault
from tests.unit.regions.kueue.tellings import (
    NOW_S,
    admitted,
    ended,
    make_container,
    make_evidence,
    make_job_set,
    make_node,
    make_pod,
    make_workload,
    said,
)


def word_of(*pods: Pod, **changes: Any) -> Word:
    """The word for what a cluster tells of a gang that was let in."""
    evidence = make_evidence(**{"workload": admitted(), "pods": pods, **changes})
    return Word(explain(evidence).word)


CODES = {
    1: Word.COMMAND_FAILED,
    126: Word.COMMAND_NOT_EXECUTABLE,
    127: Word.COMMAND_NOT_FOUND,
    134: Word.CRASHED,
    135: Word.SHARED_MEMORY_FULL,
    137: Word.KILLED,
    139: Word.CRASHED,
    143: Word.TERMINATED,
    80: Word.GATE_TIMEOUT,
    81: Word.LEFT_GATE,
    82: Word.LEFT_GATE,
    83: Word.FENCED,
    84: Word.BUNDLE_DAMAGED,
    85: Word.LAUNCHER_MISTOLD,
    86: Word.NOTICE_HEARD,
    87: Word.NOTICE_HEARD,
    88: Word.LEFT_GATE,
    89: Word.DRAINED,
    90: Word.CHECKPOINT_DAMAGED,
}


@pytest.mark.parametrize("code", CODES)
def test_an_exit_code_says(code: int) -> None:
    assert word_of(ended(code)) is CODES[code]


def test_a_signal_says_the_same_as_its_exit_code() -> None:
    assert word_of(ended(None, signal=6)) is Word.CRASHED
    assert word_of(ended(None, signal=9)) is Word.KILLED


LAST_LINES = {
    "Traceback (most recent call last)": Word.COMMAND_FAILED,
    "RuntimeError: unable to write to file </torch_7>: No space left on device": (
        Word.SHARED_MEMORY_FULL
    ),
    "DataLoader worker (pid 7) is killed by signal: Bus error.": Word.SHARED_MEMORY_FULL,
    "OSError: [Errno 28] No space left on device": Word.DISK_FULL,
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate": Word.GPU_OUT_OF_MEMORY,
    "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)": Word.NCCL_TIMEOUT,
    "DistBackendError: NCCL error in: x.cpp, ncclSystemError": Word.NCCL_ERROR,
    "CUDA error: uncorrectable ECC error encountered": Word.GPU_FAULT,
    "ModuleNotFoundError: No module named 'apex'": Word.MODULE_MISSING,
    "OSError: [Errno 98] Address already in use": Word.PORT_TAKEN,
    "launcher: cannot run train.sh: No such file or directory": Word.COMMAND_NOT_FOUND,
    "launcher: cannot run train.sh: Permission denied": Word.COMMAND_NOT_EXECUTABLE,
    "launcher: BROKER_WORK_DIR cannot be used: [Errno 30]": Word.LAUNCHER_MISTOLD,
    "exec /usr/bin/python3: exec format error": Word.IMAGE_WRONG_ARCHITECTURE,
}


@pytest.mark.parametrize("line", LAST_LINES)
def test_the_last_lines_say(line: str) -> None:
    before = "step 7 loss 2.1\n" * 2000
    assert word_of(ended(1, before + line)) is LAST_LINES[line]


def test_memory_beyond_what_was_asked_for_ends_it() -> None:
    assert word_of(ended(137, reason="OOMKilled")) is Word.OUT_OF_MEMORY


EXEC = 'runc create failed: unable to start container process: exec: "{}": {}: unknown'
NOT_STARTED = {
    EXEC.format("python3", "executable file not found in $PATH"): Word.LAUNCHER_NOT_STARTED,
    EXEC.format("/opt/conda/bin/python", "stat /opt/conda/bin/python: no such file"): (
        Word.LAUNCHER_NOT_STARTED
    ),
    EXEC.format("/ops/shim", "permission denied"): Word.COMMAND_NOT_EXECUTABLE,
    EXEC.format("python3", "exec format error"): Word.IMAGE_WRONG_ARCHITECTURE,
}


@pytest.mark.parametrize("message", NOT_STARTED)
def test_nothing_was_started(message: str) -> None:
    assert word_of(ended(128, message, reason="StartError")) is NOT_STARTED[message]


def test_the_one_that_failed_is_explained_and_not_those_that_waited_in_vain_for_it() -> None:
    late = ended(1, "Watchdog caught collective operation timeout", finished_s=NOW_S - 2.0)
    first = ended(1, "CUDA out of memory", rank=1, finished_s=NOW_S - 600.0)
    assert word_of(late, first) is Word.GPU_OUT_OF_MEMORY


def test_nor_those_that_were_told_to_go_before_its_end_is_seen() -> None:
    told = (ended(87, finished_s=NOW_S - 9.0), ended(143, rank=2, finished_s=NOW_S - 9.0))
    assert word_of(*told, ended(1, rank=1)) is Word.COMMAND_FAILED


def disrupted(reason: str, message: str = "") -> Pod:
    """A member to which something was done, and which then ended by a signal."""
    return ended(143, conditions=(said("DisruptionTarget", reason, message),))


def test_what_is_done_to_the_rest_of_one_that_had_finished_is_no_end_of_its_gang() -> None:
    gone = disrupted("DeletionByTaintManager")
    assert word_of(gone, make_pod(1, make_container("running"))) is Word.NODE_LOST
    done = replace(gone, phase="Succeeded")
    assert word_of(done, make_pod(1, make_container("running"))) is not Word.NODE_LOST


SHUTDOWN = "Pod was terminated in response to imminent node shutdown."
OURS: dict[str, Any] = {"capacity_type": "RESERVED"}
TAKEN = make_node(taints=(Taint(key=IMPENDING, value="", effect="NoSchedule"),))
MACHINES: dict[str, tuple[Pod, dict[str, Any], Word]] = {
    "a spot machine shuts down": (
        ended(143, status_reason="Terminated", status_message=SHUTDOWN),
        {},
        Word.NODE_PREEMPTED,
    ),
    "a spot machine shuts down, by the kubelet's condition": (
        disrupted("TerminationByKubelet", SHUTDOWN),
        {},
        Word.NODE_PREEMPTED,
    ),
    "a machine of ours shuts down": (disrupted("TerminationByKubelet"), OURS, Word.NODE_SHUT_DOWN),
    "a spot machine is gone": (disrupted("DeletionByPodGC"), {"nodes": {}}, Word.NODE_PREEMPTED),
    "a machine of ours is gone": (
        disrupted("DeletionByPodGC"),
        {"nodes": {}, **OURS},
        Word.NODE_LOST,
    ),
    "a spot machine is there and does not answer": (
        disrupted("DeletionByTaintManager"),
        {},
        Word.NODE_LOST,
    ),
    "a machine of ours is about to be taken": (
        disrupted("DeletionByTaintManager"),
        {"nodes": {"node-0": TAKEN}, **OURS},
        Word.NODE_PREEMPTED,
    ),
    "machines cannot be seen, and that one is not says nothing": (
        disrupted("DeletionByTaintManager"),
        {"nodes": None},
        Word.NODE_LOST,
    ),
    "its machine is emptied": (disrupted("EvictionByEvictionAPI"), {}, Word.MACHINE_EMPTIED),
    "something comes before it, beside the queues": (
        disrupted("PreemptionByScheduler"),
        {},
        Word.PREEMPTED_BY_SCHEDULER,
    ),
    "something new is done to it": (disrupted("Teleported"), {}, Word.MACHINE_EMPTIED),
    "its machine is short of memory": (
        ended(
            137, status_reason="Evicted", status_message="The node was low on resource: memory. x"
        ),
        {},
        Word.NODE_MEMORY_SHORT,
    ),
    "its machine is short of disk": (
        ended(
            137,
            status_reason="Evicted",
            status_message="The node was low on resource: ephemeral-storage.",
        ),
        {},
        Word.NODE_DISK_SHORT,
    ),
    "it wrote more than a volume holds": (
        ended(
            137,
            status_reason="Evicted",
            status_message='Usage of EmptyDir volume "fast" exceeds the limit "1Gi".',
        ),
        {},
        Word.NODE_DISK_SHORT,
    ),
    "its machine has no room after all": (
        ended(None, status_reason="OutOfnvidia.com/gpu"),
        {},
        Word.NODE_REFUSED_IT,
    ),
    "it failed, and nobody says why": (
        make_pod(0, phase="Failed", containers=()),
        {},
        Word.UNKNOWN,
    ),
    "it failed, and its machine is gone": (
        make_pod(0, phase="Failed", containers=()),
        {"nodes": {}},
        Word.NODE_PREEMPTED,
    ),
}


@pytest.mark.parametrize("case", MACHINES)
def test_its_machine(case: str) -> None:
    pod, changes, expected = MACHINES[case]
    assert word_of(pod, **changes) is expected


def test_its_books() -> None:
    assert word_of(job_set=make_job_set(terminal_state="Failed")) is Word.GANG_BROKEN
    done = ended(0, phase="Succeeded", reason="Completed")
    assert word_of(done, job_set=make_job_set(terminal_state="Completed")) is Word.COMPLETED
    for reason, word in (("OutOfSync", Word.OUT_OF_SYNC), ("FailedToStart", Word.FAILED_TO_START)):
        assert word_of(workload=make_workload(said("Finished", reason, "x"))) is word


def test_a_machine_that_is_taken_back_is_not_the_runs_own_failure() -> None:
    def told(pod: Pod, **changes: Any) -> tuple[Cause, Fault]:
        verdict = explain(make_evidence(workload=admitted(), pods=(pod,), **changes))
        return verdict.cause, verdict.fault

    gone = told(disrupted("DeletionByPodGC"), nodes={})
    assert gone == (Cause.NODE_PREEMPTED, Fault.RESOURCE)
    assert told(ended(1)) == (Cause.MEMBER_EXITED, Fault.USER)


def test_a_verdict_names_the_very_member() -> None:
    verdict = explain(make_evidence(workload=admitted(), pods=(ended(1),)))
    assert verdict.member == "uid-cb-k3v9q0aa1b2c-g-0-0"
    assert verdict.look_at == "pod/cb-k3v9q0aa1b2c-g-0-0"
