"""Who caused an event: a user, ops, the broker's own loops, or a cluster's facts."""

from dataclasses import dataclass
from enum import StrEnum


class ActorKind(StrEnum):
    """The kinds of actors that events name."""

    USER = "USER"
    OPS = "OPS"
    BROKER = "BROKER"
    CLUSTER = "CLUSTER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """One actor: who decided.

    ``name`` is a user name, an agent ("placer", "policy", "reaper") or a cluster name.
    """

    kind: ActorKind
    name: str
