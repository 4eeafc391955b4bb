"""Ports and loopback networks that no other rig of this machine has, held as long as the rig lives.

The rule: what is taken is locked by a file, so that two rigs that start at once never meet; the
kernel drops the lock with the process. Read ``Leases``.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

FIRST_PORT, LAST_PORT = 20_000, 32_000  # below what Linux hands out to clients by itself
FIRST_NETWORK, LAST_NETWORK = 16, 250  # of 127.n.0.0/16; 127.0 is everybody's


class NothingFreeError(Exception):
    """Every port or network of the range is taken."""


class Leases:
    """What one rig holds of this machine. ``release`` gives all of it back."""

    def __init__(self, folder: Path | None = None) -> None:
        name = f"capacity-broker-rig-{os.getuid()}"
        self._folder = folder or Path(tempfile.gettempdir(), name)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._held: list[int] = []

    def port(self) -> int:
        """Return a port of loopback on which nobody listens."""
        for port in random.sample(range(FIRST_PORT, LAST_PORT), LAST_PORT - FIRST_PORT):
            if self._lock(f"port-{port}") and is_free(port):
                return port
        raise NothingFreeError("no port of loopback is free")

    def network(self) -> int:
        """Return n, where 127.n.0.0/16 is ours: each pod gets an address of its own in it."""
        for number in range(FIRST_NETWORK, LAST_NETWORK):
            if self._lock(f"network-{number}"):
                return number
        raise NothingFreeError("no network of loopback is free")

    def release(self) -> None:
        """Give everything back."""
        while self._held:
            os.close(self._held.pop())

    def _lock(self, name: str) -> bool:
        handle = os.open(self._folder / name, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        self._held.append(handle)
        return True


def is_free(port: int) -> bool:
    """Whether a server could listen on this port of every address."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True
