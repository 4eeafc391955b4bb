"""Gangs that completed, of which nothing is new: they are shown as they were. Pure.

The rule: what is said of such a gang is changed by news of it and never by time, so that its
objects are heard again only when one of them is another one. Those that failed are not among them:
what became of their machines since is still to be told. Read ``AtRest.find`` first.
"""

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from operator import attrgetter

from regions.cluster import PlacementSeen, Stage
from regions.kueue.explanation import Evidence
from regions.kueue.machine_times import history
from regions.kueue.members import Member
from regions.kueue.vocabulary import Word
from regions.kueue.words import Verdict

_PASSING = frozenset({"now_s", "nodes", "local_queue", "cluster_queue"})
"""What changes all the time and says nothing of a gang that completed."""
_HEARD = attrgetter(*(each.name for each in fields(Evidence) if each.name not in _PASSING))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rest:
    """What a gang was shown as, and all that this was worked out from."""

    heard: tuple[object, ...]
    members: tuple[Member, ...]
    seen: PlacementSeen
    said: Verdict


class AtRest:
    """The gangs at rest, by placement."""

    def __init__(self) -> None:
        self._known: dict[str, _Rest] = {}

    def find(
        self, placement: str, evidence: Evidence, members: tuple[Member, ...]
    ) -> tuple[PlacementSeen, Verdict] | None:
        """Return what is shown of a gang at rest, and said; None when something of it is new."""
        known = self._known.get(placement)
        # Objects that did not change are the same ones, and not compared field by field.
        if known is None or (known.members, known.heard) != (members, _HEARD(evidence)):
            return None
        if not known.seen.history:
            return known.seen, known.said
        # Only how long ago its machines came and went grows by itself.
        return replace(known.seen, history=history(members, evidence.now_s)), known.said

    def take_in(
        self, evidence: Evidence, members: tuple[Member, ...], seen: PlacementSeen, said: Verdict
    ) -> None:
        """Take note of how a gang was shown, if it is at rest."""
        if _is_at_rest(evidence, seen, said):
            self._known[seen.placement] = _Rest(
                heard=_HEARD(evidence), members=members, seen=seen, said=said
            )

    def keep(self, placements: Collection[str]) -> None:
        """Forget all gangs but these."""
        self._known = {name: known for name, known in self._known.items() if name in placements}


def _is_at_rest(evidence: Evidence, seen: PlacementSeen, said: Verdict) -> bool:
    workload = evidence.workload
    is_over = seen.stage is Stage.ENDED and said.word == Word.COMPLETED
    # One that was ever put out, or waits for a request, has more to it than its own end.
    is_plain = workload is not None and not workload.holds("Evicted") and not evidence.requests
    return is_over and is_plain and evidence.job_set.meta.deleting_s is None
