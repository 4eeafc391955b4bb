"""What a start at a place takes before the run goes on from where it was: bytes, time and money.

The rule: nothing of it is a start from nothing. A run that has saved goes on from its newest
checkpoint, there or copied, or from an older one that stands there already.
"""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum


class ResumeFrom(StrEnum):
    """What a start at a place would go on from."""

    NOTHING = "NOTHING"  # the run has saved nothing, and begins
    NEWEST_HERE = "NEWEST_HERE"  # its newest checkpoint stands there
    NEWEST_COPIED = "NEWEST_COPIED"  # it is copied there, and waited for
    OLDER_HERE = "OLDER_HERE"  # one before it stands there, and what lies between is done again


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """What a start at a place takes first. Money is US dollars.

    ``resume_step`` None: from the beginning. The bytes are those that are not there yet; a bundle
    has some tens of megabytes. ``saved_s`` is how long bundle and checkpoint are on their way,
    ``image_s`` how long the image is. ``redone_s`` is training that is done once more, and
    ``redone_usd`` what the gang costs meanwhile. ``doubt``: why ``egress_usd`` is a guess.
    """

    resume: ResumeFrom
    resume_step: int | None = None
    checkpoint_bytes: int = 0
    image_bytes: int = 0
    has_bundle_to_come: bool = False
    saved_s: float = 0.0
    image_s: float = 0.0
    checkpoint_usd: Decimal = Decimal(0)
    image_usd: Decimal = Decimal(0)
    redone_s: float = 0.0
    redone_usd: Decimal = Decimal(0)
    doubt: str = ""

    @property
    def wait_s(self) -> float:
        """How long all of it is on its way, in seconds."""
        return self.saved_s + self.image_s

    @property
    def egress_usd(self) -> Decimal:
        """What leaves other regions for it costs."""
        return self.checkpoint_usd + self.image_usd

    @property
    def usd(self) -> Decimal:
        """What it costs."""
        return self.egress_usd + self.redone_usd
