"""What time it is in a cluster, by what its answers say of it."""

import pytest

from regions.kueue.clock import ServerTime

OURS_S = 1_794_096_000.0  # 2026-11-08T00:00:00Z


@pytest.mark.parametrize(
    ("date", "ahead_s"),
    [
        ("Sun, 08 Nov 2026 00:00:00 GMT", 0.0),
        ("Sun, 08 Nov 2026 00:00:02 GMT", 0.0),
        ("Sun, 08 Nov 2026 00:10:00 GMT", 600.0),
        ("Sat, 07 Nov 2026 23:00:00 GMT", -3600.0),
        ("", 0.0),
        ("yesterday", 0.0),
        ("Sun, 08 Nov 99999 00:00:00 GMT", 0.0),
        ("Sun, 38 Nov 2026 00:00:00 +9999999999", 0.0),
    ],
)
def test_a_server_says_how_far_its_clock_is_from_ours(date: str, ahead_s: float) -> None:
    time = ServerTime(lambda: OURS_S)
    time.hear(date)
    assert time.wall_s() - OURS_S == ahead_s


def test_a_clock_that_is_nearly_the_same_is_not_set_at_each_answer() -> None:
    time = ServerTime(lambda: OURS_S)
    told = []
    for second in (10, 11, 12, 13):
        time.hear(f"Sun, 08 Nov 2026 00:00:{second} GMT")
        told.append(time.wall_s() - OURS_S)
    assert told == [10.0, 10.0, 10.0, 13.0]


def test_clocks_that_are_apart_are_told() -> None:
    time = ServerTime(lambda: OURS_S)
    assert time.doubts() == ()
    time.hear("Sun, 08 Nov 2026 00:00:20 GMT")
    assert time.doubts() == ()
    time.hear("Sun, 08 Nov 2026 00:02:00 GMT")
    assert time.doubts() == ("the cluster's clock is 120 s ahead of the broker's",)
    time.hear("Sat, 07 Nov 2026 23:59:00 GMT")
    assert time.doubts() == ("the cluster's clock is 60 s behind the broker's",)
