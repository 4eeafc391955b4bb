"""The all-reduce: every rank gets the same sum, bit for bit, or says who is missing."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pytest

from broker.demo.training.ring import PeerLostError, Ring, join_ring
from tests.unit.demo.gang import free_port

Floats = npt.NDArray[np.float32]
T = TypeVar("T")
TOKEN = b"one start, 16 B."


def in_a_ring(size: int, work: Callable[[Ring], T]) -> list[T]:
    """What `work` returns in each rank of a ring of threads."""
    master = ("127.0.0.1", free_port())

    def one(rank: int) -> T:
        with closing(join_ring(rank, size, master=master, token=TOKEN, timeout_s=20)) as ring:
            return work(ring)

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(one, range(size)))


def values_of(rank: int, length: int) -> Floats:
    return np.random.default_rng(rank).standard_normal(length, np.float32)


@pytest.mark.parametrize("size", [2, 3, 5, 8])
@pytest.mark.parametrize("length", [1, 7, 1000])
def test_every_rank_gets_the_sum_in_ring_order(size: int, length: int) -> None:
    def work(ring: Ring) -> bytes:
        values = values_of(ring.rank, length)
        ring.all_reduce(values)
        return values.tobytes()

    bounds = np.linspace(0, length, size + 1).astype(int)
    expected = np.empty(length, np.float32)
    for first in range(size):
        chunk = slice(bounds[first], bounds[first + 1])
        total = values_of(first, length)[chunk].copy()
        for rank in range(first + 1, first + size):
            total = total + values_of(rank % size, length)[chunk]
        expected[chunk] = total
    assert in_a_ring(size, work) == [expected.tobytes()] * size


def test_more_than_the_sockets_hold_goes_around_without_a_standstill() -> None:
    length = 8_000_000  # 16 MB a chunk

    def work(ring: Ring) -> float:
        values = np.full(length, ring.rank + 1, np.float32)
        ring.all_reduce(values)
        return float(values.min() + values.max())

    assert in_a_ring(2, work) == [6.0, 6.0]


def test_a_peer_that_leaves_is_noticed_by_its_neighbours() -> None:
    def work(ring: Ring) -> str:
        if ring.rank == 1:
            return "left"
        with pytest.raises(PeerLostError):
            ring.all_reduce(np.ones(10, np.float32))
        return "noticed"

    assert in_a_ring(3, work) == ["noticed", "left", "noticed"]


def test_a_gang_that_is_not_whole_gives_up() -> None:
    with pytest.raises(PeerLostError, match="not all ranks"):
        join_ring(0, 2, master=("127.0.0.1", free_port()), token=TOKEN, timeout_s=0.2)
    with pytest.raises(PeerLostError, match="rank 0 is not at"):
        join_ring(1, 2, master=("127.0.0.1", free_port()), token=TOKEN, timeout_s=0.2)


def test_a_stranger_at_the_door_is_hung_up_on() -> None:
    port = free_port()
    with ThreadPoolExecutor(2) as pool:
        zero = pool.submit(join_ring, 0, 2, master=("127.0.0.1", port), token=TOKEN, timeout_s=20)
        with _connected(port) as stranger:
            stranger.sendall(b"another start 16")
            assert stranger.recv(1) == b""
        one = pool.submit(join_ring, 1, 2, master=("127.0.0.1", port), token=TOKEN, timeout_s=20)
        with closing(zero.result()), closing(one.result()):
            assert (zero.result().rank, one.result().rank) == (0, 1)


def _connected(port: int) -> socket.socket:
    while True:
        try:
            peer = socket.create_connection(("127.0.0.1", port), timeout=20)
        except ConnectionRefusedError:
            continue
        if peer.getsockname() != peer.getpeername():
            return peer
        peer.close()
