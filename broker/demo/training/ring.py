"""The gang's ring: every rank is connected to the next, and sums go around over TCP.

The rule it keeps: a sum is taken in the order of the ranks, whoever is slow, so that it has the
same bits every time; and a peer that goes away is noticed at once, so that no rank waits for
ever. Read `Ring.all_reduce` first.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import select
import socket
import struct
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

PEER_TIMEOUT_S = 30.0
RENDEZVOUS_TIMEOUT_S = 60.0
# A stranger at the door, a port scanner say, holds up the gang no longer than this.
HANDSHAKE_TIMEOUT_S = 5.0
RETRY_S = 0.05

_HELLO = struct.Struct("!IH")  # a rank, and the port at which it awaits its neighbour


class PeerLostError(Exception):
    """A neighbour in the ring closed its connection, was silent too long, or never came."""


class Ring:
    """Every rank's connections to the next and from the previous one."""

    def __init__(self, rank: int, size: int, after: socket.socket, before: socket.socket) -> None:
        self.rank, self.size = rank, size
        self.after, self.before = after, before
        for peer in (after, before):
            peer.setblocking(False)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def all_reduce(self, values: Floats) -> None:
        """Sum `values` over all ranks, in place; every rank ends with the same bits.

        Chunk i is summed in the order of the ranks i, i+1, … around the ring, whoever is slow.
        """
        bounds = np.linspace(0, len(values), self.size + 1).astype(int)
        chunks = [values[a:b] for a, b in itertools.pairwise(bounds)]
        arriving = np.empty(int(np.diff(bounds).max()), np.float32)
        for turn in range(self.size - 1):
            mine = chunks[(self.rank - turn) % self.size]
            theirs = chunks[(self.rank - turn - 1) % self.size]
            received = arriving[: len(theirs)]
            self._exchange(mine, received)
            np.add(received, theirs, out=theirs)
        for turn in range(self.size - 1):
            mine = chunks[(self.rank + 1 - turn) % self.size]
            theirs = chunks[(self.rank - turn) % self.size]
            self._exchange(mine, theirs)

    def _exchange(self, outgoing: Floats, incoming: Floats) -> None:
        """Send to the next rank while receiving from the previous, so that no two can block."""
        to_send, to_fill = outgoing.data.cast("B"), incoming.data.cast("B")
        while len(to_send) or len(to_fill):
            readers = [self.before] if len(to_fill) else []
            writers = [self.after] if len(to_send) else []
            readable, writable, _ = select.select(readers, writers, [], PEER_TIMEOUT_S)
            if not readable and not writable:
                raise PeerLostError(f"a neighbour of rank {self.rank} was silent for too long")
            try:
                if writable:
                    to_send = to_send[self.after.send(to_send) :]
                if readable:
                    count = self.before.recv_into(to_fill)
                    if count == 0:
                        raise PeerLostError(f"rank {(self.rank - 1) % self.size} went away")
                    to_fill = to_fill[count:]
            except BlockingIOError:
                continue
            except OSError as error:
                raise PeerLostError(f"a neighbour of rank {self.rank} went away") from error

    def close(self) -> None:
        """Close both connections; the neighbours notice at once."""
        self.after.close()
        self.before.close()


def join_ring(
    rank: int,
    size: int,
    *,
    master: tuple[str, int],
    token: bytes,
    timeout_s: float = RENDEZVOUS_TIMEOUT_S,
) -> Ring:
    """Meet the other ranks at `master`, rank 0's host and port, and form the ring.

    `token` keeps gangs apart: it is the same for all ranks of one start and for no other, and
    always of the same length. Raises PeerLostError if not all come within `timeout_s` seconds.
    """
    deadline = time.monotonic() + timeout_s
    with contextlib.ExitStack() as doors:
        if rank == 0:
            meeting = doors.enter_context(_listen(master, deadline))
            listener = doors.enter_context(_listen((meeting.getsockname()[0], 0), deadline))
            addresses = _gather(meeting, listener.getsockname()[1], size, token, deadline)
        else:
            listener, addresses = _visit(rank, master, token, deadline)
            doors.enter_context(listener)
        host, port = addresses[(rank + 1) % size]
        after = _call((host or master[0], port), token, deadline)
        with _closed_on_error(after):
            return Ring(rank, size, after, _accept(listener, token, deadline))


def _gather(
    meeting: socket.socket, own_port: int, size: int, token: bytes, deadline: float
) -> list[tuple[str, int]]:
    """Rank 0 alone: learn where every rank awaits its neighbour, and tell all of them."""
    addresses = [("", own_port)] * size  # rank 0's host is the one that everybody knows
    with contextlib.ExitStack() as visits:
        visitors: dict[int, socket.socket] = {}
        while len(visitors) < size - 1:
            visitor = visits.enter_context(_accept(meeting, token, deadline))
            with contextlib.suppress(PeerLostError):  # who hangs up now comes again
                rank, port = _HELLO.unpack(_receive(visitor, _HELLO.size, deadline))
                addresses[rank] = (visitor.getpeername()[0], port)
                visitors[rank] = visitor
        answer = json.dumps(addresses).encode()
        for visitor in visitors.values():
            with contextlib.suppress(OSError):
                visitor.sendall(answer)
    return addresses


def _visit(
    rank: int, master: tuple[str, int], token: bytes, deadline: float
) -> tuple[socket.socket, list[tuple[str, int]]]:
    """Every other rank: say where it awaits its neighbour, and learn where the others do."""
    while True:
        try:
            with _connect(master, deadline) as visit:
                listener = _listen((visit.getsockname()[0], 0), deadline)
                with _closed_on_error(listener):
                    visit.sendall(token + _HELLO.pack(rank, listener.getsockname()[1]))
                    return listener, json.loads(_receive_all(visit, deadline))
        except OSError as error:
            # Nobody there yet, or the one at this port is of another gang and hung up.
            _pause(deadline, f"rank 0 is not at {master[0]}:{master[1]}: {error}")


def _call(address: tuple[str, int], token: bytes, deadline: float) -> socket.socket:
    """Connect to the next rank, which listens already: a refusal means that it is gone."""
    try:
        after = _connect(address, deadline)
        with _closed_on_error(after):
            after.sendall(token)
    except OSError as error:
        raise PeerLostError(f"the next rank is not at {address[0]}:{address[1]}") from error
    return after


def _connect(address: tuple[str, int], deadline: float) -> socket.socket:
    peer = socket.create_connection(address, timeout=_left_s(deadline))
    if peer.getsockname() == peer.getpeername():
        # With nobody at a port of the ephemeral range, TCP can connect a socket to itself.
        peer.close()
        raise ConnectionRefusedError("nobody listens there")
    return peer


def _listen(address: tuple[str, int], deadline: float) -> socket.socket:
    while True:
        try:
            return socket.create_server(address, backlog=128)
        except OSError as error:  # the gang before this one may still be letting go of the port
            _pause(deadline, f"cannot listen at {address[0]}:{address[1]}: {error}")


def _accept(listener: socket.socket, token: bytes, deadline: float) -> socket.socket:
    """The next connection that knows `token`; a stranger is hung up on."""
    while True:
        listener.settimeout(_left_s(deadline))
        try:
            peer, _ = listener.accept()
        except TimeoutError:
            raise PeerLostError("not all ranks of the gang came") from None
        patience = min(deadline, time.monotonic() + HANDSHAKE_TIMEOUT_S)
        with contextlib.suppress(PeerLostError):
            if _receive(peer, len(token), patience) == token:
                return peer
        peer.close()


def _receive(peer: socket.socket, size: int, deadline: float) -> bytes:
    data = b""
    while len(data) < size:
        peer.settimeout(_left_s(deadline))
        try:
            chunk = peer.recv(size - len(data))
        except OSError as error:
            raise PeerLostError(f"a peer went away: {error}") from error
        if not chunk:
            raise PeerLostError("a peer hung up")
        data += chunk
    return data


def _receive_all(peer: socket.socket, deadline: float) -> bytes:
    """All that `peer` says until it hangs up; raises OSError if that is nothing."""
    data = b""
    peer.settimeout(_left_s(deadline))
    while chunk := peer.recv(65536):
        data += chunk
    if not data:
        raise ConnectionResetError("it hung up")
    return data


@contextlib.contextmanager
def _closed_on_error(connection: socket.socket) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _left_s(deadline: float) -> float:
    return max(0.01, deadline - time.monotonic())


def _pause(deadline: float, why: str) -> None:
    if time.monotonic() >= deadline:
        raise PeerLostError(why)
    time.sleep(RETRY_S)
