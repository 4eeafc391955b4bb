"""One launcher: to the gate, through it, beside the command while it runs, and its last word.

The rule: once the command runs, no trouble with the store ends it; only a fence, a notice or the
command itself does. The last word goes to the store create-if-absent, to a local file, and into the
exit status. Read ``launch`` first.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Dict, Optional

from regions.launcher import codec, layout
from regions.launcher.child import Child, Ear
from regions.launcher.exchange import Exchange, write_whole
from regions.launcher.exits import exit_status
from regions.launcher.expansion import expand_all
from regions.launcher.gate import Place, stand_at_gate
from regions.launcher.reading import Unreachable, read_record
from regions.launcher.rules import BeginDrain, Cause, Leave, Stop, next_watch
from regions.launcher.settings import BadSettings, Settings
from regions.launcher.store import (
    GS,
    DirectoryStore,
    Measured,
    StoreUnreachable,
    random_hex,
    uri_at,
)

_END_RETRY_PAUSE_S = 0.5


@dataclass(frozen=True)
class Ended:
    """How it went, before it is said."""

    kind: str
    cause: Cause
    exit_code: Optional[int]
    signal: Optional[int]
    was_asked: bool


def launch(settings: Settings) -> int:
    """Take one process from the gate to its end, and return the exit status.

    Raises BadSettings if there is no place to work in.
    """
    ear = Ear()
    nonce = random_hex()
    private_dir = os.path.join(settings.work_dir, f"rank-{settings.rank}-{nonce[:8]}")
    try:
        os.makedirs(os.path.join(private_dir, "exchange"), mode=0o700)
    except OSError as error:
        raise BadSettings(f"BROKER_WORK_DIR cannot be used: {error}") from error
    place = Place(
        settings=settings,
        store=_opened(settings),
        keys=layout.RunKeys(settings.run_key),
        nonce=nonce,
        private_dir=private_dir,
    )
    step, grant = stand_at_gate(place, ear)
    if isinstance(step, Leave):
        ended = Ended(layout.LEFT_GATE, step.cause, None, None, False)
    else:
        ended = _Attendant(place, step.grant, ear).attend()
    _say_end(place, grant, ended)
    return exit_status(ended.cause, ended.exit_code, ended.signal)


class _Attendant:
    """Stands beside the running command. Times are on the monotonic clock."""

    def __init__(self, place: Place, grant: layout.Grant, ear: Ear) -> None:
        self._place = place
        self._grant = grant
        self._ear = ear
        folder = os.path.join(place.private_dir, "exchange")
        self._exchange = Exchange(folder, place.settings.loss_field)
        self._beat = 0
        self._is_draining = False
        self._was_answered = False
        self._notices_heard = 0
        self._notice_ends_s: Optional[float] = None
        self._stopping: Optional[Cause] = None
        self._kill_at_s: Optional[float] = None
        self._look_at_s = 0.0
        self._report_at_s = 0.0

    def attend(self) -> Ended:
        """Run the command to its end, whoever brings it about."""
        place = self._place
        folder = place.bundle_dir if self._grant.bundle is not None else None
        command, environment = expand_all(place.settings.command, self._environment())
        try:
            child = Child(command, folder, environment)
        except (OSError, ValueError) as error:
            # It wrote nothing itself, and its log is where people look.
            why = getattr(error, "strerror", None) or error
            sys.stderr.write(f"launcher: cannot run {command[0]}: {why}\n")
            return Ended(layout.EXITED, Cause.CANNOT_RUN, 127, None, False)
        while child.returncode() is None:
            now_s = time.monotonic()
            self._look_at_control(child, now_s)
            self._keep_time(child)
            self._report_when_due(now_s)
            self._keep_time(child)
            self._ear.sleep(self._until_next(now_s))
        code = child.returncode()
        child.end_group()
        self._report(layout.STOPPING)
        return self._ended(code if code is not None else 0)

    def _ended(self, code: int) -> Ended:
        exit_code, number = (code, None) if code >= 0 else (None, -code)
        was_asked = self._is_draining or self._stopping is not None
        if self._stopping is not None:
            return Ended(layout.STOPPED, self._stopping, exit_code, number, was_asked)
        if self._exchange.drain_answer() is not None and self._is_draining:
            # It let go because it was asked to. An exit code of 0 does not mean that it finished.
            return Ended(layout.STOPPED, Cause.DRAINED, exit_code, number, was_asked)
        return Ended(layout.EXITED, Cause.COMMAND, exit_code, number, was_asked)

    def _keep_time(self, child: Child) -> None:
        """Do what has an hour, after each call that a slow store can have drawn out."""
        now_s = time.monotonic()
        self._heed_notices(child, now_s)
        if self._kill_at_s is not None and now_s >= self._kill_at_s:
            child.signal_group(signal.SIGKILL)

    def _look_at_control(self, child: Child, now_s: float) -> None:
        if now_s < self._look_at_s:
            return
        self._look_at_s = now_s + self._place.settings.control_poll_s
        store, keys, epoch = self._place.store, self._place.keys, self._grant.epoch
        fence = read_record(store, keys.fence(epoch), codec.read_fence)
        if isinstance(fence, Unreachable):
            return  # nor would it say more of a drain, and a notice may have come meanwhile
        drain = read_record(store, keys.drain(epoch), codec.read_drain)
        step = next_watch(fence, drain, self._is_draining)
        if isinstance(step, Stop):
            self._stop(child, step.cause, now_s)
        elif isinstance(step, BeginDrain):
            self._drain(step.order.reason, step.order.deadline_unix_s)

    def _heed_notices(self, child: Child, now_s: float) -> None:
        settings = self._place.settings
        if self._ear.notices > self._notices_heard:
            is_repeated = self._notice_ends_s is not None
            self._notices_heard = self._ear.notices
            # SIGTERM to the launcher is a notice of a few seconds: a drain, but by the machine.
            to_save_s = max(0.0, settings.notice_s - settings.grace_s)
            self._notice_ends_s = now_s if is_repeated else now_s + to_save_s
            self._drain("preemption notice", time.time() + to_save_s)
        if self._notice_ends_s is None:
            return
        if self._was_answered or now_s >= self._notice_ends_s:
            self._stop(child, Cause.PREEMPTED, now_s)

    def _drain(self, reason: str, deadline_unix_s: Optional[float]) -> None:
        self._is_draining = True
        with suppress(OSError):
            self._exchange.ask_to_drain(reason, deadline_unix_s)

    def _stop(self, child: Child, cause: Cause, now_s: float) -> None:
        if self._stopping is None:
            self._stopping = cause
            self._kill_at_s = now_s + self._place.settings.grace_s
            child.signal_group(signal.SIGTERM)

    def _report_when_due(self, now_s: float) -> None:
        is_answered = self._is_draining and self._exchange.drain_answer() is not None
        if now_s >= self._report_at_s or is_answered > self._was_answered:
            self._was_answered = is_answered
            self._report_at_s = now_s + self._place.settings.report_s
            self._report(layout.RUNNING if self._stopping is None else layout.STOPPING)

    def _report(self, phase: str) -> None:
        self._beat += 1
        progress = self._exchange.progress()
        answer = self._exchange.drain_answer() if self._is_draining else None
        report = layout.Report(
            rank=self._place.settings.rank,
            nonce=self._place.nonce,
            beat=self._beat,
            phase=phase,
            step=progress.step if progress else None,
            loss=progress.loss if progress else None,
            samples=progress.samples if progress else None,
            is_drained=answer is not None,
            drained_step=answer.step if answer else None,
            trouble=progress.trouble if progress else "",
        )
        key = self._place.keys.report(self._grant.epoch, self._place.nonce)
        with suppress(StoreUnreachable):
            self._place.store.put(key, codec.write_report(report))

    def _until_next(self, now_s: float) -> float:
        due = [self._look_at_s, self._report_at_s]
        due += [at_s for at_s in (self._kill_at_s, self._notice_ends_s) if at_s is not None]
        if self._is_draining and not self._was_answered:
            # The answer frees expensive machines: it is looked for more often than anything else.
            due.append(now_s + min(0.2, self._place.settings.control_poll_s))
        later = [at_s for at_s in due if at_s > now_s]
        return max(0.02, min(later) - now_s) if later else 0.2

    def _environment(self) -> Dict[str, str]:
        place, grant = self._place, self._grant
        checkpoints = place.keys.checkpoints(grant.epoch).rstrip("/")
        resume_from = grant.resume_from
        return {
            **place.settings.passed_on,
            "BROKER_EPOCH": str(grant.epoch.number),
            "BROKER_CHECKPOINT_URI": self._uri(checkpoints),
            "BROKER_RESUME_FROM": "" if resume_from is None else self._uri(resume_from),
            "BROKER_RESUME_DIGEST": grant.resume_digest or "",
            "BROKER_DIR": self._exchange.folder,
            # Of a bucket: training reaches it as this launcher does.
            "BROKER_STORE_TOKENS": place.settings.store_tokens,
            "BROKER_STORE_ENDPOINT": place.settings.store_endpoint,
        }

    def _uri(self, key: str) -> str:
        return uri_at(self._place.settings.store, key)


def _opened(settings: Settings) -> Measured:
    if not settings.store.startswith(GS):
        return DirectoryStore(settings.store)
    from regions.launcher import bucket, tokens  # a directory starts sooner without

    return bucket.BucketStore(
        settings.store,
        tokens.Tokens(settings.store_tokens or tokens.METADATA),
        settings.store_endpoint or bucket.ENDPOINT,
        bucket.CALL_S,
    )


def _say_end(place: Place, grant: Optional[layout.Grant], ended: Ended) -> None:
    """Say the last word: here at once, and in the store for as long as it may take."""
    end = layout.End(
        rank=place.settings.rank,
        nonce=place.nonce,
        kind=ended.kind,
        cause=ended.cause.value,
        exit_code=ended.exit_code,
        signal=ended.signal,
        was_asked=ended.was_asked,
        at_unix_s=time.time(),
    )
    record = codec.write_end(end)
    local = place.settings.exit_file or os.path.join(place.private_dir, "exit.json")
    with suppress(OSError):
        write_whole(local, record)
    if grant is None:
        key = place.keys.gate_end(place.settings.placement, place.nonce)
    else:
        key = place.keys.end(grant.epoch, place.nonce)
    give_up_at_s = time.monotonic() + place.settings.end_retry_s
    while not _is_said(place, key, record) and time.monotonic() < give_up_at_s:
        time.sleep(_END_RETRY_PAUSE_S)


def _is_said(place: Place, key: str, record: bytes) -> bool:
    try:
        place.store.create_if_absent(key, record)
    except StoreUnreachable:
        return False
    return True
