"""What leaves the edge when something cannot be done: one status, one reason, named fields.

    Exception
      Refused            history's, and the ports': code, reason, sentence, perhaps a field
      InvalidArgument    one or more fields of the request are not as they must be
      DecodeError        protobuf's: the request is no message
      LogError           the store's

Every other exception is a fault of ours: it is logged, and the client learns only that.
Read ``status_of`` first.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import grpc
from google.protobuf import any_pb2
from google.protobuf.message import DecodeError
from google.rpc import code_pb2, error_details_pb2, status_pb2

from broker.history.refusals import Code, Refused
from broker.model.reasons import Reason
from broker.store.errors import (
    LogBusyError,
    LogConflictError,
    LogDamagedError,
    LogError,
    LogUnreadableError,
    LogUnwritableError,
)

DOMAIN = "broker"
# Clients take 8 KiB of metadata, unless they are told otherwise: a status is sent as a header, in
# escapes of three for each byte that is not plain, and once more with its details, in base 64.
MESSAGE_MAX_BYTES = 1_000
DETAILS_MAX_BYTES = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One field and what is wrong with it."""

    field: str
    message: str
    reason: Reason = Reason.INVALID_FIELD


class InvalidArgument(Exception):
    """The request is not as it must be; nothing changed."""

    def __init__(self, violations: Iterable[Violation]) -> None:
        self.violations = tuple(violations)
        super().__init__("; ".join(f"{v.field}: {v.message}" for v in self.violations))


def invalid(field: str, message: str) -> InvalidArgument:
    """Return the refusal of one field."""
    return InvalidArgument((Violation(field=field, message=message),))


def not_found(name: str) -> Refused:
    """Return the refusal of a resource that is not there."""
    return Refused(reason=Reason.NOT_FOUND, message=f"there is no {name}", code=Code.NOT_FOUND)


def status_of(error: Exception) -> status_pb2.Status:
    """Return what the client is told about an error."""
    match error:
        case InvalidArgument():
            reasons = {v.reason for v in error.violations}
            reason = reasons.pop() if len(reasons) == 1 else Reason.INVALID_FIELD
            return _status("INVALID_ARGUMENT", reason, str(error), error.violations)
        case DecodeError():
            said = "the request is no message of the kind that is wanted"
            return _status("INVALID_ARGUMENT", Reason.INVALID_FIELD, said)
        case Refused():
            fields = (Violation(field=error.field, message=error.message),) if error.field else ()
            return _status(error.code.value, error.reason, error.message, fields)
        case LogBusyError():
            return _status("RESOURCE_EXHAUSTED", Reason.TOO_MUCH_AT_ONCE, str(error))
        case LogConflictError():
            return _status("ABORTED", Reason.LOG_CONFLICT, "others changed it; try again")
        case LogUnwritableError():
            return _status("FAILED_PRECONDITION", Reason.LOG_UNWRITABLE, str(error))
        case LogDamagedError() | LogUnreadableError():
            return _fault_of_ours()
        case LogError():
            return _status("UNAVAILABLE", Reason.SHUTTING_DOWN, str(error))
        case TimeoutError():
            return _status(
                "DEADLINE_EXCEEDED",
                Reason.TOO_MUCH_AT_ONCE,
                "no answer in time; the change may have been made: repeat it as it is",
            )
        case _:
            return _fault_of_ours()


def is_ours(error: Exception) -> bool:
    """Whether the error is a fault of the server, to be logged with all there is to know."""
    return bool(status_of(error).code == code_pb2.INTERNAL)


def code_of(status: status_pb2.Status) -> grpc.StatusCode:
    """Return gRPC's own constant of a status's code."""
    return _CODES[status.code]


def metadata_of(status: status_pb2.Status) -> tuple[tuple[str, bytes], ...]:
    """Return the trailing metadata that carries the details."""
    return (("grpc-status-details-bin", status.SerializeToString()),)


_CODES: dict[int, grpc.StatusCode] = {int(code.value[0]): code for code in grpc.StatusCode}


def _fault_of_ours() -> status_pb2.Status:
    return _status("INTERNAL", Reason.UNKNOWN, "a fault of the server; its log has the details")


def _status(
    code: str, reason: Reason, message: str, violations: Iterable[Violation] = ()
) -> status_pb2.Status:
    violations = tuple(violations)
    info = error_details_pb2.ErrorInfo(reason=reason.value, domain=DOMAIN)
    if violations:
        info.metadata["field"] = _clipped(violations[0].field)
    status = status_pb2.Status(code=code_pb2.Code.Value(code), message=_clipped(message))
    status.details.append(_packed(info))
    if violations:
        status.details.append(_packed(_bad_request(violations)))
    return status


def _bad_request(violations: tuple[Violation, ...]) -> error_details_pb2.BadRequest:
    """Return as many violations as a client can be told at once; the last one counts the rest."""
    bad, room = error_details_pb2.BadRequest(), DETAILS_MAX_BYTES
    for number, violation in enumerate(violations):
        told = error_details_pb2.BadRequest.FieldViolation(
            field=_clipped(violation.field),
            description=_clipped(violation.message),
            reason=violation.reason.value,
        )
        room -= told.ByteSize()
        if room < 0 and number:
            rest = len(violations) - number
            bad.field_violations[-1].description += f" ({rest} more like this are not told)"
            break
        bad.field_violations.append(told)
    return bad


def _clipped(text: str) -> str:
    """Return as much of a text as a header takes, whole characters of it."""
    room = MESSAGE_MAX_BYTES
    if 3 * len(text.encode("utf-8", "replace")) <= room:
        return text
    for at, letter in enumerate(text):
        size = len(letter.encode("utf-8", "replace"))
        room -= 1 if letter.isascii() and letter.isprintable() and letter != "%" else 3 * size
        if room < 0:
            return f"{text[: max(0, at - 9)]}…"
    return text


def _packed(
    message: error_details_pb2.ErrorInfo | error_details_pb2.BadRequest,
) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed
