"""What a cluster shows of its capacity: queues, flavors, and what was learned of them.

The rule: unknown is None and never zero. Read ``FlavorSeen`` first.
"""

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSeen:
    """What ops lay over every gang of a flavor: its name, and a sentence for each thing it opens.

    ``is_restricted``: a namespace under the pod security standard ``restricted`` admits it.
    ``parts``: of each thing that it lays over a gang what it is, and which; no value of a variable.
    """

    name: str
    widens: tuple[str, ...]
    is_restricted: bool
    parts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomSeen:
    """How many ranks with so many ``accelerators`` each fit now in a zone, each on one node.

    ``zone`` is empty of nodes that do not say where they stand. ``ranks_close``: how many of them
    fit on machines that stand as close as a gang can require it; None: that is not known.
    """

    zone: str
    accelerators: int
    ranks: int
    ranks_close: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorSeen:
    """One flavor of one queue. Quota in GPUs, nodes in nodes; None was not seen.

    ``parked`` is what is reserved and not used: by those who have their quota and wait for more.
    ``free``: what could be reserved now without preempting anybody; ``most``: what one gang could
    ever get, were nothing in use. None: both follow from the other figures.
    ``eta_s``: in how many seconds capacity that is booked now would come, as the cluster says;
    None: it names no time. ``max_run_s``: how long a node stays; None: until it is given back.
    ``profile`` None: the cluster knows none.
    ``room``: what fits on its nodes now, by zone and by size; a whole node is the largest size, and
    what does not fit is left out. None: not seen.
    ``not_close``: why no gang can be held to machines of it that stand close together; empty: it
    can, or nobody knows. ``cloud_gpus``: how many GPUs of its kind the cloud lets the project have
    at once, in use or not; None: nobody tells.
    """

    flavor: str
    accelerator: str
    accelerators_per_node: int
    capacity_type: str  # RESERVED, ON_DEMAND, SPOT, FLEX
    zones: tuple[str, ...]
    price_per_gpu_hour: Decimal | None
    nominal: int | None
    reserved: int | None
    used: int | None
    parked: int | None
    borrowable: int | None
    nodes_free: int | None
    nodes_coming: int | None
    max_nodes: int | None
    startup_s: float | None
    preemption_notice_s: float | None
    eta_s: float | None = None
    max_run_s: float | None = None
    free: int | None = None
    most: int | None = None
    profile: ProfileSeen | None = None
    room: tuple[RoomSeen, ...] | None = None
    not_close: str = ""
    cloud_gpus: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSeen:
    """One LocalQueue that the broker may use, and what waits in it (everybody's)."""

    queue: str
    is_stopped: bool
    pending: int | None
    pending_gpus: int | None
    flavors: tuple[FlavorSeen, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalSeen:
    """One observation about capacity; ``age_s`` is how long ago at ``seen_at_s``.

    ``chance``: of an advice, how likely capacity is to be had, 0 to 1; None for what happened.
    """

    queue: str
    flavor: str
    kind: str  # broker.model.capacity.SignalKind's words
    age_s: float
    source: str
    detail: str
    gpus: int
    wait_s: float | None
    serial: int  # grows by one per signal of this cluster's life; for telling new from known
    chance: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSeen:
    """One thing that is known of a flavor's capacity and is no event, in words, and from where.

    ``age_s`` is how long ago ``source`` said so, at ``seen_at_s``. ``is_of_gang``: it was said of a
    gang or of what it runs on, and may hold its name.
    """

    queue: str
    flavor: str
    what: str
    words: str
    source: str
    age_s: float
    is_of_gang: bool = False
