"""What can be made to go wrong in an embedded cluster, on demand or by schedule.

The rule: a fault changes the world that the cluster lives in (stock, nodes, others' jobs, the
socket), never the cluster's rules. Each value is one tagged JSON object.
"""

from typing import Annotated

from msgspec import Meta, Struct

Duration = Annotated[float, Meta(ge=0, le=1_000_000)]


class _Base(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """What all faults share: they are values, told apart by ``kind``."""


class Stockout(_Base, tag="stockout", frozen=True, kw_only=True):
    """No further node of the flavor can be bought."""

    flavor: str


class Partial(_Base, tag="partial", frozen=True, kw_only=True):
    """Only ``nodes`` more of the flavor can be bought; the rest is out of stock."""

    flavor: str
    nodes: Annotated[int, Meta(ge=0, le=100_000)]


class Restore(_Base, tag="restore", frozen=True, kw_only=True):
    """Undo stockouts, partial arrivals and silent requests of one flavor or all of them, and with
    no flavor named also held queues, an outage and slow answers."""

    flavor: str = ""


class Preempt(_Base, tag="preempt", frozen=True, kw_only=True):
    """Take nodes away: those of a placement, or ``nodes`` of a flavor (None: all that are used).

    ``notice_s`` None: the flavor's own notice. Zero: without a word.
    """

    placement: str = ""
    flavor: str = ""
    nodes: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    notice_s: Duration | None = None


class NodeLost(_Base, tag="node_lost", frozen=True, kw_only=True):
    """The node of one rank of a placement dies without a word."""

    placement: str
    rank: Annotated[int, Meta(ge=0)] = 0


class Recreate(_Base, tag="recreate", frozen=True, kw_only=True):
    """Evict a placement's gang and create it again with new members, as clusters do by
    themselves."""

    placement: str


class Evict(_Base, tag="evict", frozen=True, kw_only=True):
    """End a placement because somebody with a better right wants its quota."""

    placement: str


class FlexSilent(_Base, tag="flex_silent", frozen=True, kw_only=True):
    """Requests for capacity of a FLEX flavor get no answer: none is refused and none comes."""

    flavor: str


class FlexFails(_Base, tag="flex_fails", frozen=True, kw_only=True):
    """The cloud cannot give a placement the flex capacity that it waits for."""

    placement: str


class FlexExpires(_Base, tag="flex_expires", frozen=True, kw_only=True):
    """A placement's booking came, and is given up before its gang stands."""

    placement: str


class FlexRevoked(_Base, tag="flex_revoked", frozen=True, kw_only=True):
    """The cloud takes back the flex capacity that a placement has, also while its gang runs."""

    placement: str


class Fill(_Base, tag="fill", frozen=True, kw_only=True):
    """A job of others enters a queue, and holds quota and nodes for ``duration_s`` once
    admitted."""

    queue: str
    flavor: str
    gpus: Annotated[int, Meta(ge=1, le=1_000_000)]
    duration_s: Duration
    priority: int = 0


class Hold(_Base, tag="hold", frozen=True, kw_only=True):
    """A queue admits nobody until it is let go on."""

    queue: str
    is_held: bool = True


class Outage(_Base, tag="outage", frozen=True, kw_only=True):
    """The socket answers nothing but faults for ``duration_s``; gangs do not notice."""

    duration_s: Duration


class Slow(_Base, tag="slow", frozen=True, kw_only=True):
    """Every answer takes ``delay_ms`` longer."""

    delay_ms: Annotated[int, Meta(ge=0, le=600_000)]


FlexStrike = FlexFails | FlexExpires | FlexRevoked
WorldFault = (
    Stockout
    | Partial
    | Preempt
    | NodeLost
    | Recreate
    | Evict
    | Fill
    | Hold
    | FlexSilent
    | FlexStrike
)
SocketFault = Outage | Slow
Fault = WorldFault | SocketFault | Restore
