"""What a cluster's words mean to whoever waits for a gang: the words themselves. Pure.

The rule: a word has one row, and says one thing for ever; its sentence is for an engineer who knows
no Kubernetes; what nobody has a word for is UNKNOWN, shown as it was said, and counted. The rows
are in ``words_queue``, ``words_start`` and ``words_end``, in the order of a gang's life; what makes
the cluster's own words one of ours is in ``hearing`` and its siblings. Read ``Row`` first.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from regions.cluster import Cause

RAW_CHARACTERS = 600
"""Of a cluster's own words as much is passed on; the rest is in the object that is named."""
DETAIL_CHARACTERS = 200
HEARD_CHARACTERS = 8192
"""Of a message no more is looked at: the API server keeps none that is longer for a status."""


class Fault(StrEnum):
    """Whose fault it is; limits are counted by it. NONE: it is nobody's failure."""

    NONE = "NONE"
    USER = "USER"
    TRANSIENT = "TRANSIENT"
    RESOURCE = "RESOURCE"
    ORCHESTRATION = "ORCHESTRATION"


class Deed(StrEnum):
    """What the broker does by itself, as it is told."""

    NOTHING = "Nothing has to be done"
    WAITS = "It waits, and tries elsewhere too when this takes too long"
    MOVES = "It tries elsewhere too, and then gives back what is held here"
    LEAVES = "It takes the gang out of this cluster and tries another place"
    TRIES = (
        "It takes the gang out, counts the try as a failure of the run and tries other places "
        "first; once the run's restarts are spent it ends"
    )
    RESUMES = "It starts the run again from its newest complete checkpoint, wherever it can soonest"
    JUDGES = "It starts the run again from a complete checkpoint, as often as its limits allow"
    ENDS = "It ends the run unless it has a checkpoint and restarts left"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one word means.

    ``cause`` is the port's, by which the broker acts. ``sentence`` is without its period, for a
    detail may follow; ``advice`` is what a person can do, empty when there is nothing.
    """

    cause: Cause
    fault: Fault
    sentence: str
    advice: str
    deed: Deed


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is to be said of a gang.

    ``word`` is the stable reason. ``look_at`` is the object that shows it, as ``kind/name``, for
    the tenth of the cases in which this is not enough. ``raw`` is what the cluster said, cleaned
    and cut. ``unknown`` is empty, or says which of the cluster's words has no row, for a metric.
    ``member`` is the uid of the pod that it is about, empty when it is about all or none.
    ``hindrance`` is why a gang that was put out for being late was that; NONE: it is not known.
    """

    word: str
    cause: Cause
    fault: Fault
    sentence: str
    advice: str
    deed: Deed
    look_at: str
    raw: str
    unknown: str = ""
    member: str = ""
    hindrance: Cause = Cause.NONE


def cleaned(text: str, most: int = RAW_CHARACTERS) -> str:
    """Return a text that can be shown anywhere, cut: one line, nothing that moves a cursor.

    Nor anything that turns the direction of writing, which can make a text read as another.
    """
    cut = text[: 4 * most]
    if not cut.isprintable():
        cut = "".join(one if one.isprintable() else " " for one in cut)
    line = _BLANKS.sub(" ", cut).strip()
    return line if len(line) <= most else line[: most - 3].rstrip() + "..."


_BLANKS = re.compile(r"\s+")
