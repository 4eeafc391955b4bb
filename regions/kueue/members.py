"""The processes of our gangs, remembered from when they were first seen until long after their end.

The rule: a process is gone on positive evidence only, and then for ever. Its pod says that it
ended; or its pod was seen and is no more, which a node that works confirms by removing it; or its
node was seen and is no more. A pod that vanished from a node that does not answer was removed by
force, and its process may run on: it counts as alive until the node is heard of again, or is gone.

Nobody looks while a broker is away. A process that stands in its region's store and was not seen is
taken in as alive (``recall``); once its pod was asked for and is not there, its node decides.

Read ``Members.look`` first.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from regions.cluster import MemberSeen
from regions.kueue import names
from regions.kueue.objects.meta import find
from regions.kueue.objects.node import Node
from regions.kueue.objects.pod import ContainerState, Pod
from regions.kueue.pod import TRAIN
from regions.kueue.snapshot import Seen

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""The taint by which operators vouch that a machine is off."""
MAX_RANK = 100_000
MAX_GANGS = 4_000
"""Gangs of which members are remembered; those forgotten first ended long ago."""
MAX_GONE = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One process: a pod that was bound to a node.

    ``gang`` is its JobSet's uid; ``node_uid`` is empty while its node has not been seen. ``left_s``
    is when it was seen to be gone, in Unix seconds, None while it is alive. ``last_words`` are what
    its container left at its end. ``is_unsought``: only its store told of it so far, and whether
    its pod is there was not asked.
    """

    uid: str
    key: str
    gang: str
    rank: int
    node: str
    node_uid: str
    created_s: float
    bound_s: float | None
    exit_code: int | None = None
    signal: int | None = None
    left_s: float | None = None
    last_words: str = ""
    is_unsought: bool = False

    @property
    def is_alive(self) -> bool:
        """Whether its process may run."""
        return self.left_s is None

    def seen(self) -> MemberSeen:
        """Return it in the port's words."""
        return MemberSeen(
            rank=self.rank,
            member=self.uid,
            is_alive=self.is_alive,
            exit_code=self.exit_code,
            signal=self.signal,
        )


class Members:
    """All members that were ever seen, by gang."""

    def __init__(self) -> None:
        self._gangs: dict[str, dict[str, Member]] = {}
        self._gone: dict[str, None] = {}
        self._gang_of: dict[str, str] = {}

    @property
    def gone(self) -> frozenset[str]:
        """The uids of those that are gone for certain."""
        return frozenset(self._gone)

    def of(self, *gangs: str) -> tuple[Member, ...]:
        """Return the members of a gang, or of several, oldest first, and of one time by rank."""
        found = [one for gang in gangs for one in self._gangs.get(gang, {}).values()]
        return tuple(sorted(found, key=lambda one: (one.created_s, one.rank, one.uid)))

    def is_known(self, uid: str) -> bool:
        """Whether a process was taken in before."""
        return uid in self._gone or uid in self._gang_of

    def get(self, uid: str) -> Member | None:
        """Return a process by its uid, None for one that is not known, or known no more."""
        return self._gangs.get(self._gang_of.get(uid, ""), {}).get(uid)

    def recall(self, member: Member) -> None:
        """Take in a process that its store told of, and that was never seen."""
        if not self.is_known(member.uid):
            self._put(member)

    def miss(self, uids: Iterable[str]) -> None:
        """Note which of the recalled the cluster, asked for them just now, has no pod of."""
        for uid in uids:
            member = self.get(uid)
            if member is not None and member.is_unsought:
                self._put(replace(member, is_unsought=False))

    def look(self, pods: Seen[Pod], nodes: Seen[Node], namespace: str, now_s: float) -> None:
        """Take in what is seen now. Pods that cannot be seen at all change nothing."""
        if not pods.is_known:
            return
        here = set()
        for pod in pods.objects.values():
            if pod.meta.namespace == namespace:
                here.add(pod.meta.uid)
                self._take_in(pod, nodes, now_s)
        hidden = {each.uid for each in pods.unreadable.values()} | pods.unreadable.keys()
        for gang in self._gangs.values():
            for uid, member in gang.items():
                is_hidden = uid in hidden or member.key in hidden
                if not member.is_alive or member.is_unsought or is_hidden:
                    continue
                is_gone = (
                    _has_lost_its_node(member, nodes)
                    if uid in here
                    else _is_confirmed(member, nodes)
                )
                if is_gone:
                    self._put(replace(member, left_s=now_s))
        self._forget()

    def _take_in(self, pod: Pod, nodes: Seen[Node], now_s: float) -> None:
        known = self.get(pod.meta.uid)
        # Whose it is was told when it was first seen. Marks are anybody's to take off, and a
        # process without them runs all the same.
        gang = known.gang if known is not None else _gang_of(pod)
        rank = known.rank if known is not None else rank_of(pod)
        if not gang or rank is None or not pod.node:
            return
        node = nodes.objects.get(pod.node)
        trainer = _trainer(pod)
        is_over = trainer is not None and trainer.state == "terminated"
        ended_s = trainer.finished_s if trainer is not None and is_over else None
        left_s = known.left_s if known is not None else None
        if left_s is None and pod.is_over:
            left_s = ended_s if ended_s is not None else now_s
        member = Member(
            uid=pod.meta.uid,
            key=pod.meta.key,
            gang=gang,
            rank=rank,
            node=pod.node,
            # The one that it was bound to, whatever stands under that name later.
            node_uid=(known.node_uid if known is not None else "")
            or (node.meta.uid if node is not None else ""),
            created_s=pod.meta.created_s or 0.0,
            bound_s=_bound_s(pod),
            exit_code=trainer.exit_code if trainer is not None and is_over else None,
            signal=trainer.signal if trainer is not None and is_over else None,
            left_s=left_s,
            last_words=trainer.message if trainer is not None and is_over else "",
        )
        if member != known:
            self._put(member)

    def _put(self, member: Member) -> None:
        self._gangs.setdefault(member.gang, {})[member.uid] = member
        self._gang_of[member.uid] = member.gang
        if not member.is_alive:
            self._gone[member.uid] = None

    def _forget(self) -> None:
        while len(self._gone) > MAX_GONE:
            del self._gone[next(iter(self._gone))]
        over = [
            gang
            for gang, members in self._gangs.items()
            if not any(each.is_alive for each in members.values())
        ]
        for gang in over[: max(0, len(self._gangs) - MAX_GANGS)]:
            for uid in self._gangs.pop(gang):
                del self._gang_of[uid]


def rank_of(pod: Pod) -> int | None:
    """Return a pod's rank, None for a pod that is no member of a gang."""
    text = pod.meta.annotations.get(names.RANK_ANNOTATION, "")
    is_number = text.isascii() and text.isdigit() and len(text) <= 6
    return int(text) if is_number and int(text) <= MAX_RANK else None


def _gang_of(pod: Pod) -> str:
    """Return the uid of the JobSet of ours that a pod is of, empty for none."""
    labels = pod.meta.labels
    return labels.get(names.GANG_UID, "") if labels.get(names.MANAGED_BY) == names.MANAGER else ""


def _trainer(pod: Pod) -> ContainerState | None:
    return next((one for one in pod.containers if one.name == TRAIN and not one.is_init), None)


def _bound_s(pod: Pod) -> float | None:
    said = find(pod.conditions, "PodScheduled")
    return said.since_s if said is not None and said.status is True else None


def _has_lost_its_node(member: Member, nodes: Seen[Node]) -> bool:
    """Whether the node that was seen under a member is no more, or is another one now."""
    if not (member.node_uid and nodes.is_known) or member.node in nodes.unreadable:
        return False
    node = nodes.objects.get(member.node)
    return node is None or node.meta.uid != member.node_uid


def _is_confirmed(member: Member, nodes: Seen[Node]) -> bool:
    """Whether the end of a pod that is no more was its node's own word, as far as can be seen."""
    # Where nodes are not ours to see the API's word has to do; but a server that starts denies for
    # a while what it showed before, just when machines may be silent.
    was_shown = member.node in nodes.objects
    if (nodes.is_denied and not was_shown) or member.node in nodes.unreadable:
        return True
    if not nodes.is_known:
        return False  # it will be seen, and may be silent
    node = nodes.objects.get(member.node)
    if node is None or (member.node_uid and node.meta.uid != member.node_uid):
        return True
    return node.is_ready or any(taint.key == OUT_OF_SERVICE for taint in node.taints)
