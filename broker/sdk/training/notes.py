"""The notes that a process and its launcher leave for each other in a private directory.

    progress.json   to the launcher    {"step", "loss", "samples", "fields"}
    drain.json      from the launcher  {"reason", "deadline_unix_s"}
    drained.json    to the launcher    {"step"}: what to resume from is saved, up to here

The rule it keeps: a note is always whole and always JSON, and one that cannot be written or read
stops no training. Read `Progress.report` first.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Union

from broker.sdk.training import durable

# A launcher looks every second or so; more often would only cost the training.
REPORT_INTERVAL_S = 0.25

# A report travels through the store with every heartbeat, so it is kept small.
MAX_FIELDS = 64
MAX_TEXT = 256

JsonScalar = Union[str, int, float, bool, None]


class Drain(NamedTuple):
    """The word to save and leave. `deadline_unix_s` is when the place is gone, None if unknown."""

    reason: str
    deadline_unix_s: float | None

    def remaining_s(self, now_unix_s: float | None = None) -> float | None:
        """Seconds left until the deadline, 0 when it is over, None when there is none."""
        if self.deadline_unix_s is None:
            return None
        now = time.time() if now_unix_s is None else now_unix_s
        return max(0.0, self.deadline_unix_s - now)


class Progress:
    """The progress note of one process, written at most every `interval_s` seconds."""

    def __init__(self, path: Path, *, interval_s: float = REPORT_INTERVAL_S) -> None:
        self._path = path
        self._interval_s = interval_s
        self._written_at: float | None = None
        self._unwritten: bytes | None = None

    def report(
        self,
        step: int,
        *,
        loss: float | None,
        samples: int | None,
        fields: Mapping[str, object],
    ) -> None:
        """Note the progress. The first note is written at once, later ones at the interval."""
        self._unwritten = progress_document(step, loss=loss, samples=samples, fields=fields)
        now = time.monotonic()
        if self._written_at is None or now - self._written_at >= self._interval_s:
            self.flush()

    def flush(self) -> None:
        """Write what is not written yet. A failure is left to the next report."""
        if self._unwritten is None:
            return
        self._written_at = time.monotonic()
        try:
            durable.replace_file(self._path, self._unwritten)
        except OSError:
            return
        self._unwritten = None


def progress_document(
    step: int, *, loss: float | None, samples: int | None, fields: Mapping[str, object]
) -> bytes:
    """Encode a progress note; a loss that is not finite becomes null and `loss_not_finite`."""
    encoded: dict[str, JsonScalar] = {}
    for name, value in list(fields.items())[:MAX_FIELDS]:
        encoded[str(name)[:MAX_TEXT]] = _scalar(value)
    number = None if loss is None else float(loss)
    if number is not None and not math.isfinite(number):
        encoded["loss_not_finite"] = repr(number)
        number = None
    document = {
        "step": int(step),
        "loss": number,
        "samples": None if samples is None else int(samples),
        "fields": encoded,
    }
    return json.dumps(document, allow_nan=False).encode()


def read_drain(path: Path) -> Drain | None:
    """The drain at `path`, None if there is none.

    That the note is there is the word; what it says only adds to it, so a note that cannot be
    understood is still a drain.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError:
        return Drain("unknown", None) if path.exists() else None
    try:
        document = json.loads(data)
        deadline = document.get("deadline_unix_s")
        return Drain(
            str(document.get("reason", "unknown")), None if deadline is None else float(deadline)
        )
    except (ValueError, TypeError, AttributeError):
        return Drain("unknown", None)


def write_drained(path: Path, step: int | None) -> None:
    """Acknowledge a drain: all that will be saved is complete up to `step`, None for nothing."""
    durable.replace_file(path, json.dumps({"step": step}).encode())


def _scalar(value: object) -> JsonScalar:
    """`value` as JSON can hold it: numbers of any library as float, the rest as text."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return value[:MAX_TEXT]
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return str(value)[:MAX_TEXT]
    return number if math.isfinite(number) else repr(number)
