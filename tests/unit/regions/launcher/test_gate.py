"""What a process at its gate does by itself: how soon it looks again."""

from regions.launcher.gate import pause_s


def test_a_wait_begins_with_close_looks_and_ends_in_the_plain_poll() -> None:
    pauses = [pause_s(1.0, looks, 2) for looks in range(12)]
    assert pauses[0] == 0.125
    assert pauses == sorted(pauses)
    assert pauses[10:] == [1.0, 1.0]


def test_a_wait_of_days_ends_in_the_plain_poll() -> None:
    assert pause_s(0.2, 10**9, 2) == 0.2


def test_who_is_a_whole_gang_looks_again_at_once_and_only_then_waits() -> None:
    assert pause_s(1.0, 0, 1) == 0.0
    assert [pause_s(1.0, looks, 1) for looks in (1, 2)] == [pause_s(1.0, n, 2) for n in (1, 2)]
