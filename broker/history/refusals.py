"""What ``decide`` and ``evolve`` raise: a refusal is the sender's, an illegal move is ours.

HistoryError
  Refused            a command that may not be; nothing was written
  IllegalMoveError   an event that no table allows: the log or the code is broken, stop
"""

from enum import StrEnum

from broker.model.reasons import Reason


class Code(StrEnum):
    """The canonical code of a refusal, as the edge answers it."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    NOT_FOUND = "NOT_FOUND"
    ALREADY_EXISTS = "ALREADY_EXISTS"
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    ABORTED = "ABORTED"
    OUT_OF_RANGE = "OUT_OF_RANGE"
    UNAVAILABLE = "UNAVAILABLE"
    DATA_LOSS = "DATA_LOSS"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    PERMISSION_DENIED = "PERMISSION_DENIED"


class HistoryError(Exception):
    """Anything that history raises."""


class Refused(HistoryError):
    """A command that may not be in this state. ``field`` is a proto path, empty when none."""

    def __init__(
        self,
        reason: Reason,
        message: str,
        field: str = "",
        code: Code = Code.FAILED_PRECONDITION,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.field = field
        self.code = code


class IllegalMoveError(HistoryError):
    """An event that the state cannot take."""
