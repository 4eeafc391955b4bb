"""Checkpoints and the seals that decide which of them count."""

from dataclasses import dataclass

STEP_MAX = 2**53  # beyond it a number is no longer whole in every reader of JSON


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class EpochId:
    """A start: its number within the run and the grant's nonce, so that two starts never mix."""

    number: int
    nonce: str

    @property
    def folder(self) -> str:
        """The epoch's directory in a store, ``e000001-<nonce>``."""
        return f"e{self.number:06d}-{self.nonce}"


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class CheckpointRef:
    """One checkpoint of one epoch. ``digest`` is the sha256 of its manifest, hexadecimal.

    ``run_uid`` names the run whose folder holds it when that is another one, as for the seed of a
    fork; empty is the run itself.
    """

    epoch: EpochId
    step: int
    digest: str
    run_uid: str = ""

    @property
    def is_own(self) -> bool:
        """Whether the run that refers to it also wrote it."""
        return self.run_uid == ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedCheckpoint:
    """What an epoch saved whose marker is there and does not hold, and why."""

    epoch: EpochId
    step: int
    region: str
    why: str
    wall_s: float


# A hold is said before its fork is made: for so long it counts whatever the fork looks like.
HOLD_COMES_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A fork that begins with a checkpoint: its name, and when it was said (broker seconds)."""

    fork: str
    since_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What the run knows of one complete checkpoint.

    ``regions`` hold a verified copy, ``home`` is where it was written. A sealed checkpoint counts
    for resumes; an unsealed one belongs to the open epoch, or never counted. ``holds`` are of the
    forks that were begun with it; whether one still needs it, retention asks of the fork.
    ``lost_in`` are the regions whose copy was found to be gone or damaged, and not made again.
    """

    ref: CheckpointRef
    size_bytes: int
    home: str
    written_wall_s: float
    regions: frozenset[str]
    is_sealed: bool = False
    is_bad: bool = False
    is_pinned: bool = False
    label: str = ""
    holds: tuple[Hold, ...] = ()
    lost_in: frozenset[str] = frozenset()

    @property
    def is_lost(self) -> bool:
        """Whether there were copies of it, and each was looked for in vain.

        One that only a grant told of after a restore has no known copy either, and is not lost.
        """
        return not self.regions and bool(self.lost_in)
