"""How often who is refused may try again."""

from __future__ import annotations

import pytest

from broker.access.tries import KEPT_MAX, REFILL_S, TRIES, Tries, peer_of

ONE, OTHER = ("10.0.0.1", ""), ("10.0.0.1", "k3v9x0q2m7ab")


class Hand:
    """A clock that is moved by hand."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_after_so_many_failures_one_has_to_wait_for_each_more() -> None:
    hand = Hand()
    tries = Tries(hand)
    for _ in range(TRIES):
        assert tries.wait_s(ONE) == 0
        tries.failed(ONE)
    assert tries.wait_s(ONE) == pytest.approx(REFILL_S)
    assert tries.wait_s(OTHER) == 0
    hand.now_s += REFILL_S / 2
    assert tries.wait_s(ONE) == pytest.approx(REFILL_S / 2)
    hand.now_s += REFILL_S / 2
    assert tries.wait_s(ONE) == 0
    tries.failed(ONE)
    assert tries.wait_s(ONE) == pytest.approx(REFILL_S)
    hand.now_s += REFILL_S * TRIES * 100
    for _ in range(TRIES):
        tries.failed(ONE)
    assert tries.wait_s(ONE) > 0


def test_a_million_peers_take_no_more_room_than_some() -> None:
    tries = Tries(Hand())
    for number in range(3 * KEPT_MAX):
        for _ in range(TRIES):
            tries.failed((str(number), ""))
    assert tries.wait_s(("0", "")) == 0
    assert tries.wait_s((str(3 * KEPT_MAX - 1), "")) > 0
    assert len(tries._left) == KEPT_MAX


@pytest.mark.parametrize(
    ("said", "peer"),
    [
        ("ipv4:10.0.0.1:5", "10.0.0.1"),
        ("ipv6:[2001:db8:1:2:3::4]:5", "2001:db8:1:2::/64"),
        ("ipv6:%5B2001:db8:1:2:3::4%5D:5", "2001:db8:1:2::/64"),
        ("ipv6:%5Bfe80::1%25eth0%5D:5", "fe80::/64"),
        ("ipv6:[::ffff:10.0.0.1]:5", "10.0.0.1"),
        ("unix:", "unix"),
        ("", ""),
        ("nonsense" * 10, "nonsensenonsense"),
    ],
)
def test_a_peer_is_counted_by_its_address(said: str, peer: str) -> None:
    assert peer_of(said) == peer
