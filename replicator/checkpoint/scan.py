"""What lies in a store of one epoch's checkpoints: which are complete, and which have a manifest.

A scan says what is there and decides nothing: whether a checkpoint counts is for the seals. One
listing of the epoch, plus the marker or the manifest of each step. Read ``scan`` first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from replicator.checkpoint.formats import (
    MARKERS,
    MAX_MARKER_BYTES,
    READ,
    REPLICA_NAME,
    Complete,
    Format,
    Unfinished,
    judge,
)
from replicator.checkpoint.manifest import MAX_REPLICA_BYTES, Replica, decode_replica
from replicator.checkpoint.paths import CheckpointPath, epoch_prefix, step_of
from replicator.errors import Changed, Incomplete, NotFound, TooLarge
from replicator.stores.port import ContentReader, Entry, Refused, read_small


class Stage(StrEnum):
    """How far a checkpoint's directory has come."""

    PARTIAL = "PARTIAL"  # no marker, or one that does not hold
    COMPLETE = "COMPLETE"  # its marker holds, no manifest vouches for it yet
    ATTESTED = "ATTESTED"  # its manifest is there, with the sizes and generations that lie here


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCheckpoint:
    """One ``step-<n>`` directory. ``why`` is empty but for PARTIAL; ``digest`` only for ATTESTED.

    ``is_marked``: its marker is there and not empty, whether or not it holds.
    ``size_bytes`` counts all its objects; ``modified_s`` is the wall time, in seconds since 1970,
    at which the newest of them was written.
    """

    path: CheckpointPath
    stage: Stage
    is_marked: bool
    why: str
    digest: str | None
    size_bytes: int
    modified_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointScan:
    """All of one epoch, newest step first. ``foreign`` is what no checkpoint directory holds."""

    run_key: str
    epoch: str
    checkpoints: tuple[FoundCheckpoint, ...]
    foreign: tuple[Refused, ...]

    @property
    def newest_complete(self) -> FoundCheckpoint | None:
        """The complete or attested checkpoint of the highest step, None when there is none."""
        return next((one for one in self.checkpoints if one.stage is not Stage.PARTIAL), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """A complete checkpoint's objects as they were in one listing, by relative name."""

    path: CheckpointPath
    complete: Complete


def scan(
    store: ContentReader, run_key: str, epoch: str, checkpoint_format: Format
) -> CheckpointScan:
    """Look at every step of an epoch. Raises StoreError when the store cannot say what it holds."""
    prefix = epoch_prefix(run_key, epoch)
    listing = store.list(prefix)
    foreign: list[Refused] = []
    steps: dict[int, dict[str, Entry]] = {}
    unsafe: dict[int, Refused] = {}
    for entry in listing.entries:
        step, name = _place(entry.name, prefix)
        if step is None:
            foreign.append(Refused(name=entry.name, why="it is in no step-<n> directory"))
        else:
            steps.setdefault(step, {})[name] = entry
    for refused in listing.refused:
        step, _ = _place(refused.name, prefix)
        if step is None:
            foreign.append(refused)
        else:
            unsafe[step] = refused
            steps.setdefault(step, {})
    found = []
    for step in sorted(steps, reverse=True):
        path = CheckpointPath(run_key=run_key, epoch=epoch, step=step)
        found.append(_look(store, path, checkpoint_format, steps[step], unsafe.get(step)))
    return CheckpointScan(
        run_key=run_key, epoch=epoch, checkpoints=tuple(found), foreign=tuple(foreign)
    )


def pin(store: ContentReader, path: CheckpointPath, checkpoint_format: Format) -> Pinned:
    """List a checkpoint and judge it. Raises Incomplete, with why, unless it is complete."""
    listing = store.list(path.prefix)
    if listing.refused:
        refused = listing.refused[0]
        raise Incomplete(str(path), f"{refused.name} is there: {refused.why}")
    entries = {entry.name.removeprefix(path.prefix): entry for entry in listing.entries}
    judged = _judge(store, checkpoint_format, entries)
    if isinstance(judged, Unfinished):
        raise Incomplete(str(path), judged.why)
    return Pinned(path=path, complete=judged)


def matches(replica: Replica, entries: Mapping[str, Entry]) -> bool:
    """Whether every object of the manifest lies there as it was left, by what its store says."""
    return all(
        (entry := entries.get(file.name)) is not None
        and file.can_be(entry)
        and entry.generation == replica.generations[file.name]
        for file in replica.manifest.files
    )


def _look(
    store: ContentReader,
    path: CheckpointPath,
    checkpoint_format: Format,
    entries: Mapping[str, Entry],
    unsafe: Refused | None,
) -> FoundCheckpoint:
    seen = FoundCheckpoint(
        path=path,
        stage=Stage.PARTIAL,
        is_marked=_is_marked(entries, checkpoint_format),
        why="",
        digest=None,
        size_bytes=sum(entry.size_bytes for entry in entries.values()),
        modified_s=max((entry.modified_s for entry in entries.values()), default=0.0),
    )
    if unsafe is not None:
        return replace(seen, why=f"{unsafe.name} is there: {unsafe.why}")
    replica = _replica(store, path, entries)
    if replica is not None and matches(replica, entries):
        return replace(seen, stage=Stage.ATTESTED, digest=replica.manifest.digest)
    judged = _judge(store, checkpoint_format, entries)
    if isinstance(judged, Unfinished):
        return replace(seen, why=judged.why)
    return replace(seen, stage=Stage.COMPLETE)


def _is_marked(entries: Mapping[str, Entry], checkpoint_format: Format) -> bool:
    marker = entries.get(MARKERS[checkpoint_format])
    return marker is not None and marker.size_bytes > 0


def _replica(
    store: ContentReader, path: CheckpointPath, entries: Mapping[str, Entry]
) -> Replica | None:
    entry = entries.get(REPLICA_NAME)
    if entry is None:
        return None
    try:
        return decode_replica(read_small(store, entry, MAX_REPLICA_BYTES), path)
    except (Incomplete, Changed, NotFound, TooLarge):
        return None


def _judge(
    store: ContentReader, checkpoint_format: Format, entries: Mapping[str, Entry]
) -> Complete | Unfinished:
    entry = entries.get(MARKERS[checkpoint_format])
    try:
        if entry is None or checkpoint_format not in READ:
            return judge(checkpoint_format, entries, b"?" if entry and entry.size_bytes else None)
        return judge(checkpoint_format, entries, read_small(store, entry, MAX_MARKER_BYTES))
    except (Changed, NotFound):
        return Unfinished(why="its marker changed while it was looked at")
    except TooLarge:
        return Unfinished(why=f"its marker is larger than {MAX_MARKER_BYTES} bytes")


def _place(name: str, prefix: str) -> tuple[int | None, str]:
    segment, slash, rest = name.removeprefix(prefix).partition("/")
    return (step_of(segment) if slash else None), rest
