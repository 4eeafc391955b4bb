"""Where checkpoints lie: ``runs/<run_key>/<epoch>/checkpoints/step-<n>/`` in every region.

The epoch's name holds its number and its grant's nonce, so two starts never share a path. Read
``CheckpointPath`` first.
"""

import re
from dataclasses import dataclass

from replicator.errors import NameRefused
from replicator.stores.names import checked

# A step is written without leading zeros: step-7 and step-007 would be two places for one step.
_STEP = re.compile(r"step-(0|[1-9][0-9]{0,17})\Z", re.ASCII)
_SEGMENTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPath:
    """One checkpoint's place in a store. ``run_key`` and ``epoch`` are single safe segments."""

    run_key: str
    epoch: str
    step: int

    def __post_init__(self) -> None:
        epoch_prefix(self.run_key, self.epoch)
        if self.step < 0:
            raise NameRefused(f"step {self.step}", "a step is not negative")

    @property
    def prefix(self) -> str:
        """The path with its closing slash, as a store lists it."""
        return f"{epoch_prefix(self.run_key, self.epoch)}step-{self.step}/"

    def __str__(self) -> str:
        return self.prefix

    @classmethod
    def parse(cls, text: str) -> "CheckpointPath":
        """Read a path back, with or without its closing slash. Raises NameRefused."""
        segments = text.removesuffix("/").split("/")
        if len(segments) != _SEGMENTS or segments[0] != "runs" or segments[3] != "checkpoints":
            raise NameRefused(repr(text[:200]), "it is no checkpoint's path")
        step = step_of(segments[4])
        if step is None:
            raise NameRefused(repr(text[:200]), "its last segment is not step-<n>")
        return cls(run_key=segments[1], epoch=segments[2], step=step)


def epoch_prefix(run_key: str, epoch: str) -> str:
    """Return the prefix of an epoch's checkpoints. Raises NameRefused for unsafe segments."""
    for segment in (run_key, epoch):
        if "/" in checked(segment):
            raise NameRefused(repr(segment), "it is more than one segment")
    return f"runs/{run_key}/{epoch}/checkpoints/"


def step_of(segment: str) -> int | None:
    """Return n of ``step-<n>``, None when it is no such segment."""
    found = _STEP.match(segment)
    return int(found[1]) if found else None
