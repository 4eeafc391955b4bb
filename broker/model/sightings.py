"""What the loops see and no event holds: copies under way, strangers in clusters, files.

The rule: these are answers to people's questions as of now; nothing is decided on them. Unknown
is None.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """How far one region is behind a run's newest complete checkpoint.

    ``step`` is the newest that is complete and verified there, None for none. ``behind_s`` is the
    time between the writing of its step and of the newest. ``copying_step`` is on its way.
    """

    region: str
    step: int | None
    behind_steps: int
    behind_bytes: int
    behind_s: float
    copying_step: int | None = None
    copied_bytes: int = 0
    copying_bytes: int = 0
    message: str = ""
    is_reachable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """Something in a cluster that looks like ours and belongs to no run (law 10).

    ``is_ours``: it carries the mark of this broker's log.
    """

    cluster: str
    object: str
    message: str
    since_wall_s: float
    is_ours: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFile:
    """One file of a checkpoint: its path within it, its size, its sha256 in hexadecimal."""

    path: str
    size_bytes: int
    sha256: str
