"""What the exit codes mean. They are stable: scripts may rely on them.

Read ``CODES`` first.
"""

from broker.sdk import errors

OK = 0
RUN_FAILED = 1
USAGE = 2
NOT_FOUND = 3
REFUSED = 4
UNREACHABLE = 5
INVALID = 6
CONFLICT = 7
FAULT = 8
DENIED = 9
INTERRUPTED = 130
PIPE_CLOSED = 141

CODES: dict[int, str] = {
    OK: "done",
    RUN_FAILED: "the run that was waited for did not succeed",
    USAGE: "the command line, or which broker is meant, cannot be understood",
    NOT_FOUND: "there is no such thing",
    REFUSED: "its state, or a check, does not allow it",
    UNREACHABLE: "no answer: unreachable, too busy or too late; try again",
    INVALID: "a field is not as it must be; the sentence names it",
    CONFLICT: "it exists already, or changed since it was read",
    FAULT: "a fault of the server or of this program, or damaged data",
    DENIED: "nobody is logged in, or the token does not allow it",
    INTERRUPTED: "interrupted; the run goes on",
    PIPE_CLOSED: "whoever read the output went away",
}

_BY_ERROR: dict[type[errors.BrokerError], int] = {
    errors.Unreachable: UNREACHABLE,
    errors.HungUp: UNREACHABLE,
    errors.TooLate: UNREACHABLE,
    errors.Busy: UNREACHABLE,
    errors.NotTrusted: DENIED,
    errors.NotLoggedIn: DENIED,
    errors.NotAllowed: DENIED,
    errors.NotFound: NOT_FOUND,
    errors.AlreadyExists: CONFLICT,
    errors.Conflict: CONFLICT,
    errors.Invalid: INVALID,
    errors.IntentError: INVALID,
    errors.BundleError: INVALID,
    errors.SettingsError: USAGE,
    errors.NotNow: REFUSED,
    errors.PositionTooOld: REFUSED,
    errors.Damaged: FAULT,
    errors.ServerFault: FAULT,
}


def code_of(error: errors.BrokerError) -> int:
    """Return the exit code of an error."""
    return _BY_ERROR.get(type(error), FAULT)
