"""What a client is told when the log fails: whose fault it is, and nothing that is not so."""

from __future__ import annotations

import pytest
from google.rpc import code_pb2, error_details_pb2

from broker.service.errors import is_ours, status_of
from broker.store import errors


@pytest.mark.parametrize(
    ("error", "code", "reason", "ours"),
    [
        (errors.LogBusyError("wait"), "RESOURCE_EXHAUSTED", "TOO_MUCH_AT_ONCE", False),
        (errors.LogConflictError("moved"), "ABORTED", "LOG_CONFLICT", False),
        (errors.LogUnwritableError("full"), "FAILED_PRECONDITION", "LOG_UNWRITABLE", False),
        (errors.LogClosedError("stopping"), "UNAVAILABLE", "SHUTTING_DOWN", False),
        # A disk that fails when it is read is no broker that stops: it is for the broker's log.
        (errors.LogUnreadableError("I/O error"), "INTERNAL", "UNKNOWN", True),
        (errors.LogDamagedError("cannot be"), "INTERNAL", "UNKNOWN", True),
    ],
)
def test_each_failure_of_the_log_is_told_as_what_it_is(
    error: errors.LogError, code: str, reason: str, ours: bool
) -> None:
    status = status_of(error)
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    told = (code_pb2.Code.Name(status.code), info.reason, is_ours(error))
    assert told == (code, reason, ours)
