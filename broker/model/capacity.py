"""What is known of clusters, queues and flavors, and the offers made from it.

Unknown is None, never zero. These are the broker's nouns; ``loops/translate.py`` makes them from
what a cluster's port reports.
"""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from broker.model.intent import CapacityType, HardwareOption, TopologyWish
from broker.model.preparing import Preparation
from broker.model.reasons import Reason


class SignalKind(StrEnum):
    """One observation about capacity."""

    STOCKOUT = "STOCKOUT"
    PARTIAL = "PARTIAL"
    NODES_CAME = "NODES_CAME"
    ADMITTED = "ADMITTED"
    STARTED = "STARTED"
    PREEMPTED = "PREEMPTED"
    QUOTA_REFUSED = "QUOTA_REFUSED"  # a queue's: it can never take what was asked for
    CLOUD_QUOTA = "CLOUD_QUOTA"  # the project's own in its cloud: it is spent
    NODE_LOST = "NODE_LOST"
    REFUSED = "REFUSED"
    ADVISED = "ADVISED"


class Certainty(StrEnum):
    """How well the capacity of an offer is known."""

    NODES_FREE = "NODES_FREE"
    BOOKED = "BOOKED"
    QUOTA_ONLY = "QUOTA_ONLY"
    UNKNOWN = "UNKNOWN"


class Comparison(StrEnum):
    """Why an offer stands where it does among those of a run."""

    BEST = "BEST"
    DEARER = "DEARER"
    LATER = "LATER"
    CONTENT = "CONTENT"
    LESS_PREFERRED = "LESS_PREFERRED"
    LESS_WEIGHT = "LESS_WEIGHT"
    CROWDED = "CROWDED"
    LOT = "LOT"
    HELD_BACK = "HELD_BACK"
    LAST_RESORT = "LAST_RESORT"


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class FlavorKey:
    """One kind of machine in one queue of one cluster: where a signal belongs."""

    cluster: str
    queue: str
    flavor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One observation about capacity, at broker time ``elapsed_s``, from ``source``.

    ``chance``: of an advice, how likely machines are to be had, 0 to 1.
    """

    key: FlavorKey
    kind: SignalKind
    elapsed_s: float
    source: str
    detail: str = ""
    gpus: int = 0
    wait_s: float | None = None
    chance: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeRoom:
    """How many ranks with so many ``accelerators`` each fit now in a zone, each on one node.

    ``ranks_close``: how many of them where a gang that requires it stands close together; None:
    that is not known.
    """

    zone: str
    accelerators: int
    ranks: int
    ranks_close: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorFacts:
    """One flavor in one queue. Counts are GPUs unless they say nodes; None means not seen.

    ``eta_s`` is the cluster's own word on when booked capacity comes, from when it was seen.
    ``free`` is the quota that a new gang could reserve and ``most`` what one could ever get, where
    the cluster tells them: others may have borrowed what is nominally a queue's own, and may give
    back what is not for anybody now.
    ``room`` is what fits on its nodes now by zone and by size, None where that is not told.
    ``max_run_s`` bounds how long a node stays (flex); None means until it is given back.
    ``keeps_secrets``: whether its cluster can show a gang a secret by its name.
    ``not_close``: why no gang can be held to machines that stand close together, in words; empty:
    it can, or nobody knows. ``cloud_gpus``: how many GPUs of its kind the project may have at once.
    """

    key: FlavorKey
    region: str
    accelerator: str
    accelerators_per_node: int
    capacity_type: CapacityType
    zones: tuple[str, ...]
    price_per_gpu_hour: Decimal | None
    nominal: int | None
    reserved: int | None
    used: int | None
    borrowable: int | None
    pending_ahead_gpus: int | None
    pending_ahead: int | None
    nodes_free: int | None
    nodes_coming: int | None
    max_nodes: int | None
    startup_s: float | None
    keeps_secrets: bool
    preemption_notice_s: float | None = None
    eta_s: float | None = None
    max_run_s: float | None = None
    free: int | None = None
    most: int | None = None
    room: tuple[FreeRoom, ...] | None = None
    not_close: str = ""
    cloud_gpus: int | None = None

    def ranks_free(self, option: HardwareOption) -> int | None:
        """Return how many ranks of a gang could stand on nodes that are free; None when unknown.

        Ranks that have to stand close together stand in one zone at least, and as close as the
        cluster tells.
        """
        if self.room is None:
            return self.nodes_free
        is_close = option.topology is TopologyWish.REQUIRED
        by_zone: dict[str, int] = {}
        for each in self.room:
            if each.accelerators >= option.accelerators_per_node:
                is_told = is_close and each.ranks_close is not None
                ranks = (each.ranks_close or 0) if is_told else each.ranks
                by_zone[each.zone] = max(by_zone.get(each.zone, 0), ranks)
        return max(by_zone.values(), default=0) if is_close else sum(by_zone.values())

    @property
    def headroom(self) -> int | None:
        """GPUs of quota that a new gang could still reserve; None when unknown."""
        if self.free is not None:
            return self.free
        if self.nominal is None or self.reserved is None:
            return None
        return max(0, self.nominal + (self.borrowable or 0) - self.reserved)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """One cluster as last seen. ``seen_elapsed_s`` None: not once since the broker began.

    ``is_configured`` False: it was taken out of the configuration while runs have something there.
    ``doubt`` is why what answers as its store is not believed, a reason and a sentence, or None.
    ``silence`` is why it does not answer, in the words of whoever asked it; empty: nobody says.
    """

    cluster: str
    region: str
    is_reachable: bool
    is_store_reachable: bool
    seen_elapsed_s: float | None
    silent_since_elapsed_s: float | None
    flavors: tuple[FlavorFacts, ...]
    stopped_queues: frozenset[str]
    blind: tuple[str, ...]
    is_configured: bool = True
    doubt: tuple[Reason, str] | None = None
    silence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """A distribution of the time to start: quantiles in seconds, None for "not foreseeable".

    ``chance`` is the probability of a start within the run's remaining wait, 0 to 1; ``basis``
    says in words where it comes from.
    """

    p50_s: float | None
    p90_s: float | None
    chance: float
    certainty: Certainty
    basis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One place a run could start: where, on what, at what price, how soon.

    ``failed_s`` is how long ago it failed this very run, by giving it no nodes or by lacking what
    its user has to bring, with no newer evidence that it now would not; None where that is not so.
    Such a place is a last resort.
    """

    key: FlavorKey
    region: str
    capacity_type: CapacityType
    hardware_index: int
    nodes: int
    gpus: int
    price_per_gpu_hour: Decimal
    forecast: Forecast
    preparation: Preparation
    score: float
    failed_s: float | None = None

    @property
    def price_per_hour(self) -> Decimal:
        """US dollars per hour of the whole gang."""
        return self.price_per_gpu_hour * self.gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why one flavor is no offer for one run: a reason, a sentence, and what would change it."""

    key: FlavorKey
    region: str
    capacity_type: CapacityType
    hardware_index: int
    reason: Reason
    message: str
