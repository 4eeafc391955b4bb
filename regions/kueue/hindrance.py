"""What kept a gang from starting, once its cluster has put it out for not starting in time. Pure.

The rule: who puts a gang out says that it was late, and not why; what was in its way is told all
the same, whichever of the two was seen first. It is what is said of its pods while they are there,
or was said of it last; machines of which some came, and the rest not within the cluster's time,
tell it too. Read ``told_with``.
"""

from collections.abc import Iterable
from dataclasses import replace

from regions.cluster import Cause
from regions.kueue.explanation import Evidence, start_of, verdict
from regions.kueue.hearing import Heard
from regions.kueue.members import Member
from regions.kueue.vocabulary import Word
from regions.kueue.words import DETAIL_CHARACTERS, Fault, Verdict, cleaned
from regions.kueue.words_start import START_ROWS

_TO_BE_EXPECTED = frozenset({Cause.NONE, Cause.NODES_COMING, Cause.PODS_STARTING})


def told_with(
    said: Verdict, evidence: Evidence, members: Iterable[Member], before: Verdict | None
) -> Verdict:
    """Return a verdict with what was in the gang's way, if it says no more than that it was late.

    ``before`` is what was said of the gang last, None for nothing.
    """
    if said.word != Word.NOT_READY_IN_TIME:
        return said
    found = _hindrance(evidence, members, before)
    if found is None:
        return said
    why = cleaned(f"{found.sentence[:1].lower()}{found.sentence[1:]}", DETAIL_CHARACTERS)
    if found.fault is Fault.USER:
        # Put out again and again it would be nobody's failure, and only its user can mend it.
        said = replace(said, fault=found.fault, deed=found.deed)
    return replace(
        said,
        sentence=f"{said.sentence}: {why}",
        advice=found.advice,
        look_at=found.look_at or said.look_at,
        hindrance=found.cause,
    )


def _hindrance(
    evidence: Evidence, members: Iterable[Member], before: Verdict | None
) -> Verdict | None:
    known = [start_of(evidence), *([before] if before is not None else [])]
    faults = [one for one in known if one.word in START_ROWS and one.fault is not Fault.NONE]
    for one in faults:
        if one.cause not in _TO_BE_EXPECTED:
            return one
    here, wanted = len({one.rank for one in members}), evidence.job_set.members
    if 0 < here < wanted:
        arrived = f"{here} of {wanted} are here"
        return verdict(Heard(word=Word.PARTIAL_ARRIVAL, detail=arrived))
    return next(iter(faults), None)
