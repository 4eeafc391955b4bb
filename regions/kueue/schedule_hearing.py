"""Why the scheduler finds no machine for a process. Pure.

The rule: the scheduler says of each machine the first thing that keeps the process off, and tells
neither which machine nor, in later releases, which mark that is; a cluster has machines of many
kinds, so that of those which the process may not use something is always said. What is said of
marks is therefore looked up at the machines that it is meant for. Read ``of_scheduler`` first.
"""

from collections.abc import Mapping

from regions.kueue.hearing import Heard, hear, sayings, unknown
from regions.kueue.machines import STARTING_TAINTS
from regions.kueue.objects.meta import find
from regions.kueue.objects.node import Node
from regions.kueue.objects.pod import Pod
from regions.kueue.objects.taints import in_the_way
from regions.kueue.vocabulary import Word

_SCHEDULER = sayings(
    (r"persistentvolumeclaim \"(?P<what>[^\"]{1,253})\" not found", Word.VOLUME_KEEPS_IT_AWAY),
    (
        (
            r"unbound immediate PersistentVolumeClaims|volume node affinity conflict"
            r"|didn't find available persistent volumes"
        ),
        Word.VOLUME_KEEPS_IT_AWAY,
    ),
    (r"Insufficient (?P<what>[\w./-]{1,253})", Word.NODES_FULL),
    (r"Too many pods", Word.NODES_FULL),
    (r"no nodes available", Word.NODES_COMING),
    (r"untolerated taint \{(?P<what>[^}]{1,253})\}", Word.NODES_TAINTED),
    (r"untolerated taint\(s\)", Word.NODES_TAINTED),
    (r"didn't match Pod's node affinity", Word.NODES_DO_NOT_MATCH),
)

_PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Marks of a machine that is not well, or, as STARTING_TAINTS, only just coming up: no profile can
bear them."""


def of_scheduler(pod: Pod, nodes: Mapping[str, Node] | None) -> Heard | None:
    """Say why a process has no machine; None: nothing is said of it.

    ``nodes`` are all that are seen, by name; None: they cannot be seen.
    """
    look_at = f"pod/{pod.meta.name}"
    said = find(pod.conditions, "PodScheduled")
    if said is None or said.status is not False:
        return None
    if said.reason == "SchedulingGated" or pod.gates:
        gates = ", ".join(pod.gates)
        return Heard(word=Word.GATED_BY_OTHERS, detail=gates, raw=said.message, look_at=look_at)
    heard = hear(said.message, _SCHEDULER)
    if heard is not None and heard[0] is Word.NODES_TAINTED and nodes is not None:
        heard = _by_its_machines(pod, nodes) or heard
    if heard is not None:
        return Heard(word=heard[0], detail=heard[1], raw=said.message, look_at=look_at)
    counted = "" if not said.message else unknown("PodScheduled", said.reason)
    return Heard(word=Word.NODES_COMING, raw=said.message, look_at=look_at, unknown=counted)


def _by_its_machines(pod: Pod, nodes: Mapping[str, Node]) -> tuple[Word, str] | None:
    """Return what keeps a process off the machines that have the labels which it asks for.

    None: on none of them is a mark that would.
    """
    wanted = pod.selector.items()
    own = [node for node in nodes.values() if wanted <= node.meta.labels.items()]
    if not own:
        return Word.NODES_DO_NOT_MATCH, ""
    marks = {mark for node in own for mark in in_the_way(node.taints, pod.tolerations)}
    lasting = sorted(f"{one.key}: {one.value}" for one in marks if not _is_passing(one.key))
    if lasting:
        return Word.NODES_TAINTED, lasting[0]
    return (Word.NODES_COMING, "") if marks else None


def _is_passing(key: str) -> bool:
    return key in STARTING_TAINTS or key.startswith(_PASSING)
