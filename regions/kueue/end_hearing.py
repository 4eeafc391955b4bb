"""How a member of a gang ended, from its pod: whose doing it was, in words. Pure.

The rule: what was done to a pod comes before what its process said of it, because a process that is
told to go ends with a code of its own; and of a gang it is the member that ended first by itself
that is explained, for the others end because it did. Read ``of_end`` and ``first_failed`` first.
"""

from collections.abc import Iterable, Mapping

from regions.kueue.hearing import Heard, hear, hear_end, sayings, unknown
from regions.kueue.log_hearing import LAST_LINES
from regions.kueue.objects.meta import find
from regions.kueue.objects.node import Node
from regions.kueue.objects.pod import ContainerState, Pod
from regions.kueue.pod import TRAIN
from regions.kueue.vocabulary import Word
from regions.launcher import exits, rules

TAKEN_BACK = frozenset({"SPOT", "FLEX"})
"""Capacity of which a machine that is gone was taken back, and did not break."""
IMPENDING = "cloud.google.com/impending-node-termination"
"""The taint of a machine that the cloud is taking back just now."""

# What became of the pod, by the kubelet's or a controller's own reason.
_POD_REASONS = {
    "NodeShutdown": Word.NODE_SHUT_DOWN,
    "Terminated": Word.NODE_SHUT_DOWN,
    "Shutdown": Word.NODE_SHUT_DOWN,
    "NodeLost": Word.NODE_LOST,
    "Preempting": Word.PREEMPTED_BY_SCHEDULER,
    "Preempted": Word.PREEMPTED_BY_SCHEDULER,
    "DeadlineExceeded": Word.DEADLINE_OF_JOB,
    "NodeAffinity": Word.NODE_REFUSED_IT,
    "UnexpectedAdmissionError": Word.NODE_REFUSED_IT,
    "TopologyAffinityError": Word.NODE_REFUSED_IT,
    "InvalidNodeInfo": Word.NODE_REFUSED_IT,
    "PodOSSelectorNodeLabelDoesNotMatch": Word.NODE_REFUSED_IT,
    "PodOSNotSupported": Word.NODE_REFUSED_IT,
    "SupplementalGroupsPolicyNotSupported": Word.NODE_REFUSED_IT,
    "InitContainerRestartPolicyForbidden": Word.NODE_REFUSED_IT,
}
_EVICTED_BY_KUBELET = sayings(
    (r"low on resource: memory|MemoryPressure", Word.NODE_MEMORY_SHORT),
    (
        (
            r"low on resource: (?:ephemeral-storage|inodes)|ephemeral[- ](?:local )?storage"
            r"|DiskPressure|Usage of EmptyDir volume"
        ),
        Word.NODE_DISK_SHORT,
    ),
    (r"node shutdown", Word.NODE_SHUT_DOWN),
)
_DISRUPTIONS = {
    "PreemptionByScheduler": Word.PREEMPTED_BY_SCHEDULER,
    "DeletionByTaintManager": Word.NODE_LOST,
    "DeletionByPodGC": Word.NODE_LOST,
    "EvictionByEvictionAPI": Word.MACHINE_EMPTIED,
    "TerminationByKubelet": Word.NODE_SHUT_DOWN,
}
_BY_THE_CLOUD = frozenset({Word.NODE_SHUT_DOWN, Word.NODE_LOST})

_NOT_STARTED = sayings(
    (r"exec format error", Word.IMAGE_WRONG_ARCHITECTURE),
    (
        r"\"?(?P<what>[\w./-]*python[\w.]*)\"?: (?:executable file not found|stat |no such file)",
        Word.LAUNCHER_NOT_STARTED,
    ),
    (
        r"\"(?P<what>[^\"]{1,200})\": (?:executable file not found|stat |no such file)",
        Word.COMMAND_NOT_FOUND,
    ),
    (r"\"(?P<what>[^\"]{1,200})\": permission denied", Word.COMMAND_NOT_EXECUTABLE),
)

_LAUNCHER_EXITS = {
    exits.BAD_CONFIGURATION: Word.LAUNCHER_MISTOLD,
    exits.OF_CAUSE[rules.Cause.GATE_TIMEOUT]: Word.GATE_TIMEOUT,
    exits.OF_CAUSE[rules.Cause.NOT_LISTED]: Word.LEFT_GATE,
    exits.OF_CAUSE[rules.Cause.REVOKED]: Word.LEFT_GATE,
    exits.OF_CAUSE[rules.Cause.FENCED]: Word.FENCED,
    exits.OF_CAUSE[rules.Cause.BUNDLE_BAD]: Word.BUNDLE_DAMAGED,
    exits.OF_CAUSE[rules.Cause.CHECKPOINT_BAD]: Word.CHECKPOINT_DAMAGED,
    exits.OF_CAUSE[rules.Cause.WITHDRAWN]: Word.NOTICE_HEARD,
    exits.OF_CAUSE[rules.Cause.PREEMPTED]: Word.NOTICE_HEARD,
    exits.OF_CAUSE[rules.Cause.MISMATCH]: Word.LEFT_GATE,
    exits.OF_CAUSE[rules.Cause.DRAINED]: Word.DRAINED,
}
_CODES = {
    0: Word.COMPLETED,
    126: Word.COMMAND_NOT_EXECUTABLE,
    127: Word.COMMAND_NOT_FOUND,
    128 + 7: Word.SHARED_MEMORY_FULL,
    128 + 9: Word.KILLED,
    128 + 15: Word.TERMINATED,
    128 + 4: Word.CRASHED,
    128 + 6: Word.CRASHED,
    128 + 8: Word.CRASHED,
    128 + 11: Word.CRASHED,
}
FOLLOWS = frozenset({Word.TERMINATED, Word.NOTICE_HEARD, Word.KILLED, Word.FENCED, Word.DRAINED})
"""What a member says that ends because it was told to: never the first cause of anything."""


def of_end(pod: Pod, nodes: Mapping[str, Node] | None, *, capacity_type: str) -> Heard | None:
    """Say how a member ended; None: it has not.

    ``nodes`` are those that are seen, by name; None: they cannot be seen, and that one is not among
    them says nothing.
    """
    done = _done_to(pod)
    if done is not None:
        word = _by_whom(done.word, pod, nodes, capacity_type)
        return Heard(
            word=word, raw=done.raw, look_at=_at(pod), unknown=done.unknown, member=pod.meta.uid
        )
    container = _trainer(pod)
    if container is not None and container.state == "terminated":
        word, detail = _own_end(container)
        return Heard(
            word=word,
            detail=detail,
            raw=container.message or container.reason,
            look_at=_at(pod),
            member=pod.meta.uid,
        )
    if pod.phase == "Failed":
        if _is_machine_gone(pod, nodes):
            word = _by_whom(Word.NODE_LOST, pod, nodes, capacity_type)
            return Heard(word=word, raw=pod.message, look_at=_at(pod), member=pod.meta.uid)
        counted = unknown("Pod.status", pod.reason or "Failed")
        return Heard(
            word=Word.UNKNOWN,
            raw=pod.message or pod.reason,
            look_at=_at(pod),
            unknown=counted,
            member=pod.meta.uid,
        )
    return None


def first_failed(
    pods: Iterable[Pod], nodes: Mapping[str, Node] | None, *, capacity_type: str
) -> Heard | None:
    """Say how the member ended whose end made the cluster end the others; None: none failed."""
    ranked = []
    for pod in pods:
        if pod.phase == "Succeeded":
            continue  # whatever is done to what is left of it, its process had finished
        heard = of_end(pod, nodes, capacity_type=capacity_type)
        if heard is None or heard.word is Word.COMPLETED:
            continue
        container = _trainer(pod)
        ended_s = container.finished_s if container is not None else None
        at_s = ended_s if ended_s is not None else float("inf")
        ranked.append((heard.word in FOLLOWS, at_s, pod.meta.name, heard))
    return min(ranked, key=lambda each: each[:3])[3] if ranked else None


def _done_to(pod: Pod) -> Heard | None:
    """What was done to the pod by its machine or its cluster; None: nothing that is told."""
    if pod.reason == "Evicted":
        heard = hear(pod.message, _EVICTED_BY_KUBELET)
        word = heard[0] if heard else Word.MACHINE_EMPTIED
        return Heard(word=word, raw=pod.message)
    if pod.reason.startswith("OutOf"):
        return Heard(word=Word.NODE_REFUSED_IT, raw=pod.message or pod.reason)
    known = _POD_REASONS.get(pod.reason)
    if known is not None:
        return Heard(word=known, raw=pod.message or pod.reason)
    said = find(pod.conditions, "DisruptionTarget")
    if said is None or said.status is not True:
        return None
    heard = hear(said.message, _EVICTED_BY_KUBELET)
    disrupted = _DISRUPTIONS.get(said.reason)
    if disrupted is None:
        counted = unknown("Pod.DisruptionTarget", said.reason)
        return Heard(word=Word.MACHINE_EMPTIED, raw=said.message, unknown=counted)
    if heard is not None and said.reason == "TerminationByKubelet":
        disrupted = heard[0]
    return Heard(word=disrupted, raw=said.message or said.reason)


def _by_whom(word: Word, pod: Pod, nodes: Mapping[str, Node] | None, capacity_type: str) -> Word:
    """Tell a machine that broke from one that the cloud took back."""
    if word not in _BY_THE_CLOUD:
        return word
    node = nodes.get(pod.node) if nodes is not None else None
    if node is not None and any(taint.key == IMPENDING for taint in node.taints):
        return Word.NODE_PREEMPTED
    # A spot machine that is shut down or gone was taken back; one that is there and does not answer
    # may be broken.
    is_gone = _is_machine_gone(pod, nodes) or word is Word.NODE_SHUT_DOWN
    return Word.NODE_PREEMPTED if is_gone and capacity_type in TAKEN_BACK else word


def _is_machine_gone(pod: Pod, nodes: Mapping[str, Node] | None) -> bool:
    return bool(pod.node) and nodes is not None and pod.node not in nodes


def _own_end(container: ContainerState) -> tuple[Word, str]:
    """What the process itself was, when nothing was done to it."""
    code, signal = container.exit_code, container.signal
    if container.reason == "OOMKilled":
        return Word.OUT_OF_MEMORY, ""
    if container.reason in ("StartError", "ContainerCannotRun"):
        heard = hear(container.message, _NOT_STARTED)
        return heard or (Word.COMMAND_NOT_EXECUTABLE, "")
    if container.reason == "ContainerStatusUnknown":
        return Word.NODE_LOST, ""
    if code is not None and code in _LAUNCHER_EXITS:
        return _LAUNCHER_EXITS[code], ""
    if code == 0 and not signal:
        return Word.COMPLETED, ""
    number = 128 + signal if signal else code
    heard = hear_end(container.message, LAST_LINES)
    # The last lines of a process that was told to go are of what it did until then.
    if heard is not None and number != 128 + 15:
        return heard
    detail = f"signal {signal}" if signal else f"exit code {code}"
    return _CODES.get(number or 0, Word.COMMAND_FAILED), detail


def _trainer(pod: Pod) -> ContainerState | None:
    own = [one for one in pod.containers if not one.is_init]
    return next((one for one in own if one.name == TRAIN), own[0] if own else None)


def _at(pod: Pod) -> str:
    return f"pod/{pod.meta.name}"
