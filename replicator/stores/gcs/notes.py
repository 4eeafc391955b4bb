"""What is under way to a bucket, noted on this machine's disk, so that a kill begins nothing anew.

The rule: a note is a hint. What it says is held against what the store says, and one that leads
nowhere is dropped. It holds the right to write an object, so it lies where the broker's own data
does, and never in a store, where others could read it or put theirs. Read ``Notes``.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MAX_BYTES = 64 << 10
_LEFT = ".new"


@dataclass(frozen=True, slots=True)
class Notes:
    """Notes in a folder, by what they are about. Threads may share it: one object, one writer."""

    folder: Path

    def read(self, about: str) -> Mapping[str, str]:
        """Return what was noted; nothing when nothing was, or nothing that can be read."""
        try:
            with self._path(about).open("rb") as file:
                told = json.loads(file.read(MAX_BYTES))
        except (OSError, ValueError):
            return {}
        is_note = isinstance(told, dict) and all(isinstance(one, str) for one in told.values())
        return told if is_note else {}

    def write(self, about: str, said: Mapping[str, str]) -> None:
        """Note it. A disk that does not take it costs no more than the next kill."""
        path = self._path(about)
        fresh = path.with_name(path.name + _LEFT)
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                json.dump(dict(said), file)
            os.replace(fresh, path)

    def drop(self, about: str) -> None:
        """Forget it."""
        with suppress(OSError):
            self._path(about).unlink()

    def _path(self, about: str) -> Path:
        return self.folder / hashlib.sha256(about.encode()).hexdigest()
