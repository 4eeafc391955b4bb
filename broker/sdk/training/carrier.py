"""Carries saved parts from the local disk to the store, in the background, until they are there.

The rule it keeps: **a save is never refused because the store cannot be reached.** What is handed
over waits on the local disk; a part that cannot be carried is tried again, sooner when something
new is saved. Only when the disk holds `MAX_STAGED` parts does the oldest one give way, loudly.
One thread does all of it, so that parts arrive in order and rank 0 seals what is whole.
Read `Carrier._turn` first.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from pathlib import Path
from typing import NamedTuple

from broker.sdk.training import checkpoint
from broker.sdk.training.bucket import BucketPlace, BucketShelf
from broker.sdk.training.checkpoint import CheckpointError, Maker
from broker.sdk.training.grant import Grant
from broker.sdk.training.shelf import DirectoryShelf, Folder, Shelf

log = logging.getLogger("broker.sdk.training")

# The one in flight, the newest, and one between, so that a slow store does not stop the training.
MAX_STAGED = 3
# How long a save waits for a store that works but is slow, before the oldest part gives way.
ROOM_PATIENCE_S = 60.0
# A checkpoint whose other parts never come is given up when this many newer ones wait.
MAX_UNSEALED = 4
RETRY_FIRST_S, RETRY_MOST_S = 0.5, 30.0
SEAL_FIRST_S, SEAL_MOST_S = 0.02, 2.0


class Staged(NamedTuple):
    """One part on the local disk, handed over by the training."""

    step: int
    directory: Path


def shelf_of(grant: Grant) -> Shelf:
    """Where a start keeps its checkpoints."""
    if isinstance(grant.checkpoints, BucketPlace):
        return BucketShelf(grant.checkpoints)
    return DirectoryShelf(grant.checkpoints, is_in_store=grant.is_brokered)


class Carrier:
    """The background thread of one process, and what waits for it."""

    def __init__(self, grant: Grant, *, room_patience_s: float = ROOM_PATIENCE_S) -> None:
        self._grant = grant
        self._shelf = shelf_of(grant)
        self._room_patience_s = room_patience_s
        self._changed = threading.Condition()
        self._staged: list[Staged] = []
        self._unsealed: list[Staged] = []
        self._in_flight: Staged | None = None
        self._failure: CheckpointError | None = None
        self._trouble = ""
        self._has_forgotten = not grant.is_brokered
        self._retry_s, self._seal_s = RETRY_FIRST_S, SEAL_FIRST_S
        self._asked = False
        self._sealed_step: int | None = None
        self._thread: threading.Thread | None = None

    @property
    def waiting(self) -> int:
        """How many checkpoints of this process are not yet known to be whole in the store."""
        with self._changed:
            return len({item.step for item in self._staged + self._unsealed})

    @property
    def sealed_step(self) -> int | None:
        """The highest step that this process sealed, None for none and on ranks that seal none."""
        with self._changed:
            return self._sealed_step

    @property
    def trouble(self) -> str:
        """Why the store takes nothing now, in a sentence; empty while it does."""
        with self._changed:
            return self._trouble

    def raise_failure(self) -> None:
        """Raise what the training itself did wrong in an earlier save, once."""
        with self._changed:
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def make_room(self) -> None:
        """Return when another part may be staged: wait for a slow store, not for a lost one."""
        deadline = time.monotonic() + self._room_patience_s
        given_way = []
        with self._changed:
            while len(self._staged) >= MAX_STAGED and not self._trouble:
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    # It hangs: later saves need not wait for it again.
                    self._trouble = "the store does not answer, training goes on"
                    break
                self._changed.wait(left_s)
            while len(self._staged) >= MAX_STAGED:
                # What is in flight is finished, or it would be lost work for the store as well.
                index = 1 if self._staged[0] is self._in_flight else 0
                given_way.append(self._staged.pop(index))
        for item in given_way:
            log.warning("the store is out of reach for too long: step %d gives way", item.step)
            shutil.rmtree(item.directory, ignore_errors=True)

    def hand_over(self, item: Staged) -> None:
        """Take over a part that is whole on the local disk, and carry it as soon as can be."""
        with self._changed:
            self._staged.append(item)
            self._wake()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="carrier", daemon=True)
                self._thread.start()

    def flush(self, timeout_s: float) -> bool:
        """Try at once, and wait until nothing waits any more or the time is over; say which."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            self._wake()
            while self._staged or self._unsealed:
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    return False
                self._changed.wait(left_s)
        return True

    def close(self) -> None:
        """Let go of what is held to reach the store, once it is flushed."""
        self._shelf.close()

    def _wake(self) -> None:
        self._asked = True
        self._retry_s, self._seal_s = RETRY_FIRST_S, SEAL_FIRST_S
        self._changed.notify_all()

    def _run(self) -> None:
        while True:
            pause_s = self._turn()
            with self._changed:
                if not self._asked:
                    self._changed.wait(pause_s)
                self._asked = False

    def _turn(self) -> float | None:
        """Carry what is staged, seal what is whole; seconds to the next turn, None: when asked."""
        try:
            self._shelf.require()
            if not self._has_forgotten:
                checkpoint.forget_part(self._shelf, self._grant.rank)
                self._has_forgotten = True
            self._carry_staged()
            self._seal_whole()
        except OSError as error:
            return self._back_off(error)
        self._note_success()
        with self._changed:
            if not self._unsealed:
                return None
            self._seal_s, pause_s = min(self._seal_s * 1.5, SEAL_MOST_S), self._seal_s
            return pause_s

    def _note_success(self) -> None:
        """Say that the store is back, before whoever waits for it hears that nothing waits."""
        if self._trouble:
            log.warning("the store can be written again")
        with self._changed:
            self._trouble = ""
            self._retry_s = RETRY_FIRST_S

    def _back_off(self, error: OSError) -> float:
        trouble = f"the store cannot be written, training goes on: {error}"
        if not self._trouble:
            log.warning("%s", trouble)
        with self._changed:
            self._trouble = trouble
            self._in_flight = None
            self._changed.notify_all()
            self._retry_s, pause_s = min(self._retry_s * 2, RETRY_MOST_S), self._retry_s
            return pause_s

    def _carry_staged(self) -> None:
        while True:
            with self._changed:
                if not self._staged:
                    return
                item = self._in_flight = self._staged[0]
            checkpoint.carry_part(
                item.directory,
                self._target(item),
                rank=self._grant.rank,
                maker=self._maker(item),
            )
            self._note_success()
            is_sealer = self._grant.rank == 0
            with self._changed:
                self._staged.remove(item)
                self._in_flight = None
                if is_sealer:
                    self._unsealed.append(item)
                self._changed.notify_all()
            if not is_sealer:
                shutil.rmtree(item.directory, ignore_errors=True)

    def _seal_whole(self) -> None:
        """Rank 0 alone: newest first, because the newest is what a resume wants.

        Every rank carries in order, so when all parts of a newer step are there, a part of an
        older one that is missing gave way on its rank's disk and will never come.
        """
        is_newer_sealed = False
        for place, item in enumerate(reversed(self._unsealed.copy())):
            try:
                is_sealed = self._seal(item)
            except CheckpointError as error:
                log.error("step %d is not a checkpoint: %s", item.step, error)
                with self._changed:
                    self._failure = error
                self._drop_unsealed(item)
                continue
            is_newer_sealed |= is_sealed
            if is_sealed:
                with self._changed:
                    self._sealed_step = max(item.step, self._sealed_step or 0)
                self._drop_unsealed(item)
            elif is_newer_sealed or place >= MAX_UNSEALED:
                log.warning("step %d is given up: not every rank's part has come", item.step)
                self._drop_unsealed(item)

    def _seal(self, item: Staged) -> bool:
        metadata = item.directory / checkpoint.DCP_METADATA
        return checkpoint.seal(
            self._target(item),
            maker=self._maker(item),
            dcp_metadata=metadata if metadata.exists() else None,
        )

    def _drop_unsealed(self, item: Staged) -> None:
        shutil.rmtree(item.directory, ignore_errors=True)
        with self._changed:
            self._unsealed.remove(item)
            self._changed.notify_all()

    def _target(self, item: Staged) -> Folder:
        return checkpoint.folder_of(self._shelf, item.step)

    def _maker(self, item: Staged) -> Maker:
        return Maker(item.step, self._grant.epoch, self._grant.world_size)
