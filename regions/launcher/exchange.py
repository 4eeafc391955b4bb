"""The private directory in which launcher and training talk, as ``BROKER_DIR``.

Training writes ``progress.json`` and ``drained.json``, the launcher writes ``drain.json``, each by
a rename. The rule: what training writes is anybody's text; it is bounded, and what cannot be read
changes nothing. Read ``Exchange`` first.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from typing import Any, Dict, Optional

from regions.launcher.codec import Unreadable, parse_object
from regions.launcher.words import told

MAX_BYTES = 64 << 10
MAX_TROUBLE = 200  # a sentence: it travels with every report
_MAX_INT = 2**53 - 1


@dataclass(frozen=True)
class Progress:
    """What training last said of itself; None was not said, or was not a number.

    ``trouble`` is why it cannot save, empty while it can.
    """

    step: Optional[int]
    loss: Optional[float]
    samples: Optional[int]
    trouble: str = ""


@dataclass(frozen=True)
class DrainAnswer:
    """Training saved and lets go; ``step`` is what it saved, None if there was nothing to save."""

    step: Optional[int]


class Exchange:
    """The directory of one process. ``loss_field`` is what training calls its loss."""

    def __init__(self, folder: str, loss_field: str) -> None:
        self.folder = folder
        self._loss_field = loss_field

    def progress(self) -> Optional[Progress]:
        """Return what training last said, or None."""
        found = self._read("progress.json")
        if found is None:
            return None
        return Progress(
            step=_whole(found.get("step")),
            loss=_number(self._loss_of(found)),
            samples=_whole(found.get("samples")),
            trouble=_trouble(found.get("fields")),
        )

    def _loss_of(self, found: Dict[str, Any]) -> Any:
        # Beside the step, or among the few more numbers that training may tell.
        if self._loss_field in found:
            return found[self._loss_field]
        fields = found.get("fields")
        return fields.get(self._loss_field) if isinstance(fields, dict) else None

    def drain_answer(self) -> Optional[DrainAnswer]:
        """Return the acknowledgement of a drain, or None."""
        found = self._read("drained.json")
        return None if found is None else DrainAnswer(step=_whole(found.get("step")))

    def ask_to_drain(self, reason: str, deadline_unix_s: Optional[float]) -> None:
        """Ask training to save and to acknowledge."""
        order = {"reason": reason, "deadline_unix_s": deadline_unix_s}
        write_whole(os.path.join(self.folder, "drain.json"), json.dumps(order).encode())

    def _read(self, name: str) -> Optional[Dict[str, Any]]:
        try:
            descriptor = os.open(os.path.join(self.folder, name), os.O_RDONLY | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                raw = file.read(MAX_BYTES + 1)
        except OSError:
            return None
        values = parse_object(raw or b"", MAX_BYTES)
        return None if isinstance(values, Unreadable) else values


def write_whole(path: str, data: bytes) -> None:
    """Write a local file so that it is seen whole or not at all."""
    scratch = f"{path}.{os.getpid()}.tmp"
    with open(scratch, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    os.replace(scratch, path)


def _trouble(fields: Any) -> str:
    value = fields.get("checkpoint_trouble") if isinstance(fields, dict) else None
    return told(value, MAX_TROUBLE) if isinstance(value, str) else ""


def _whole(value: Any) -> Optional[int]:
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_INT
    return value if fits else None


def _number(value: Any) -> Optional[float]:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, int):
        return float(value) if abs(value) <= _MAX_INT else None
    return value if math.isfinite(value) else None
