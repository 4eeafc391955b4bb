"""Which logs of ended placements are let go."""

import pytest

from regions.local.letting_go import EndedLogs, to_let_go

MIB = 1 << 20


def logs(*sizes: int) -> list[EndedLogs]:
    """Logs of these sizes in MiB, each ended a second after the one before."""
    return [
        EndedLogs(uid=f"j{number}", ended_s=float(number), size_bytes=size * MIB)
        for number, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("sizes", "gone"),
    [
        pytest.param((), (), id="nothing ended"),
        pytest.param((4, 4), (), id="all is within"),
        pytest.param((4, 4, 4), ("j0",), id="the oldest goes"),
        pytest.param((4, 4, 1), ("j0",), id="what comes to the limit stays"),
        pytest.param((1, 30), ("j0",), id="the newest stays though it is more than all"),
    ],
)
def test_the_newest_logs_are_kept_within_their_bytes(
    sizes: tuple[int, ...], gone: tuple[str, ...]
) -> None:
    assert to_let_go(logs(*sizes), 10.0, keep_bytes=8 * MIB, keep_s=100.0) == gone


def test_what_is_old_goes_though_there_is_room() -> None:
    assert to_let_go(logs(1, 1, 1), 101.5, keep_bytes=8 * MIB, keep_s=100.0) == ("j1", "j0")
