"""The user's command as a process group, and the launcher's ear for signals.

The rule: the group ends as a whole. Nothing of it is left when the launcher says that it stopped,
and the command does not outlive a launcher that is killed. Read ``Child`` first.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import time
from contextlib import suppress
from typing import Callable, Dict, List, Optional, Tuple

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_GROUP_GONE_S = 5.0
"""How long to wait until the kernel has removed a group that was sent SIGKILL."""


class Child:
    """A running command, in a session and a group of its own."""

    def __init__(self, command: Tuple[str, ...], folder: Optional[str], env: Dict[str, str]):
        _inherit_orphans()
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_die_with_parent(),  # noqa: PLW1509 - the launcher has one thread
        )

    @property
    def group(self) -> int:
        """The process group's id."""
        return self._process.pid

    def returncode(self) -> Optional[int]:
        """Return the command's exit code, minus n for signal n, or None while it runs."""
        return self._process.poll()

    def signal_group(self, number: int) -> None:
        """Send a signal to every process of the group that is still there."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def end_group(self) -> None:
        """Kill what the command left behind, and wait until it is gone.

        Also what left its group for a session of its own, as the workers of an elastic agent do:
        they train on when the agent is killed, and whoever was told that it stopped starts another
        gang.
        """
        deadline_s = time.monotonic() + _GROUP_GONE_S
        while time.monotonic() < deadline_s:
            self.signal_group(signal.SIGKILL)
            left = _descendants(os.getpid())
            for pid in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            # What nobody waits for looks alive from outside.
            _reap_orphans()
            if not left:
                return
            time.sleep(0.01)


class Ear:
    """Hears SIGTERM and SIGINT as notices, SIGCHLD as news, and sleeps until one comes."""

    def __init__(self) -> None:
        self.notices = 0
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(self._write_end, False)
        signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._hear_notice)
        signal.signal(signal.SIGINT, self._hear_notice)
        signal.signal(signal.SIGCHLD, _hear_nothing)

    def sleep(self, seconds: float) -> None:
        """Sleep for at most so long, less if a signal comes or came."""
        select.select([self._read_end], [], [], max(0.0, seconds))
        with suppress(BlockingIOError):
            os.read(self._read_end, 4096)

    def _hear_notice(self, _number: int, _frame: object) -> None:
        self.notices += 1


def _hear_nothing(_number: int, _frame: object) -> None:
    """Only there so that the signal ends a sleep."""


def _reap_orphans() -> None:
    """Take leave of children that have ended; the command itself was waited for before."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _descendants(root: int) -> List[int]:
    """Every process that descends from one, the ended ones left out; none without ``/proc``."""
    children: Dict[int, List[Tuple[int, bool]]] = {}
    with suppress(OSError):
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            with suppress(OSError):
                with open(f"/proc/{name}/stat", "rb") as stream:
                    raw = stream.read(4096)
                # Behind the name in brackets, which may hold anything: the state, the parent.
                state, parent = raw[raw.rfind(b")") + 2 :].split()[:2]
                is_over = state in (b"Z", b"X")
                children.setdefault(int(parent), []).append((int(name), is_over))
    found: List[int] = []
    wanted = [root]
    while wanted:
        for pid, is_over in children.pop(wanted.pop(), []):
            wanted.append(pid)
            if not is_over:
                found.append(pid)
    return found


def _inherit_orphans() -> None:
    """Be the parent of what the command leaves behind, as process 1 of a container is anyway.

    A machine's own process 1 can take a second to reap it, which is the time that a gang has left
    when its machine is taken away.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _die_with_parent() -> Callable[[], None]:
    # Loaded before the fork: between fork and exec nothing may allocate more than it must.
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        set_option = libc.prctl
    except (OSError, AttributeError):
        return _hear_no_parent
    parent = os.getpid()

    def ask() -> None:
        set_option(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return ask


def _hear_no_parent() -> None:
    """On a kernel without the option the command may outlive a killed launcher."""
