"""What the port shows of our gangs, from all that is known of their cluster.

The rule: what a gang is comes from what is there, what became of it also from what was seen before:
a gang that was put out stays put out, one that left is shown as it was last, and none is taken for
gone because it cannot be seen. Read ``Placements.look`` first, then ``stage_of``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from regions.cluster import Cause, PlacementSeen, Stage
from regions.kueue import names
from regions.kueue.at_rest import AtRest
from regions.kueue.end_hearing import FOLLOWS
from regions.kueue.eta import eta_s
from regions.kueue.explanation import Evidence, explain, is_ignored, verdict
from regions.kueue.gate_view import GateView
from regions.kueue.hearing import Heard
from regions.kueue.machine_times import ends_s, history
from regions.kueue.members import Member, Members
from regions.kueue.objects import kinds
from regions.kueue.objects.job_set import JobSet
from regions.kueue.objects.pod import Pod
from regions.kueue.put_out import PutOut, is_read, starters
from regions.kueue.recalling import Recalled
from regions.kueue.scene import Scene
from regions.kueue.telling import sentence, word_seen
from regions.kueue.unstarted import of_launcher
from regions.kueue.vocabulary import Word
from regions.kueue.words import Verdict
from regions.store_eye import Look

MAX_LEFT = 2_000
"""Gangs that are shown although their objects are no more, the newest; whoever has not written
their end down by then finds them absent."""
MAX_LIVES = 10
_ENDS = frozenset({Cause.MEMBER_EXITED, Cause.NODE_LOST, Cause.NODE_PREEMPTED})
OCCUPIED_S = 604_800.0
"""A week."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One gang: as the port shows it, the verdict behind that, and what it rests on, None for what
    is not there. ``is_put_out``: its cluster took its place away, whatever it does with it later;
    ``is_to_go``: its object is to be removed for that. ``has_started``: as its store tells.
    """

    seen: PlacementSeen
    said: Verdict
    evidence: Evidence | None
    is_put_out: bool = False
    is_to_go: bool = False
    has_started: bool = False


class Placements:
    """Our gangs as they were last shown."""

    def __init__(self, fresh_s: float) -> None:
        self._fresh_s = fresh_s
        self._shown: dict[str, Shown] = {}
        self._put_out = PutOut()
        self._lives: dict[str, tuple[str, ...]] = {}
        self._ends: dict[str, Verdict] = {}
        self._at_rest = AtRest()

    @property
    def shown(self) -> Mapping[str, Shown]:
        """What was shown last, by placement."""
        return self._shown

    def look(
        self,
        scene: Scene,
        members: Members,
        look: Look,
        *,
        now_s: float,
        monotonic_s: float,
        missing: Iterable[Recalled] = (),
    ) -> Mapping[str, Shown]:
        """Show all gangs. ``now_s`` is in Unix seconds, ``monotonic_s`` when the store was seen.

        Of ``missing`` processes it is not known whether they run: their gangs are not over.
        """
        gate = GateView(look, monotonic_s, self._fresh_s)
        started, found = starters(look), dict[str, Shown]()
        lost_ones = tuple(missing)
        for lost in lost_ones:
            self._living(lost.placement, lost.member.gang)
        for placement, gang in scene.gangs.items():
            if gang.meta.labels.get(names.PART) == names.OCCUPIED_PART:
                former = self._shown.get(placement)
                # Of the gang that had the name more is known than that the name is taken.
                is_known = former is not None and former.seen.uid != gang.meta.uid
                found[placement] = (
                    self._left(scene, former, members)
                    if former is not None and is_known
                    else _occupied(placement, gang)
                )
                continue
            own = members.of(*self._living(placement, gang.meta.uid))
            evidence = _with_the_gone(scene.evidence(gang, now_s), own)
            starter = started.get(placement)
            one = self._one(scene, placement, evidence, own, started_by=starter)
            is_known = is_read(look, one.seen.run_key)
            seen, said = one.seen, one.said
            if is_known and starter is None:
                seen, said = of_launcher(seen, said)
            found[placement] = replace(
                one,
                said=said,
                seen=gate.joined(seen, gang.members),
                is_to_go=self._put_out.is_to_go(evidence, own, starter, is_read=is_known),
                has_started=starter is not None,
            )
        for placement, before in self._shown.items():
            if placement not in found:
                found[placement] = self._left(scene, before, members)
        for lost in lost_ones:
            if lost.placement not in found:
                found[lost.placement] = self._left(scene, _bereft(lost), members)
        over = [name for name, each in found.items() if name not in scene.gangs and _is_over(each)]
        for name in over[: max(0, len(over) - MAX_LEFT)]:
            del found[name]
        here = {gang.meta.uid for gang in scene.gangs.values()}
        self._put_out.keep(here)
        self._at_rest.keep(scene.gangs.keys())
        self._lives = {name: uids for name, uids in self._lives.items() if name in found}
        self._ends = {uid: said for uid, said in self._ends.items() if uid in here}
        self._shown = found
        return found

    def _living(self, placement: str, uid: str) -> tuple[str, ...]:
        """Return the uids of all objects that a placement was seen to have: whoever made one anew
        under its name did not end the processes of the former."""
        uids = self._lives.get(placement, ())
        if uid not in uids:
            uids = self._lives[placement] = (*uids[1 - MAX_LIVES :], uid)
        return uids

    def _one(
        self,
        scene: Scene,
        placement: str,
        evidence: Evidence,
        members: tuple[Member, ...],
        *,
        started_by: frozenset[str] | None,
    ) -> Shown:
        rested = self._at_rest.find(placement, evidence, members)
        if rested is not None:
            return Shown(seen=rested[0], said=rested[1], evidence=evidence)
        uid, workload = evidence.job_set.meta.uid, evidence.workload
        said = explain(evidence)
        former = self._shown.get(placement)
        before = former.said if former is not None and former.seen.uid == uid else None
        put_out = self._put_out.judge(evidence, said, members, started_by, before=before)
        said = put_out or self._of_end(uid, said)
        stage = stage_of(evidence, members)
        place = scene.place(workload) if stage is Stage.QUEUED else None
        if said.word == Word.NOT_LOOKED_AT_YET and place is not None:
            said = _in_line(said, place[0], evidence)
        if said.cause is Cause.QUOTA_NEVER_FITS:
            place = None  # it may stand in others' way, and no place in a line is its own
        seen = replace(
            _seen(placement, evidence, said, members),
            stage=stage,
            ahead=None if place is None else place[0],
            ahead_gpus=None if place is None else place[1],
        )
        is_put_out = uid in self._put_out
        if not is_put_out:
            self._at_rest.take_in(evidence, members, seen, said)
        return Shown(seen=seen, said=said, evidence=evidence, is_put_out=is_put_out)

    def _of_end(self, uid: str, said: Verdict) -> Verdict:
        """How a gang ended stays known after the pods that told of it were removed.

        Those that are left ended because it did, and what they say is of that alone.
        """
        known = self._ends.get(uid)
        is_first = known is None or known.word in FOLLOWS
        if said.word == Word.GANG_BROKEN or (said.word in FOLLOWS and not is_first):
            return known or said
        if said.cause in _ENDS:
            self._ends[uid] = said
        return said

    def _left(self, scene: Scene, before: Shown, members: Members) -> Shown:
        """What is shown of a gang whose object is not there: if it can be seen that it is not."""
        seen = before.seen
        is_hidden = names.jobset_name(seen.placement) in scene.unreadable
        # One whose marks were taken off is there all the same.
        if not scene.job_sets.is_known or is_hidden or seen.uid in scene.uids:
            return before
        own = members.of(*self._living(seen.placement, seen.uid))
        is_alive = any(one.is_alive for one in own)
        if before.evidence is None and seen.stage is Stage.ENDED and not is_alive:
            return before  # all of it is said
        said = before.said
        is_told = before.is_put_out or said.word == Word.BEING_REMOVED
        if seen.stage is not Stage.ENDED and not is_told:
            said = verdict(Heard(word=Word.BEING_REMOVED))
        was_over = seen.stage is Stage.ENDED
        if is_alive:
            stage = Stage.STANDING if was_over else seen.stage
        else:
            stage = Stage.ENDED if was_over or scene.snapshot.pods.is_known else seen.stage
        seen = replace(
            seen,
            stage=stage,
            cause=said.cause,
            message=sentence(said),
            said=word_seen(said, own),
            members=tuple(one.seen() for one in own),
            nodes_here=sum(one.is_alive for one in own),
            ahead=None,
            ahead_gpus=None,
            standing={},
            is_whole_at_gate=False,
            eta_s=None,
            ends_s=None,
        )
        return Shown(seen=seen, said=said, evidence=None, is_put_out=before.is_put_out)


def stage_of(evidence: Evidence, members: tuple[Member, ...]) -> Stage:
    """Say where a gang stands.

    ENDED is said only of what the cluster will bring no process of any more, and of which every
    process was seen to be gone.
    """
    gang, workload = evidence.job_set, evidence.workload
    is_blind = kinds.PODS.plural in evidence.unseen
    is_alive = any(one.is_alive for one in members)
    is_quiet = not is_blind and not is_alive and all(pod.is_over for pod in evidence.pods)
    if gang.terminal_state and is_quiet:
        return Stage.ENDED
    if is_alive and _is_up(evidence.pods, gang.members):
        return Stage.STANDING
    if workload is not None:
        is_let_in = workload.has_quota and workload.holds("Admitted")
    else:
        is_let_in = kinds.WORKLOADS.plural in evidence.unseen and not gang.is_suspended
    return Stage.PROVISIONING if is_let_in or is_alive else Stage.QUEUED


def to_let_go(shown: Iterable[Shown]) -> tuple[JobSet, ...]:
    """Return the gangs that are to be removed because their cluster put them out."""
    return tuple(
        each.evidence.job_set for each in shown if each.is_to_go and each.evidence is not None
    )


def is_worn_out(gang: JobSet, now_s: float) -> bool:
    """Whether an object that only takes a name has done so for longer than any order is late."""
    is_occupant = gang.meta.labels.get(names.PART) == names.OCCUPIED_PART
    created_s = gang.meta.created_s
    return is_occupant and created_s is not None and now_s - created_s > OCCUPIED_S


def _in_line(said: Verdict, before: int, evidence: Evidence) -> Verdict:
    """Say more of a gang of which nothing is said, by how many stand before it."""
    if before:
        # A strict queue looks at nobody behind its first.
        words = f"{before} stand before it"
        return verdict(Heard(word=Word.WAITING_FOR_QUOTA, detail=words, look_at=said.look_at))
    if is_ignored(evidence):
        return verdict(Heard(word=Word.NOT_TAKEN_UP, look_at=said.look_at))
    return said


def _with_the_gone(evidence: Evidence, members: tuple[Member, ...]) -> Evidence:
    """Return the evidence with what is known of processes that are gone.

    The cluster gives a machine that is no more a minute to come back, and calls its pods running.
    """
    gone = {one.uid for one in members if not one.is_alive}
    if all(pod.is_over or pod.meta.uid not in gone for pod in evidence.pods):
        return evidence
    pods = tuple(
        replace(pod, phase="Failed") if pod.meta.uid in gone and not pod.is_over else pod
        for pod in evidence.pods
    )
    return replace(evidence, pods=pods)


def _seen(
    placement: str, evidence: Evidence, said: Verdict, members: tuple[Member, ...]
) -> PlacementSeen:
    meta = evidence.job_set.meta
    is_exit = said.cause is Cause.MEMBER_EXITED
    return PlacementSeen(
        placement=placement,
        run_key=_run_key(evidence.job_set),
        uid=meta.uid,
        queue=evidence.workload.queue if evidence.workload is not None else _queue(evidence),
        flavor=meta.annotations.get(names.FLAVOR, ""),
        stage=Stage.QUEUED,
        cause=said.cause,
        message=sentence(said),
        ahead=None,
        ahead_gpus=None,
        nodes_here=sum(one.is_alive for one in members),
        nodes_wanted=evidence.job_set.members,
        members=tuple(one.seen() for one in members),
        standing={},
        is_whole_at_gate=False,
        is_granted=False,
        labels=names.read_told(meta.annotations),
        eta_s=eta_s(evidence.requests, evidence.now_s),
        first_exit=said.member if is_exit else "",
        history=history(members, evidence.now_s),
        ends_s=ends_s(evidence),
        said=word_seen(said, members),
    )


def _occupied(placement: str, gang: JobSet) -> Shown:
    said = verdict(Heard(word=Word.BEING_REMOVED))
    taken = "It was withdrawn; its name stays taken."
    seen = _blank(placement, _run_key(gang), gang.meta.uid, Cause.WITHDRAWN, taken)
    labels = names.read_told(gang.meta.annotations)
    return Shown(seen=replace(seen, labels=labels), said=said, evidence=None)


def _blank(placement: str, run_key: str, uid: str, cause: Cause, message: str) -> PlacementSeen:
    """A placement that is over, and of which no more is known than this."""
    return PlacementSeen(
        placement=placement,
        run_key=run_key,
        uid=uid,
        queue="",
        flavor="",
        stage=Stage.ENDED,
        cause=cause,
        message=message,
        ahead=None,
        ahead_gpus=None,
        nodes_here=0,
        nodes_wanted=None,
        members=(),
        standing={},
        is_whole_at_gate=False,
        is_granted=False,
        labels={},
    )


def _bereft(one: Recalled) -> Shown:
    """What is shown of a gang whose object went while nobody looked, and that may run on."""
    member = one.member
    detail = f"its object is gone, and {member.node} does not say that rank {member.rank} is"
    said = verdict(Heard(word=Word.BEING_REMOVED, detail=detail, look_at=f"node/{member.node}"))
    seen = _blank(one.placement, one.run_key, member.gang, said.cause, sentence(said))
    return Shown(seen=replace(seen, stage=Stage.STANDING), said=said, evidence=None)


def _run_key(gang: JobSet) -> str:
    meta = gang.meta
    return meta.annotations.get(names.KEYED) or meta.labels.get(names.RUN_KEY, "")


def _queue(evidence: Evidence) -> str:
    return evidence.local_queue.meta.name if evidence.local_queue is not None else ""


def _is_up(pods: tuple[Pod, ...], wanted: int) -> bool:
    """Whether every process of a gang was started."""
    started = [
        pod
        for pod in pods
        if pod.is_over
        or any(not one.is_init and one.state in ("running", "terminated") for one in pod.containers)
    ]
    return len(started) >= wanted


def _is_over(shown: Shown) -> bool:
    return shown.seen.stage is Stage.ENDED
