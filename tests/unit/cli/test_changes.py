"""What a change says that it came to."""

import pytest

from broker.cli.amend import what_follows
from broker.cli.changes import CANCEL_GRACE_S, cancelled
from broker.service import run_service
from broker.v1 import run_pb2, why_pb2

RUNNING, CANCELLED = run_pb2.RUN_STATE_RUNNING, run_pb2.RUN_STATE_CANCELLED


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (
            run_pb2.Run(state=RUNNING, draining=True),
            "digits: cancel accepted; it has up to 1m30s to save, then stops",
        ),
        (run_pb2.Run(state=RUNNING), "digits: cancel accepted; it stops now"),
        (
            run_pb2.Run(state=CANCELLED, why=why_pb2.Why(message="enough")),
            "digits: CANCELLED, enough",
        ),
    ],
)
def test_a_cancel_says_whether_it_is_over_or_what_it_waits_for(run: run_pb2.Run, said: str) -> None:
    run.name = "teams/vision/runs/digits"
    assert cancelled(run, 90.0) == said


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (run_pb2.Run(state=RUNNING), "see what it brings: broker explain vision/digits"),
        (
            run_pb2.Run(state=CANCELLED),
            "it has ended, and stays so until it is brought back: broker resume vision/digits",
        ),
        (
            run_pb2.Run(state=run_pb2.RUN_STATE_SUCCEEDED),
            (
                "it has ended, and stays so until it is brought back: "
                "broker resume vision/digits --from-step N"
            ),
        ),
    ],
)
def test_an_amended_run_that_is_over_is_told_to_wait_for_its_resume(
    run: run_pb2.Run, said: str
) -> None:
    run.name = "teams/vision/runs/digits"
    assert what_follows(run) == said


def test_the_grace_that_is_told_is_the_one_that_is_given() -> None:
    assert CANCEL_GRACE_S == run_service.CANCEL_GRACE_S
