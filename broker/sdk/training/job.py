"""One process of one start of a training run, as its script sees it. Read `Job` first.

The rule it keeps: what the training does wrong raises; what the world does wrong is retried and
said in the log. Ranks that disagree about the step of a save make no checkpoint, so a drain is
first agreed on by all ranks, with the all-reduce that the training has anyway.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from broker.sdk.training import arrival, checkpoint, notes, replica, room
from broker.sdk.training.bucket import BucketPlace
from broker.sdk.training.carrier import Carrier, Staged, shelf_of
from broker.sdk.training.checkpoint import CheckpointError
from broker.sdk.training.grant import Grant

log = logging.getLogger("broker.sdk.training")

# What a drained process exits with if nobody ended it: EX_TEMPFAIL, "try again later".
EXIT_DRAINED = 75

# A run that is done waits this long for a store that is away, before it says that it failed.
CLEAN_EXIT_S = 600.0
# One that failed, or that just ends, must not keep its gang's place.
FAILED_EXIT_S = 5.0
# How long a drain without a deadline may wait for its checkpoint, and then for its end.
ACKNOWLEDGE_S = 60.0
STAND_BY_S = 600.0
# The last words to the launcher need a moment before the deadline.
DEADLINE_MARGIN_S = 1.0


class _Said(NamedTuple):
    """A report as the training made it."""

    step: int
    loss: float | None
    samples: int | None
    fields: Mapping[str, object]


class Job:
    """This process's place in the run: where to resume, where to save, whom to tell.

    Outside the broker checkpoints are kept in a local directory, a resume takes the newest
    complete one of it, and there is never a drain.
    """

    def __init__(self, grant: Grant, *, exit_patience_s: float = CLEAN_EXIT_S) -> None:
        self.grant = grant
        self._exit_patience_s = exit_patience_s
        self._carrier = Carrier(grant)
        self._shelf = shelf_of(grant)
        self._saved_steps: set[int] = set()
        self._unsaved_step: int | None = None
        self._trouble = ""
        self._said: _Said | None = None
        self._progress: notes.Progress | None = None
        if grant.private_dir is not None:
            self._progress = notes.Progress(grant.private_dir / "progress.json")
        self._stage_root: Path | None = None
        self._drain: notes.Drain | None = None
        self._pid = os.getpid()

    @classmethod
    def from_env(
        cls,
        environ: Mapping[str, str] | None = None,
        *,
        local_dir: str | Path = "checkpoints",
        exit_patience_s: float = CLEAN_EXIT_S,
    ) -> Job:
        """The job that the launcher's environment names, or a local one without a launcher.

        `local_dir` is where checkpoints are kept outside the broker. `exit_patience_s` is how
        long a `with` block that is done waits for a store that is away. Raises GrantError.
        """
        grant = Grant.read(os.environ if environ is None else environ, local_dir=Path(local_dir))
        return cls(grant, exit_patience_s=exit_patience_s)

    def resume_dir(self, *, verify: bool = False) -> Path | None:
        """The directory of the checkpoint to start from, None to start from nothing.

        One of a bucket is brought to this machine first, into the private directory. What the
        broker wrote down of it is held against what is there; with `verify` every file is read and
        compared with its digest. Raises CheckpointError if the grant names a checkpoint that is not
        complete, or is another: starting from nothing instead would throw the run's work away in
        silence.
        """
        named = self._named()
        if named is None:
            return None
        if not checkpoint.is_complete(named):
            raise CheckpointError(f"BROKER_RESUME_FROM names {named}, which is not complete")
        replica.require_in(named, self.grant.resume_digest)
        if verify:
            replica.verify(named)
        return named

    def _named(self) -> Path | None:
        place = self.grant.resume_from
        if place is None and not self.grant.is_brokered:
            step = checkpoint.newest_step(self._shelf)
            place = None if step is None else self.grant.checkpoints / f"step-{step}"
        if isinstance(place, BucketPlace):
            return arrival.bring(place, self._local_dir / "resume", self.grant.resume_digest)
        return place

    @property
    def _local_dir(self) -> Path:
        """A directory of this machine for what comes and goes."""
        place = self.grant.private_dir or self.grant.checkpoints
        return Path(tempfile.gettempdir()) if isinstance(place, BucketPlace) else place

    @contextlib.contextmanager
    def saving(self, step: int) -> Iterator[Path]:
        """Give a local directory for this rank's files of `step`; carry them to the store after.

        Every rank calls it for the same steps, even to save nothing; the names of all ranks'
        files share one directory, so each is used by one rank only. It returns before the
        checkpoint is complete: `flush` waits. An exception inside leaves nothing behind, and a
        step that was saved already is not saved again. Raises CheckpointError for what an
        earlier save or this one did wrong, never for a store that cannot be reached; nor for a
        local disk that is full or broken: that save is given up, loudly, and training goes on to
        the next. If the directory cannot even be made, what is given is none, and errors of
        writing there end the save alone.
        """
        step = int(step)
        if step < 0:
            raise ValueError(f"step is {step}, but must be 0 or more")
        self._carrier.raise_failure()
        self._flush_progress()
        self._carrier.make_room()
        stage, fault = self._stage(step)
        try:
            yield stage
            if fault is None:
                checkpoint.check_part(stage, self.grant.rank)
        except BaseException as error:
            if fault is None or isinstance(error, room.LEAVING):
                # Asked before what lies there goes: then there is room again.
                fault = room.fault_of(error, stage)
            shutil.rmtree(stage, ignore_errors=True)
            if fault is None:
                raise
        if step in self._saved_steps:
            shutil.rmtree(stage, ignore_errors=True)
            return
        if fault is not None:
            self._give_up(step, fault)
            return
        self._unsaved_step, self._trouble = None, ""
        self._saved_steps.add(step)
        self._carrier.hand_over(Staged(step, stage))

    def flush(self, timeout_s: float) -> bool:
        """Wait until all that this rank saved is in the store, and for rank 0 until it is sealed.

        False if that took longer than `timeout_s` seconds; the work goes on in the background.
        """
        return self._carrier.flush(timeout_s)

    def report(
        self,
        step: int,
        *,
        loss: float | None = None,
        samples: int | None = None,
        fields: Mapping[str, object] | None = None,
    ) -> None:
        """Tell how far the training is; cheap enough for every step.

        `samples` counts those seen since the run began. A loss that is not finite is said to be
        so. `fields` are a few more numbers or words to show; `checkpoints_waiting` and, on rank 0,
        `checkpoint_step` are there already, and `checkpoint_trouble` while there is some. A report
        that cannot be written is left to the next.
        """
        self._said = _Said(step, loss, samples, dict(fields or {}))
        self._tell(self._said)

    def drain(self) -> notes.Drain | None:
        """The word to save and leave, None while there is none; cheap enough for every step.

        Ranks hear it at different moments. Let all of them agree, with an all-reduce of
        `drain() is not None`, before one acts on it.
        """
        if self._drain is None and self.grant.private_dir is not None:
            self._drain = notes.read_drain(self.grant.private_dir / "drain.json")
        return self._drain

    def acknowledge(self, step: int) -> int | None:
        """Say that the drain was heard; the step that a resume will find, None for none.

        Waits until the checkpoint of `step` is complete in the store, at most until shortly
        before the drain's deadline, so that the word is true when the launcher passes it on.
        """
        limit_s = ACKNOWLEDGE_S
        drain = self.drain()
        remaining_s = drain.remaining_s() if drain is not None else None
        if remaining_s is not None:
            limit_s = max(0.0, remaining_s - DEADLINE_MARGIN_S)
        self._flush_progress()
        saved = step if self._wait_complete(step, limit_s) else self._newest_step()
        if saved != step:
            log.warning("drained at step %d, but complete in the store is %s", step, saved)
        if self.grant.private_dir is not None:
            try:
                notes.write_drained(self.grant.private_dir / "drained.json", saved)
            except OSError as error:
                log.warning("the drain cannot be acknowledged: %s", error)
        return saved

    def stand_by(self, limit_s: float = STAND_BY_S) -> None:
        """Wait quietly to be ended, at most `limit_s` seconds; then exit with EXIT_DRAINED.

        A run that leaves by itself after a drain might be taken for one that failed or finished.
        """
        self._flush_progress()
        threading.Event().wait(limit_s)

    def close(self, timeout_s: float) -> bool:
        """Carry over what waits, for at most `timeout_s` seconds; False if something is left.

        Raises CheckpointError for what a save did wrong. Called at exit if nothing else does.
        """
        atexit.unregister(self._close_at_exit)
        self._flush_progress()
        is_saved = self._carrier.flush(timeout_s)
        self._carrier.close()
        self._shelf.close()
        if not is_saved:
            log.warning("%s", self._left_over())
        elif self._stage_root is not None:
            shutil.rmtree(self._stage_root, ignore_errors=True)
            self._stage_root = None
        self._carrier.raise_failure()
        if self._unsaved_step is not None:
            log.warning("step %d was never saved", self._unsaved_step)
        return is_saved and self._unsaved_step is None

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Carry over what waits. Leaving in good order without it all being saved is an error."""
        if kind is None or (isinstance(error, SystemExit) and not error.code):
            if not self.close(self._exit_patience_s):
                raise CheckpointError(self._trouble or self._left_over())
            return
        with contextlib.suppress(CheckpointError):
            self.close(FAILED_EXIT_S)

    def _tell(self, said: _Said) -> None:
        if self._progress is None:
            return
        fields: dict[str, object] = {"checkpoints_waiting": self._carrier.waiting}
        trouble = self._trouble or self._carrier.trouble
        if trouble:
            fields["checkpoint_trouble"] = trouble
        if self._carrier.sealed_step is not None:
            fields["checkpoint_step"] = self._carrier.sealed_step
        fields.update(said.fields)
        self._progress.report(said.step, loss=said.loss, samples=said.samples, fields=fields)

    def _left_over(self) -> str:
        return f"{self._carrier.waiting} checkpoints are not complete in the store"

    def _give_up(self, step: int, fault: str) -> None:
        """Let a save go that its own disk did not take: the next one tries again."""
        self._unsaved_step = step
        self._trouble = f"step {step} was not saved: {fault}"
        log.warning("%s; training goes on", self._trouble)
        # It may have been the last step: nothing else would carry the word.
        self._tell(self._said or _Said(step, None, None, {}))
        self._flush_progress()

    def _stage(self, step: int) -> tuple[Path, str | None]:
        """A directory for a part of `step`; if none can be made, one that is not there, and why."""
        try:
            return Path(tempfile.mkdtemp(prefix=f"step-{step}-", dir=self._staging())), None
        except OSError as error:
            parent = self._local_dir
            return parent / f".no-room-for-step-{step}", str(error)

    def _staging(self) -> Path:
        """The directory for parts that wait; private to this process, on the local disk."""
        if self._stage_root is None:
            parent = self._local_dir
            parent.mkdir(parents=True, exist_ok=True)
            prefix = f".staged-{self.grant.rank}-"
            self._stage_root = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            atexit.register(self._close_at_exit)
        return self._stage_root

    def _close_at_exit(self) -> None:
        if os.getpid() != self._pid:
            return  # a forked child, a data loader say, has its parent's list of what to do at exit
        try:
            self.close(FAILED_EXIT_S)
        except CheckpointError as error:
            log.error("%s", error)

    def _wait_complete(self, step: int, limit_s: float) -> bool:
        deadline = time.monotonic() + limit_s
        self._carrier.flush(limit_s)
        if step == self._unsaved_step:
            return False
        folder = checkpoint.folder_of(self._shelf, step)
        pause = threading.Event()
        while True:
            with contextlib.suppress(OSError):
                if checkpoint.is_whole(folder):
                    return True
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            pause.wait(min(self._shelf.poll_s, left_s))

    def _newest_step(self) -> int | None:
        """The newest complete step of this epoch, or None if there is none to be seen."""
        try:
            return checkpoint.newest_step(self._shelf)
        except OSError:
            return None

    def _flush_progress(self) -> None:
        if self._progress is not None:
            self._progress.flush()
