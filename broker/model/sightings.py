"""What the loops see and no event holds: copies under way, strangers in clusters, files.

The rule: these are answers to people's questions as of now; nothing is decided on them. Unknown
is None.
"""

from dataclasses import dataclass

from broker.model.copying import CopySpend


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """How far one region is behind a run's newest complete checkpoint.

    ``step`` is the newest that is complete and verified there, None for none. ``behind_s`` is the
    time between the writing of its step and of the newest. ``copying_step`` is on its way;
    ``copy_bytes_per_s`` is how fast copies came into the region of late, None where none did.
    ``spend`` is what copies of the run's checkpoints into it were so far, None where none came.
    """

    region: str
    step: int | None
    behind_steps: int
    behind_bytes: int
    behind_s: float
    copying_step: int | None = None
    copied_bytes: int = 0
    copying_bytes: int = 0
    copy_bytes_per_s: float | None = None
    message: str = ""
    is_reachable: bool = True
    spend: CopySpend | None = None

    @property
    def left_s(self) -> float | None:
        """How long what is on its way still takes, None when nothing is, or nobody knows."""
        if self.copying_step is None or not self.copy_bytes_per_s:
            return None
        return max(0, self.copying_bytes - self.copied_bytes) / self.copy_bytes_per_s


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
