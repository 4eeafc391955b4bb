"""Which of our gangs their cluster put out, and how long that is what is said of them. Pure.

The rule: an eviction ends a placement, whatever its cluster does with it afterwards. Yet a gang
that was let in again and never started waits like any other until it is removed, and is told so;
and one that starts then, with processes that came after, has its eviction behind it: nothing that
befalls it later is explained by that. Read ``PutOut.judge`` first.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from regions.cluster import OwnerState
from regions.kueue.explanation import Evidence
from regions.kueue.members import Member
from regions.kueue.vocabulary import Word
from regions.kueue.words import Verdict
from regions.kueue.words_start import START_ROWS
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
        members: Iterable[Member],
        starters: Collection[str] | None,
    ) -> Verdict | None:
        """Return what is to be said of a gang instead of ``said``, None for just that.

        ``starters`` are the processes by which it started, as far as they are known; None: it has
        not started.
        """
        workload, uid = evidence.workload, evidence.job_set.meta.uid
        is_evicted = workload is not None and workload.holds("Evicted")
        if is_evicted and said.word != Word.BEING_REMOVED and uid not in self._known:
            own = frozenset(one.uid for one in members)
            self._known[uid] = _Eviction(said=said, members=own)
        known = self._known.get(uid)
        if known is None:
            return None
        if starters and known.members.isdisjoint(starters):
            del self._known[uid]
            return None
        if starters is None and _is_on_its_way(evidence, said):
            return None
        return known.said

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


def _is_on_its_way(evidence: Evidence, said: Verdict) -> bool:
    """Whether a gang was let in again, and nothing that is said of it is an end."""
    workload = evidence.workload
    is_in = workload is not None and workload.holds("Admitted") and not workload.holds("Evicted")
    return is_in and not evidence.job_set.is_suspended and said.word in START_ROWS
