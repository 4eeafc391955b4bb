"""The door between a broker and a region: each fault does what it says, to both sides' bytes."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.rig.door import Door, Fault
from tests.cluster.rig.leases import Leases
from tests.cluster.rig.waiting import wait_until

PATIENCE_S = 0.5


class Echo:
    """A server that answers each piece with itself, and keeps what it heard."""

    def __init__(self) -> None:
        self.heard = b""
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # the thread that accepts would keep it open
        self._server.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                one, _ = self._server.accept()
                threading.Thread(target=self._answer, args=(one,), daemon=True).start()

    def _answer(self, one: socket.socket) -> None:
        with one, contextlib.suppress(OSError):
            while piece := one.recv(100):
                self.heard += piece
                one.sendall(piece)


@pytest.fixture
def echo() -> Iterator[Echo]:
    made = Echo()
    yield made
    made.close()


@pytest.fixture
def door(echo: Echo, tmp_path: Path) -> Iterator[Door]:
    leases = Leases(tmp_path)
    made = Door(leases.port(), echo.port)
    made.open()
    yield made
    made.close()
    leases.release()


@pytest.fixture
def client(door: Door) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", door.port), timeout=PATIENCE_S) as made:
        made.sendall(b"first")
        assert made.recv(100) == b"first"
        yield made


def test_a_silent_door_keeps_what_it_was_given(
    echo: Echo, door: Door, client: socket.socket
) -> None:
    door.fault(Fault.SILENT)
    client.sendall(b"second")
    with pytest.raises(TimeoutError):
        client.recv(100)
    assert echo.heard == b"first"
    door.fault(Fault.NONE)
    client.settimeout(30)
    assert client.recv(100) == b"second"


def test_a_silent_door_takes_new_connections_and_hangs(door: Door) -> None:
    door.fault(Fault.SILENT)
    with socket.create_connection(("127.0.0.1", door.port), timeout=PATIENCE_S) as late:
        late.sendall(b"x")
        with pytest.raises(TimeoutError):
            late.recv(100)


def test_a_deaf_door_loses_answers_alone(echo: Echo, door: Door, client: socket.socket) -> None:
    door.fault(Fault.DEAF)
    client.sendall(b"second")
    with pytest.raises(TimeoutError):
        client.recv(100)
    assert echo.heard == b"firstsecond"


@pytest.mark.parametrize("is_closed", [True, False])
def test_connections_are_cut_at_once_and_new_ones_only_when_closed(
    door: Door, client: socket.socket, is_closed: bool
) -> None:
    if is_closed:
        door.fault(Fault.CLOSED)
    else:
        door.cut()
    client.settimeout(30)
    assert is_cut(client)
    with socket.create_connection(("127.0.0.1", door.port), timeout=30) as late:
        if is_closed:
            assert is_cut(late)
        else:
            late.sendall(b"again")
            assert late.recv(100) == b"again"


def test_a_slow_door_holds_each_piece_back(door: Door, client: socket.socket) -> None:
    door.slow(2 * PATIENCE_S)
    client.sendall(b"second")
    with pytest.raises(TimeoutError):
        client.recv(100)
    client.settimeout(30)
    assert client.recv(100) == b"second"


def test_a_door_to_nobody_is_a_reset(echo: Echo, door: Door) -> None:
    echo.close()

    def is_refused() -> bool:
        with socket.create_connection(("127.0.0.1", door.port), timeout=30) as late:
            return is_cut(late)

    assert wait_until(is_refused, 30, "the reset")


def is_cut(client: socket.socket) -> bool:
    try:
        return client.recv(100) == b""
    except ConnectionResetError:
        return True
