"""The processes of gangs: started in sessions of their own, found again, and ended as whole trees.

The rule: a member is a little machine. When its first process goes, everything it had started goes
with it, as in a container; and it is called gone only when nothing of it was found. A process is
ours only if its environment names this cluster and its member, or it descends from one that does:
a number alone is never believed, for numbers are used again. Read ``Processes`` first.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

CLUSTER_MARK = "BROKER_CLUSTER_DIR"
MEMBER_MARK = "BROKER_MEMBER"
MAX_ENVIRON_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One running process that carries this cluster's mark, or descends from one that does."""

    pid: int
    start_ticks: int
    member: str
    is_first: bool
    environ: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stat:
    pid: int
    parent: int
    session: int
    start_ticks: int
    is_zombie: bool


class Processes:
    """The running members of one cluster.

    ``mark`` names the cluster in their environments. ``on_exit`` is called in the event loop with
    a member's id once its first process has ended.
    """

    def __init__(self, mark: str, on_exit: Callable[[str], None]) -> None:
        self._mark = mark
        self._on_exit = on_exit
        self._watched: dict[str, int] = {}
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def start(
        self, member: str, command: tuple[str, ...], env: Mapping[str, str], *, cwd: Path, log: Path
    ) -> tuple[int, int]:
        """Start a member and watch it. Returns its pid and start time in ticks. Raises OSError."""
        with log.open("ab", buffering=0) as output:
            child = subprocess.Popen(
                command,
                cwd=cwd,
                env={**env, CLUSTER_MARK: self._mark, MEMBER_MARK: member},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._children[member] = child
        stat = read_stat(child.pid)
        ticks = stat.start_ticks if stat is not None else 0
        self._watch(member, child.pid)
        return child.pid, ticks

    def adopt(self, member: str, pid: int, start_ticks: int) -> bool:
        """Watch a member that a former daemon started. False: it is not there any more."""
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            return False
        # Opened first, checked after: from here on the number cannot come to mean another.
        stat = read_stat(pid)
        if stat is None or stat.start_ticks != start_ticks or stat.is_zombie:
            os.close(descriptor)
            return False
        self._listen(member, descriptor)
        return True

    def is_watched(self, member: str) -> bool:
        """Whether the member's first process was started or adopted here and not yet reaped."""
        return member in self._watched or member in self._children

    def ask_to_go(self, member: str) -> None:
        """Send SIGTERM to the member's first process: its launcher tells the rest."""
        descriptor = self._watched.get(member)
        if descriptor is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGTERM)

    def reap(self, member: str) -> int | None:
        """Return how a child of ours ended as a wait status: the exit code, or minus the signal.

        None: it was a former daemon's child, and the kernel told its end to somebody else.
        """
        child = self._children.pop(member, None)
        return child.wait() if child is not None else None

    def close(self) -> None:
        """Stop watching. The processes go on."""
        for descriptor in self._watched.values():
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)
        self._watched.clear()

    def _watch(self, member: str, pid: int) -> None:
        self._listen(member, os.pidfd_open(pid))

    def _listen(self, member: str, descriptor: int) -> None:
        self._watched[member] = descriptor
        asyncio.get_running_loop().add_reader(descriptor, self._ended, member)

    def _ended(self, member: str) -> None:
        descriptor = self._watched.pop(member)
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
        self._on_exit(member)


def find(mark: str) -> tuple[Found, ...]:
    """Return every running process of the cluster with this mark, zombies left out."""
    stats = {stat.pid: stat for stat in map(read_stat, _pids()) if stat is not None}
    marked: dict[int, dict[str, str]] = {}
    for pid in stats:
        environ = _environ(pid)
        if environ.get(CLUSTER_MARK) == mark and environ.get(MEMBER_MARK):
            marked[pid] = environ
    found = []
    for stat in stats.values():
        origin = _origin(stat, stats, marked)
        if origin is None or stat.is_zombie:
            continue
        found.append(
            Found(
                pid=stat.pid,
                start_ticks=stat.start_ticks,
                member=marked[origin][MEMBER_MARK],
                is_first=stat.pid == origin and stat.session == stat.pid and _is_top(stat, marked),
                environ=marked.get(stat.pid, {}),
            )
        )
    return tuple(found)


def kill(processes: Iterable[Found]) -> None:
    """Send SIGKILL to each, if it is still the very process that was found."""
    for process in processes:
        try:
            descriptor = os.pidfd_open(process.pid)
        except OSError:
            continue
        try:
            stat = read_stat(process.pid)
            if stat is not None and stat.start_ticks == process.start_ticks:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        finally:
            os.close(descriptor)


def read_stat(pid: int) -> _Stat | None:
    """Read what the kernel says of a process, or None if there is none."""
    try:
        raw = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The name in brackets may hold anything, spaces and brackets too: read from behind it.
    fields = raw[raw.rfind(b")") + 2 :].split()
    return _Stat(
        pid=pid,
        parent=int(fields[1]),
        session=int(fields[3]),
        start_ticks=int(fields[19]),
        is_zombie=fields[0] in (b"Z", b"X"),
    )


def boot_id() -> str:
    """Name this life of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _environ(pid: int) -> dict[str, str]:
    try:
        with Path(f"/proc/{pid}/environ").open("rb") as stream:
            raw = stream.read(MAX_ENVIRON_BYTES)
    except OSError:
        return {}
    if MEMBER_MARK.encode() not in raw:
        return {}
    pairs = (part.partition(b"=") for part in raw.split(b"\0") if part)
    return {
        name.decode(errors="replace"): value.decode(errors="replace") for name, _, value in pairs
    }


def _origin(
    stat: _Stat, stats: Mapping[int, _Stat], marked: Mapping[int, Mapping[str, str]]
) -> int | None:
    """The marked process that this one is or descends from."""
    seen: set[int] = set()
    pid = stat.pid
    while pid not in seen:
        if pid in marked:
            return pid
        seen.add(pid)
        parent = stats.get(pid)
        if parent is None or parent.parent <= 1:
            return None
        pid = parent.parent
    return None


def _is_top(stat: _Stat, marked: Mapping[int, Mapping[str, str]]) -> bool:
    """Whether its parent belongs to another member or to none: then it is a member's first."""
    parent = marked.get(stat.parent)
    return parent is None or parent[MEMBER_MARK] != marked[stat.pid][MEMBER_MARK]
