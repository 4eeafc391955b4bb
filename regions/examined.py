"""What a cluster says when it is asked, by a person, whether all that a broker needs is there.

It is beside the port, for not every cluster has anything to say of itself that a look does not.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was asked. ``mend`` says what whoever looks after the cluster can do."""

    what: str
    is_well: bool
    said: str
    mend: str = ""


@runtime_checkable
class Examined(Protocol):
    """A cluster that can be asked."""

    async def examine(self) -> tuple[Finding, ...]:
        """Ask what is there and what is missing; it changes nothing and raises nothing."""
        ...
