"""One thing that ``doctor`` looked at."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What was looked at, and what was found."""

    what: str
    is_well: bool
    said: str
