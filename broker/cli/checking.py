"""Waiting at a submit until what takes the network was checked: what a tag means, above all.

The rule: the run is accepted whatever this sees, and goes on without it; a person who looks is told
what is waited for. Read ``checked`` first.
"""

import time
from collections.abc import Callable

from broker.cli import exits
from broker.cli.session import Session
from broker.sdk.errors import BrokerError
from broker.v1 import errors_pb2, run_pb2

LOOK_S = 0.2
WITHIN_S = 150.0  # longer than the broker asks a registry that is silent


def checked(session: Session, run: run_pb2.Run, tell: Callable[[str], None]) -> run_pb2.Run:
    """Return the run once it is checked, or as it was after ``WITHIN_S``."""
    until_s = time.monotonic() + WITHIN_S
    while run.state == run_pb2.RUN_STATE_VALIDATING and time.monotonic() < until_s:
        tell(run.why.message)
        time.sleep(LOOK_S)
        try:
            run = session.client.runs.get(run.name)
        except BrokerError as error:
            if not error.is_temporary:
                raise
            tell(error.message)
    return run


def code_of(run: run_pb2.Run) -> int:
    """Return the exit code of a submit, by what the check of its run came to."""
    if run.state != run_pb2.RUN_STATE_REJECTED:
        return exits.OK
    is_silent = run.why.reason == errors_pb2.REASON_REGISTRY_UNREACHABLE
    return exits.UNREACHABLE if is_silent else exits.INVALID
