"""Which runs need not be looked at in the store at once, because nothing is about to happen there.

The rule: a run is calm only by what is known: of a gang without a process nobody writes, and one
that trains has its start behind it. What its cluster shows anew, or was written for it just now, is
looked at. Read ``Calm.among``.
"""

from collections.abc import Iterable, Mapping

from regions.cluster import ClusterObservation, EpochSeen, OwnerState
from regions.kueue.members import Member, Members
from regions.kueue.objects.job_set import JobSet

STIRRED_S = 1.0
"""How long a run is looked at closely after something was written for it."""


class Calm:
    """Remembers what was known of each gang at the last look."""

    def __init__(self) -> None:
        self._marks: Mapping[str, object] = {}

    def among(
        self,
        gangs: Mapping[str, JobSet],
        run_keys: Mapping[str, str],
        members: Members,
        last: ClusterObservation | None,
        stirred: Iterable[str],
    ) -> frozenset[str]:
        """Return the calm runs of some, which are by their placements, as are the gangs.

        ``last`` is the last look, None before it; for ``stirred`` runs something was just written.
        """
        marks, restless = dict[str, object](), set(stirred)
        epochs = last.epochs.values() if last is not None else ()
        by_placement = {each.placement: each for each in epochs}
        for placement, run_key in run_keys.items():
            gang = gangs[placement]
            own = members.of(gang.meta.uid)
            marks[placement] = (gang.meta.uid, tuple((one.uid, one.is_alive) for one in own))
            is_known = marks[placement] == self._marks.get(placement)
            if not (is_known and _is_calm(own, by_placement.get(placement))):
                restless.add(run_key)
        self._marks = marks
        return frozenset(run_keys.values()) - restless


def _is_calm(members: Iterable[Member], epoch: EpochSeen | None) -> bool:
    if not any(one.is_alive for one in members):
        return True
    if epoch is None or epoch.owner is not OwnerState.STARTED:
        return False
    if epoch.is_drain_written or epoch.is_fence_written:
        return False
    heard = {one.rank for one in epoch.reports if one.is_running}
    heard |= {one.rank for one in epoch.ends} | epoch.gone
    return len(heard) == len(epoch.nonces)
