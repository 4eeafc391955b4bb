"""Where an embedded cluster keeps its things, and how its state gets to disk.

The rule: nothing is read or removed but by names made here from ids made here, and the state file
is replaced whole or not at all. Read ``Disk`` first.
"""

import compileall
import fcntl
import hashlib
import io
import os
import shutil
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

from regions.launcher.pack import pack
from regions.local.state import SCHEMA_VERSION, State


class DirectoryInUseError(Exception):
    """Another daemon runs on this directory."""


class StateUnreadableError(Exception):
    """The state file is there and is not one of ours."""


class Disk:
    """One cluster's directory, made if it is absent, for its owner alone."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._program = pack()
        self.launcher = self.root / f"launcher-{hashlib.sha256(self._program).hexdigest()[:16]}"
        self._state_file = self.root / "state.json"
        self._members = self.root / "members"
        self._logs = self.root / "logs"
        self._lock: IO[bytes] | None = None
        self._written = b""

    @property
    def mark(self) -> str:
        """What names this cluster in its processes' environments."""
        return str(self.root)

    def claim(self) -> None:
        """Make sure that no other daemon runs here. Raises DirectoryInUseError."""
        lock = (self.root / "lock").open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.close()
            raise DirectoryInUseError(f"another cluster runs in {self.root}") from error
        self._lock = lock

    def prepare(self) -> None:
        """Make the folders, and the launcher: its one file unpacked and compiled, since many are
        started here and each would compile it anew."""
        self._members.mkdir(mode=0o700, exist_ok=True)
        self._logs.mkdir(mode=0o700, exist_ok=True)
        if self.launcher.is_dir():
            return
        scratch = self.root / ".launcher.new"
        shutil.rmtree(scratch, ignore_errors=True)
        with zipfile.ZipFile(io.BytesIO(self._program)) as archive:
            archive.extractall(scratch)
        compileall.compile_dir(scratch, quiet=2)
        scratch.replace(self.launcher)

    def load(self) -> State | None:
        """Read the state; None if there is none yet. Raises StateUnreadableError."""
        try:
            raw = self._state_file.read_bytes()
        except FileNotFoundError:
            return None
        try:
            state = msgspec.json.decode(raw, type=State)
        except msgspec.MsgspecError as error:
            raise StateUnreadableError(f"{self._state_file}: {error}") from error
        if state.schema_version != SCHEMA_VERSION:
            found = state.schema_version
            raise StateUnreadableError(f"{self._state_file}: schema version {found}")
        return state

    def save(self, state: State) -> None:
        """Write the state down, if it differs from what was written last."""
        raw = msgspec.json.encode(state)
        if raw != self._written:
            self._replace(self._state_file, raw)
            self._written = raw

    def member(self, member: str) -> Path:
        """A member's private folder."""
        return self._members / member

    def make_member(self, member: str, uid: str) -> Path:
        """Make a member's private folder and its object's folder of logs."""
        (self._logs / uid).mkdir(mode=0o700, exist_ok=True)
        folder = self.member(member)
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def log(self, uid: str, rank: int) -> Path:
        """Where a rank's output goes: one file for all gangs of one object."""
        return self._logs / uid / f"rank-{rank}.log"

    def members(self) -> list[str]:
        """The members that have a folder."""
        return sorted(entry.name for entry in self._members.iterdir())

    def logged(self) -> list[str]:
        """The objects that have logs."""
        return sorted(entry.name for entry in self._logs.iterdir())

    def log_files(self, uid: str) -> tuple[Path, ...]:
        """The logs of an object, none once they were let go."""
        return tuple(sorted((self._logs / uid).glob("rank-*.log")))

    def drop_member(self, member: str) -> None:
        """Remove a member's private folder."""
        shutil.rmtree(self._members / member, ignore_errors=True)

    def drop_logs(self, uid: str) -> None:
        """Remove an object's logs."""
        shutil.rmtree(self._logs / uid, ignore_errors=True)

    def remove(self) -> None:
        """Remove everything of ours; the directory itself only if nothing else is in it."""
        launchers = self.root.glob("launcher-*")
        for folder in (self._members, self._logs, self.root / ".launcher.new", *launchers):
            shutil.rmtree(folder, ignore_errors=True)
        for name in ("state.json", ".state.json.new", "lock"):
            (self.root / name).unlink(missing_ok=True)
        if not any(self.root.iterdir()):
            self.root.rmdir()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _replace(self, path: Path, data: bytes) -> None:
        scratch = path.with_name(f".{path.name}.new")
        try:
            with scratch.open("wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            scratch.replace(path)
        except OSError:
            with suppress(OSError):
                scratch.unlink()
            raise
