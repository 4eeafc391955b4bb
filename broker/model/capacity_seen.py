"""What is known of a cluster's capacity beside its figures, for people: as of the last look.

The rule: nothing here is decided on, and each thing has its source and its time. Times are broker
seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from broker.model.capacity import FlavorKey
from broker.model.reasons import FailureClass


@dataclass(frozen=True, slots=True, kw_only=True)
class PodProfile:
    """What ops lay over every gang of a flavor, and a sentence for each thing that it opens.

    ``parts``: of each thing that it lays over a gang what it is, and which.
    """

    name: str
    widens: tuple[str, ...]
    is_restricted: bool
    parts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorSaid:
    """What a cluster says of one flavor beside what offers are made of."""

    profile: PodProfile | None
    parked: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeardSignal:
    """The last of one kind of signal about a flavor, and how many there were of late.

    ``is_unknown``: the broker has no meaning for the word, and goes on without it.
    """

    key: FlavorKey
    kind: str
    count: int
    elapsed_s: float
    source: str
    detail: str
    gpus: int
    wait_s: float | None
    is_unknown: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownThing:
    """One thing that is known of a flavor's capacity, in words, as ``source`` said it then.

    ``is_of_gang``: it was said of a gang, whosever that is.
    """

    key: FlavorKey
    what: str
    words: str
    source: str
    elapsed_s: float
    is_of_gang: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacitySeen:
    """All of it, of one cluster. ``notes`` are sentences for ops."""

    flavors: Mapping[FlavorKey, FlavorSaid] = field(default_factory=dict)
    signals: tuple[HeardSignal, ...] = ()
    known: tuple[KnownThing, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterWord:
    """What the words of a placement's cluster mean.

    ``word`` is stable, ``failure`` whose fault it is (None: nobody's), ``deed`` what the broker
    does by itself, ``advice`` what a person can do, ``look_at`` the object that shows it.
    ``is_unknown``: there is no word for ``raw``, which is what the cluster said. ``last_lines`` are
    what the process that it is about printed last, a few kilobytes at most; empty: nobody kept it.
    """

    word: str
    failure: FailureClass | None
    deed: str
    advice: str
    look_at: str
    raw: str
    is_unknown: bool
    last_lines: str = ""
