"""A run is passed over while nothing can be written for it, and never when something may be."""

from typing import Any

import pytest

from regions.cluster import EpochKey, EpochSeen, OwnerState, RankReport
from regions.kueue.calm import Calm
from regions.kueue.members import Members
from regions.kueue.objects.pod import Pod
from tests.unit.loops.seeing import observation
from tests.unit.regions.kueue.tellings import NOW_S, ended, make_node, make_pod
from tests.unit.regions.kueue.test_members import OURS, known, member
from tests.unit.regions.kueue.test_views import gang


def look(calm: Calm, *pods: Pod, epochs: tuple[EpochSeen, ...] = (), stirred: str = "") -> bool:
    """Look once; return whether the run of placement p1 is calm."""
    members = Members()
    members.look(known(*pods), known(make_node()), OURS, NOW_S)
    last = observation(epochs=epochs)
    return bool(calm.among({"p1": gang()}, {"p1": "run1"}, members, last, {stirred}))


def epoch(*running: bool, **changes: Any) -> EpochSeen:
    """A start of p1 with two ranks, each of which reports that it runs, or gets ready."""
    nonces = ("a" * 32, "b" * 32)
    fields: dict[str, Any] = {
        "key": EpochKey(run_key="run1", number=1, nonce="c" * 12),
        "placement": "p1",
        "owner": OwnerState.STARTED,
        "nonces": nonces,
        "reports": tuple(
            RankReport(
                rank=rank,
                nonce=nonces[rank],
                beat=1,
                is_running=is_running,
                step=None,
                loss=None,
                is_drain_acked=False,
                drain_step=None,
            )
            for rank, is_running in enumerate(running)
        ),
        "ends": (),
        "gone": frozenset(),
        "is_drain_written": False,
        "is_fence_written": False,
        "checkpoints": (),
    }
    return EpochSeen(**(fields | changes))


STANDING = (member(make_pod(), 0), member(make_pod(), 1))
TRAINING = epoch(True, True)


def test_a_gang_without_a_process_is_calm_and_its_first_process_is_news() -> None:
    calm = Calm()
    assert not look(calm)
    assert look(calm)
    assert not look(calm, STANDING[0])


@pytest.mark.parametrize(
    ("epochs", "is_calm"),
    [
        pytest.param((), False, id="it stands at its gate"),
        pytest.param((epoch(owner=OwnerState.ABSENT, nonces=()),), False, id="it may start"),
        pytest.param((epoch(True, False),), False, id="a rank gets ready"),
        pytest.param((epoch(True),), False, id="a rank has not reported"),
        pytest.param((epoch(True, gone=frozenset({1})),), True, id="a rank is gone"),
        pytest.param((TRAINING,), True, id="it trains"),
        pytest.param((epoch(True, True, is_drain_written=True),), False, id="it is to save"),
        pytest.param((epoch(True, True, is_fence_written=True),), False, id="it is to stop"),
    ],
)
def test_a_gang_is_calm_once_its_start_is_behind_it(
    epochs: tuple[EpochSeen, ...], is_calm: bool
) -> None:
    calm = Calm()
    look(calm, *STANDING, epochs=epochs)
    assert look(calm, *STANDING, epochs=epochs) is is_calm


def test_a_process_that_ended_is_news_once() -> None:
    calm = Calm()
    look(calm, *STANDING, epochs=(TRAINING,))
    after = (STANDING[0], member(ended(1), 1))
    assert not look(calm, *after, epochs=(TRAINING,))
    assert look(calm, *after, epochs=(TRAINING,))


def test_a_run_that_something_was_written_for_is_not_calm() -> None:
    calm = Calm()
    look(calm, *STANDING, epochs=(TRAINING,))
    assert not look(calm, *STANDING, epochs=(TRAINING,), stirred="run1")
