"""Which of our gangs their cluster put out, and how long that is what is said of them. Pure.

The rule: an eviction ends a placement, whatever its cluster does with it afterwards, and whoever
looked: a Workload that was let in again says that it was put out before. Only a gang that started
then, with processes that came after, has its eviction behind it: it counts, and nothing that
befalls it later is explained by that. Read ``PutOut.judge`` first, then ``PutOut.is_to_go``.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from regions.cluster import OwnerState
from regions.kueue import queue_hearing
from regions.kueue.explanation import Evidence, verdict
from regions.kueue.hindrance import told_with
from regions.kueue.members import Member
from regions.kueue.objects import kinds
from regions.kueue.objects.meta import find
from regions.kueue.objects.workload import Workload
from regions.kueue.vocabulary import Word
from regions.kueue.words import Verdict
from regions.store_eye import Look


@dataclass(frozen=True, slots=True, kw_only=True)
class _Eviction:
    """What was said when a gang was put out, and its processes until then, by uid."""

    said: Verdict
    members: frozenset[str]


class PutOut:
    """The gangs that were put out, by their uid."""

    def __init__(self) -> None:
        self._known: dict[str, _Eviction] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._known

    def judge(
        self,
        evidence: Evidence,
        said: Verdict,
        members: Collection[Member],
        starters: Collection[str] | None,
        *,
        before: Verdict | None = None,
    ) -> Verdict | None:
        """Return what is to be said of a gang instead of ``said``, None for just that.

        ``starters`` are the processes by which it started, as far as they are known; None: it has
        not started. ``before`` is what was said of it last, None for nothing.
        """
        uid = evidence.job_set.meta.uid
        if uid not in self._known and said.word != Word.BEING_REMOVED:
            found = _eviction(evidence.workload, said, members)
            if found is not None:
                own = [one for one in members if one.uid in found.members]
                late = told_with(found.said, evidence, own, before)
                self._known[uid] = replace(found, said=late)
        known = self._known.get(uid)
        if known is None:
            return None
        if starters and known.members.isdisjoint(starters):
            del self._known[uid]
            return None
        return known.said

    def is_to_go(
        self,
        evidence: Evidence,
        members: Iterable[Member],
        starters: Collection[str] | None,
        *,
        is_read: bool,
    ) -> bool:
        """Whether a gang is to be removed because it was put out.

        It goes once nothing of it runs, and it waits again. One that was let in again before
        anybody saw that goes, too: its processes would stand at a gate at which nobody expects
        them, and hold machines for it. It is left alone while what began before may still save, and
        while it is not known whether it started: ``is_read`` says that its store just told.
        """
        gang, workload = evidence.job_set, evidence.workload
        known = self._known.get(gang.meta.uid)
        if known is None or gang.meta.deleting_s is not None:
            return False
        if gang.is_suspended:
            is_quiet = not evidence.pods and not any(one.is_alive for one in members)
            return is_quiet and kinds.PODS.plural not in evidence.unseen
        if workload is None or not workload.holds("Admitted") or workload.holds("Evicted"):
            return False
        if gang.terminal_state or not is_read:
            return False
        is_saving = any(one.is_alive for one in members if one.uid in known.members)
        return starters is None or (bool(starters) and not is_saving)

    def keep(self, uids: Collection[str]) -> None:
        """Forget all gangs but these."""
        self._known = {uid: known for uid, known in self._known.items() if uid in uids}


def starters(look: Look) -> dict[str, frozenset[str]]:
    """Return the processes by which each placement started that has, as its store knows them."""
    found = {}
    for key, epoch in look.epochs.items():
        if epoch.owner is OwnerState.STARTED:
            run = look.runs.get(key.run_key)
            in_store = run.placements.get(epoch.placement) if run is not None else None
            gates = [one.gate for one in in_store.watch.sightings] if in_store is not None else []
            listed = (gate.member for gate in gates if gate.nonce in epoch.nonces)
            found[epoch.placement] = frozenset(filter(None, listed))
    return found


def is_read(look: Look, run_key: str) -> bool:
    """Whether a look tells all that the store has of a run."""
    return not look.trouble and run_key in look.runs and run_key not in look.unread


def _eviction(
    workload: Workload | None, said: Verdict, members: Iterable[Member]
) -> _Eviction | None:
    """Return the eviction that a Workload tells of, None for none."""
    if workload is None:
        return None
    if workload.holds("Evicted"):
        return _Eviction(said=said, members=frozenset(one.uid for one in members))
    heard = queue_hearing.of_former_eviction(workload)
    if heard is None:
        return None
    # It ceased to be put out when it got its quota again: what was there before is of the former.
    ceased = find(workload.conditions, "Evicted")
    since_s = ceased.since_s if ceased is not None and ceased.since_s is not None else 0.0
    former = frozenset(one.uid for one in members if one.created_s < since_s)
    return _Eviction(said=verdict(heard), members=former)
