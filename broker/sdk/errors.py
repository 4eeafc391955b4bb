"""What can go wrong, as one tree.

    BrokerError                 reason, message, perhaps a field
      Unreachable               nobody answers, or the server is stopping: try again
        HungUp                  who answered ended the connection before a word was said
      NotTrusted                who answers shows no certificate that is trusted
      TooLate                   no answer within the deadline: repeat with the same request id
      Busy                      the server has as much to do as it can: try again more slowly
      NotLoggedIn               no valid token came with the call: log in
      NotAllowed                the token's role, or its team, does not allow it
      NotFound                  there is no such thing, or it is of another team
      AlreadyExists             there is one, or the request id was used with another body
      Conflict                  it changed since it was read: read it again
      Invalid                   a field is not as it must be
        IntentError             found by the client, in a file or in flags
        BundleError             the working directory cannot be packed
        SettingsError           which broker is asked, or in whose name, cannot be made out
      NotNow                    the state of the thing does not allow it
      PositionTooOld            what was to be watched is no longer kept
      Damaged                   what is stored does not match its checksums
      ServerFault               a fault of the server

Each error carries the ``reason`` that ``errors.proto`` declares, or, when nobody answered to give
one, UNREACHABLE, NOT_TRUSTED or DEADLINE_EXCEEDED. Read ``error_of`` first.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self, cast

import grpc

DETAILS_KEY = "grpc-status-details-bin"
UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One field of a request, and what is wrong with it."""

    field: str
    message: str


class BrokerError(Exception):
    """Something could not be done.

    ``reason`` is stable, as in errors.proto without its prefix. ``message`` is for people.
    ``field`` is the path of the field at fault, empty for none; ``violations`` are all of them.
    """

    is_temporary = False  # whether the same call may work a moment later

    def __init__(
        self, message: str, *, reason: str = UNKNOWN, violations: tuple[Violation, ...] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.violations = violations

    @property
    def field(self) -> str:
        """The path of the first field at fault, empty for none."""
        return self.violations[0].field if self.violations else ""


class Unreachable(BrokerError):
    """Nobody answers, or the server is stopping."""

    is_temporary = True


class HungUp(Unreachable):
    """Who answered ended the connection: no broker, or one that wants a certificate."""


class NotTrusted(BrokerError):
    """Whoever answers shows no certificate that is trusted."""

    def __init__(self, server: str) -> None:
        super().__init__(
            f"what answers at {server} shows no certificate that is trusted here for that name",
            reason="NOT_TRUSTED",
        )


class TooLate(BrokerError):
    """No answer came within the deadline. A change may have been made."""


class Busy(BrokerError):
    """The server has as much to do as it can."""

    is_temporary = True


class NotLoggedIn(BrokerError):
    """No token came with the call, or one that is not valid, or not any more."""


class NotAllowed(BrokerError):
    """The token's role does not allow it, or the token is for another team."""


class NotFound(BrokerError):
    """There is no such thing, or it is of another team."""


class AlreadyExists(BrokerError):
    """There is one of that name, or the request id was used with another body."""


class Conflict(BrokerError):
    """The thing changed since it was read."""


class Invalid(BrokerError):
    """One or more fields are not as they must be; nothing changed."""


class IntentError(Invalid):
    """An intent, in a file or in flags, cannot be read. Found before anything was sent."""

    def __init__(self, field: str, message: str) -> None:
        self._tell((Violation(field=field, message=message),))

    @classmethod
    def of(cls, violations: Iterable[Violation]) -> Self:
        """Return the error of everything that was found."""
        error = cls("", "")
        error._tell(tuple(violations))
        return error

    def _tell(self, violations: tuple[Violation, ...]) -> None:
        said = (f"{one.field}: {one.message}" if one.field else one.message for one in violations)
        super().__init__("; ".join(said), reason="INVALID_FIELD", violations=violations)


class BundleError(Invalid):
    """The working directory cannot be packed. Found before anything was sent."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reason="INVALID_FIELD")


class SettingsError(Invalid):
    """Which broker is asked, or in whose name, cannot be made out. Found before anything was sent.

    ``source`` is where it was said: a flag, a variable, a file.
    """

    def __init__(self, source: str, message: str) -> None:
        violation = Violation(field=source, message=message)
        super().__init__(f"{source}: {message}", reason="INVALID_FIELD", violations=(violation,))


class NotNow(BrokerError):
    """The state of the thing does not allow it."""


class PositionTooOld(BrokerError):
    """What was to be watched from there is no longer kept."""


class Damaged(BrokerError):
    """What is stored does not match its checksums."""


class ServerFault(BrokerError):
    """A fault of the server; its log has the details."""


_BY_CODE: dict[grpc.StatusCode, type[BrokerError]] = {
    grpc.StatusCode.UNAVAILABLE: Unreachable,
    grpc.StatusCode.DEADLINE_EXCEEDED: TooLate,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Busy,
    grpc.StatusCode.UNAUTHENTICATED: NotLoggedIn,
    grpc.StatusCode.PERMISSION_DENIED: NotAllowed,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExists,
    grpc.StatusCode.ABORTED: Conflict,
    grpc.StatusCode.INVALID_ARGUMENT: Invalid,
    grpc.StatusCode.FAILED_PRECONDITION: NotNow,
    grpc.StatusCode.OUT_OF_RANGE: PositionTooOld,
    grpc.StatusCode.DATA_LOSS: Damaged,
}


# What gRPC says when TLS was refused, and would be again.
_NO_TRUST = (
    "TSI_PROTOCOL_FAILURE",
    "CERTIFICATE_VERIFY_FAILED",
    "peer certificate",
    "Hostname Verification",
)


# What gRPC says when a connection was there, and ended.
_ENDED = ("Socket closed", "Connection reset", "FD shutdown", "Broken pipe")


def error_of(error: grpc.RpcError, server: str) -> BrokerError:
    """Return gRPC's error as one of the tree. ``server`` is the address that was asked."""
    code, said = error.code(), error.details() or ""
    metadata = cast(Iterable[tuple[str, bytes]], error.trailing_metadata() or ())
    details = next((value for key, value in metadata if key == DETAILS_KEY), None)
    kind = _BY_CODE.get(code, ServerFault)
    if details is not None:
        reason, violations = _read(details)
        return kind(said, reason=reason, violations=violations)
    if kind is Unreachable and any(words in said for words in _NO_TRUST):
        return NotTrusted(server)
    if kind is Unreachable:
        kind = HungUp if any(words in said for words in _ENDED) else Unreachable
        return kind(f"no broker answers at {server}", reason="UNREACHABLE")
    if kind is TooLate:
        sentence = f"the broker at {server} gave no answer in time"
        return TooLate(sentence, reason="DEADLINE_EXCEEDED")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return ServerFault(f"the broker at {server} is older than this client: {said}")
    return kind(said or f"the broker at {server} failed: {code.name}")


def _read(details: bytes) -> tuple[str, tuple[Violation, ...]]:
    # Only an error needs these: a start without one is spared their import.
    from google.rpc import error_details_pb2, status_pb2

    info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    for packed in status_pb2.Status.FromString(details).details:
        packed.Unpack(info) or packed.Unpack(bad)
    violations = [Violation(field=v.field, message=v.description) for v in bad.field_violations]
    return info.reason or UNKNOWN, tuple(violations)
