"""Content in the regions' stores, as the agents ask for it: file work begun in one tick and
collected in a later one.

The rule: a tick never waits for a disk. What is asked for is under way (None), done (a value), or
has failed (a ReplicatorError, as ``ContentError``). Where a store cannot be read nothing is
concluded. Read ``Content.find`` first.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from broker.loops.desk import Clock
from broker.loops.errands import Errands, Work
from broker.loops.off_loop import OffLoop
from broker.model.checkpoint import CheckpointRef, EpochId
from broker.model.intent import CheckpointFormat
from replicator.bundle import check_bundle, copy_bundle, has_bundle, remove_bundle
from replicator.checkpoint.copy import copy
from replicator.checkpoint.describe import attest, renew
from replicator.checkpoint.formats import SETTLING, Format
from replicator.checkpoint.paths import CheckpointPath
from replicator.checkpoint.removal import clear_leftover, remove
from replicator.checkpoint.scan import FoundCheckpoint, Stage, pin, scan
from replicator.checkpoint.settling import Settling
from replicator.checkpoint.verify import is_ready
from replicator.errors import (
    Changed,
    Conflict,
    Corrupt,
    Incomplete,
    NotFound,
    ReplicatorError,
    TooLarge,
)
from replicator.hashing import OnChunk, is_sha256
from replicator.stores.checkup import Trial, try_out
from replicator.stores.directory import DirectoryStore
from replicator.stores.port import ContentReader, ContentStore, Entry
from replicator.transfers import TransferKey

FORMATS: Mapping[CheckpointFormat, Format] = {
    CheckpointFormat.FILES: Format.FILES,
    CheckpointFormat.PYTORCH_DCP: Format.PYTORCH_DCP,
    CheckpointFormat.HUGGING_FACE: Format.HUGGING_FACE,
    CheckpointFormat.LIGHTNING: Format.LIGHTNING,
    CheckpointFormat.ORBAX: Format.ORBAX,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A complete checkpoint in a store, with its manifest written. ``digest`` names its content."""

    step: int
    digest: str
    size_bytes: int
    written_wall_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Troubled:
    """A step whose marker is there and does not hold, and why: a save that goes on, or none."""

    step: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a look at one epoch's checkpoints found; steps without a marker are in none.

    ``settling`` are those of which nothing may change for a while before they count.
    """

    found: tuple[Found, ...]
    troubled: tuple[Troubled, ...] = ()
    settling: tuple[int, ...] = ()


class Content:
    """The stores of all regions, and the broker's own store of uploaded bundles.

    ``looks`` does short work (listing, describing), ``copies`` what moves bytes between regions:
    they are apart so that a long copy holds up no close.
    """

    def __init__(
        self,
        *,
        stores: Mapping[str, ContentStore],
        uploads: ContentStore,
        looks: Work,
        copies: Work,
        off_loop: OffLoop,
        clock: Clock,
    ) -> None:
        self.stores = stores
        self._uploads = uploads
        self._off_loop = off_loop
        self._settling = Settling()
        self.looks = Errands(looks, clock)
        self.copies = Errands(copies, clock)

    async def bundle_in(self, region: str, digest: str) -> bool | None:
        """Bring a bundle into a region; True when it stands there, read and found to be whole.

        One that a disk has damaged is brought anew. Raises ReplicatorError.
        """
        store = self.stores[region]
        key = TransferKey(store=region, path=f"bundle:{digest}")
        return await self.copies.ask(key, partial(_bring_bundle, self._uploads, store, digest))

    async def find(
        self,
        region: str,
        run_key: str,
        epoch: EpochId,
        kind: CheckpointFormat,
        now_s: float,
        *,
        ended_s: float | None = None,
    ) -> Finding | None:
        """Look for the complete checkpoints of an epoch, and describe those without a manifest.

        ``now_s`` is of a clock that only grows. ``ended_s``: when the epoch was seen to be over; a
        look that began before may lack its last save, and is not the answer. Raises ReplicatorError
        when the store cannot say.
        """
        key = TransferKey(store=region, path=f"find:{run_key}/{epoch.folder}")
        if ended_s is not None:
            self.looks.forget(key)
            key = replace(key, path=f"{key.path} since {ended_s!r}")
        has_settled = partial(self._settling.has_settled, now_s=now_s)
        found = partial(_find, self.stores[region], run_key, epoch.folder, FORMATS[kind])
        job = partial(found, has_settled=has_settled)
        return await self.looks.ask(key, job)

    async def scan(
        self, region: str, run_key: str, folder: str, kind: CheckpointFormat
    ) -> tuple[FoundCheckpoint, ...] | None:
        """List an epoch's checkpoints, half ones too. Raises ReplicatorError."""
        store, fmt = self.stores[region], FORMATS[kind]
        key = TransferKey(store=region, path=f"scan:{run_key}/{folder}")
        return await self.looks.ask(key, lambda _: scan(store, run_key, folder, fmt).checkpoints)

    async def copy(
        self, source: str, destination: str, path: CheckpointPath, kind: CheckpointFormat
    ) -> str | None:
        """Copy a checkpoint; return the digest of what then stands there, verified.

        Raises ReplicatorError.
        """
        job = partial(_copy, self.stores[source], self.stores[destination], path, FORMATS[kind])
        return await self.copies.ask(copy_key(destination, path), job)

    async def remove(self, region: str, path: CheckpointPath) -> int | None:
        """Remove a checkpoint from a region; return the bytes freed. Raises ReplicatorError."""
        store = self.stores[region]
        key = TransferKey(store=region, path=f"remove:{path}")
        return await self.looks.ask(key, lambda _: remove(store, path))

    async def clear(
        self, region: str, path: CheckpointPath, *, now_s: float, older_than_s: float
    ) -> int | None:
        """Remove a half copy that nobody works on any more; return the bytes freed."""
        store = self.stores[region]
        key = TransferKey(store=region, path=f"clear:{path}")
        return await self.looks.ask(
            key, lambda _: clear_leftover(store, path, now_s=now_s, older_than_s=older_than_s)
        )

    async def is_sound(
        self,
        region: str,
        path: CheckpointPath,
        digest: str,
        kind: CheckpointFormat,
        *,
        is_doubted: bool,
    ) -> bool | None:
        """Return whether a region's copy is there and matches. Raises ReplicatorError.

        One that is in doubt, or does not match what its manifest says of sizes and generations, is
        read whole: bytes can rot under both, and both can move under the same bytes.
        """
        store = self.stores[region]
        reading = TransferKey(store=region, path=f"read:{path}")
        if not is_doubted and self.copies.done_bytes(reading) is None:
            key = TransferKey(store=region, path=f"check:{path}")
            is_well = await self.looks.ask(key, lambda _: is_ready(store, path, digest))
            if is_well is not False:
                return is_well
        return await self.copies.ask(reading, partial(renew, store, path, digest, FORMATS[kind]))

    async def is_sound_now(
        self, region: str, path: CheckpointPath, digest: str, kind: CheckpointFormat
    ) -> bool:
        """As ``is_sound``, waiting for the answer: for who has nothing else to do meanwhile."""
        store = self.stores[region]

        def look() -> bool:
            is_well = is_ready(store, path, digest)
            return is_well or renew(store, path, digest, FORMATS[kind], lambda size_bytes: None)

        return await self._off_loop(look)

    async def try_out(self, region: str) -> Trial:
        """Try whether a region's store takes, shows, gives and lets go of an object."""
        store = self.stores[region]
        return await self._off_loop(lambda: try_out(store))

    async def purge(self, region: str, run_key: str) -> int | None:
        """Remove all that a run left in a region, once its log is to go; return the bytes freed."""
        store = self.stores[region]
        key = TransferKey(store=region, path=f"purge:{run_key}")
        return await self.looks.ask(key, partial(_purge, store, f"runs/{run_key}/"))

    async def drop_bundles(
        self, needed: frozenset[str], now_wall_s: float, older_than_s: float
    ) -> int | None:
        """Remove old bundles that no run needs, here and in every region; return how many.

        With them goes what writes that were killed left unfinished, and nobody took up.
        """
        stores = (self._uploads, *self.stores.values())
        key = TransferKey(store="", path="drop-bundles")
        job = partial(_drop_bundles, stores, needed, now_wall_s, older_than_s)
        return await self.looks.ask(key, job)

    def copied_bytes(self, destination: str, path: CheckpointPath) -> int | None:
        """Return how far a copy is, or came; None once its outcome was told."""
        return self.copies.done_bytes(copy_key(destination, path))


def copy_key(destination: str, path: CheckpointPath) -> TransferKey:
    """Return what a copy is known by while it is under way."""
    return TransferKey(store=destination, path=str(path))


def path_of(run_uid: str, ref: CheckpointRef) -> CheckpointPath:
    """Return where a run's checkpoint lies; a fork's seed lies with its parent."""
    return CheckpointPath(run_key=ref.run_uid or run_uid, epoch=ref.epoch.folder, step=ref.step)


def _bring_bundle(
    uploads: ContentReader, store: ContentStore, digest: str, on_chunk: OnChunk
) -> bool:
    if has_bundle(store, digest):
        try:
            check_bundle(store, digest, on_chunk)
            return True
        except Corrupt:
            # Nobody can unpack it, and nothing is written over what is there.
            remove_bundle(store, digest)
    copy_bundle(uploads, store, digest, on_chunk)
    return True


def _find(
    store: ContentStore,
    run_key: str,
    folder: str,
    fmt: Format,
    on_chunk: OnChunk,
    *,
    has_settled: Callable[[CheckpointPath, Mapping[str, Entry]], bool],
) -> Finding:
    found: list[Found] = []
    troubled: list[Troubled] = []
    settling: list[int] = []
    for one in scan(store, run_key, folder, fmt).checkpoints:
        if one.stage is Stage.PARTIAL:
            if one.is_marked:
                troubled.append(Troubled(step=one.path.step, why=one.why))
            continue
        try:
            if fmt in SETTLING and one.stage is Stage.COMPLETE:
                content = pin(store, one.path, fmt).complete.content
                if not has_settled(one.path, content):
                    settling.append(one.path.step)
                    continue
            manifest = attest(store, one.path, fmt, on_chunk).manifest
        except (Changed, Conflict, Corrupt, Incomplete, NotFound, TooLarge) as error:
            # It may be a save that goes on; the next look finds it whole, or never.
            troubled.append(Troubled(step=one.path.step, why=error.sentence))
            continue
        found.append(
            Found(
                step=one.path.step,
                digest=manifest.digest,
                size_bytes=manifest.size_bytes,
                written_wall_s=one.modified_s,
            )
        )
    return Finding(found=tuple(found), troubled=tuple(troubled), settling=tuple(settling))


def _copy(
    source: ContentStore,
    destination: ContentStore,
    path: CheckpointPath,
    fmt: Format,
    on_chunk: OnChunk,
) -> str:
    origin = attest(source, path, fmt, lambda size_bytes: None)
    return copy(origin, source, destination, on_chunk).manifest.digest


def _purge(store: ContentStore, prefix: str, on_chunk: OnChunk) -> int:
    freed_bytes = 0
    for entry in store.list(prefix).entries:
        on_chunk(0)
        if store.delete(entry.name):
            freed_bytes += entry.size_bytes
    store.tidy(prefix)
    return freed_bytes


def _drop_bundles(
    stores: tuple[ContentStore, ...],
    needed: frozenset[str],
    now_s: float,
    older_than_s: float,
    on_chunk: OnChunk,
) -> int:
    dropped, before_s = 0, now_s - older_than_s
    for store in stores:
        if isinstance(store, DirectoryStore):
            store.sweep_temporary(now_s=now_s, older_than_s=older_than_s)
        for entry in store.list("bundles/").entries:
            on_chunk(0)
            digest = entry.name.removeprefix("bundles/").partition(".")[0]
            if is_sha256(digest) and digest not in needed and entry.modified_s < before_s:
                dropped += store.delete(entry.name)
    return dropped


ContentError = ReplicatorError
