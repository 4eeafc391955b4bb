"""The preconditions of the API: what a call says must be so, or must not be.

Generation 0 means that there is no live object. Read ``judge``.
"""

from collections.abc import Mapping
from typing import Any, Protocol


class Refused(Exception):
    """The answer is an error of the API."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message


class Numbered(Protocol):
    """What conditions look at."""

    @property
    def generation(self) -> int: ...

    @property
    def metageneration(self) -> int: ...


def judge(
    found: Numbered | None, query: Mapping[str, Any], *, is_read: bool, source: bool = False
) -> None:
    """Pass, or raise 412; a read that asks for what changed, and nothing did, is 304."""
    prefix = "ifSource" if source else "if"
    generation = found.generation if found else 0
    metageneration = found.metageneration if found else 0
    for kind, number in (("Generation", generation), ("Metageneration", metageneration)):
        wanted = query.get(f"{prefix}{kind}Match")
        if wanted is not None and int(wanted) != number:
            raise _unmet(412, f"{kind}Match")
        # The client spells one of them in its own way in uploads.
        unwanted = query.get(f"{prefix}{kind}NotMatch")
        if unwanted is None and kind == "Metageneration":
            unwanted = query.get(f"{prefix}MetaGenerationNotMatch")
        if unwanted is not None and int(unwanted) == number:
            raise _unmet(304 if is_read else 412, f"{kind}NotMatch")


def _unmet(status: int, which: str) -> Refused:
    message = f"At least one of the pre-conditions you specified did not hold: {which}."
    return Refused(status, "conditionNotMet", message)
