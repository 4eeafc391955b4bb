"""Plain values on their way to the wire: times, money, enums.

The rule: a point on the broker's time axis becomes wall time by way of an anchor, a moment whose
place on both is known, so that the same run reads the same until it changes. Read ``Axis`` first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Protocol, TypeVar

from google.protobuf import duration_pb2, timestamp_pb2
from google.type import money_pb2

from broker.model.moment import Moment
from broker.service.errors import invalid

_E = TypeVar("_E", bound=StrEnum)
_V = TypeVar("_V", bound=int)
_V_co = TypeVar("_V_co", bound=int, covariant=True)
_NANOS = 1_000_000_000
_NANO = Decimal("0.000000001")


@dataclass(frozen=True, slots=True)
class Axis:
    """Turns broker time into wall time by one anchor."""

    anchor: Moment

    def time(self, elapsed_s: float) -> timestamp_pb2.Timestamp:
        """Return the wall time of a point on the elapsed axis."""
        return timestamp(self.wall_s(elapsed_s))

    def wall_s(self, elapsed_s: float) -> float:
        """Return Unix seconds of a point on the elapsed axis."""
        return self.anchor.wall_s + (elapsed_s - self.anchor.elapsed_s)


def timestamp(wall_s: float) -> timestamp_pb2.Timestamp:
    """Return Unix seconds as a timestamp, to the microsecond."""
    message = timestamp_pb2.Timestamp()
    tell_time(message, wall_s)
    return message


def tell_time(message: timestamp_pb2.Timestamp, wall_s: float) -> None:
    """Put Unix seconds into a timestamp, to the microsecond."""
    message.seconds, micros = divmod(round(wall_s * 1_000_000), 1_000_000)
    message.nanos = micros * 1_000


def duration(seconds: float) -> duration_pb2.Duration:
    """Return seconds of 0 or more as a duration, to the microsecond."""
    nanos = round(max(0.0, seconds) * 1_000_000) * 1_000
    return duration_pb2.Duration(seconds=nanos // _NANOS, nanos=nanos % _NANOS)


def some_duration(seconds: float) -> duration_pb2.Duration | None:
    """Return seconds as a duration, None for no time at all."""
    return duration(seconds) if seconds > 0 else None


def money(amount: Decimal) -> money_pb2.Money:
    """Return US dollars, to the billionth. Never for an amount below zero."""
    if not amount:
        return money_pb2.Money(currency_code="USD")
    exact = amount.quantize(_NANO)
    units = int(exact)
    return money_pb2.Money(currency_code="USD", units=units, nanos=int((exact - units).scaleb(9)))


class WireEnum(Protocol[_V_co]):
    """What protobuf gives for an enum."""

    def Value(self, name: str) -> _V_co:  # noqa: N802 - protobuf's name
        """Return the number of a name."""
        ...


def numbers(members: type[_E], wire: WireEnum[_V], prefix: str) -> Mapping[_E, _V]:
    """Return each member's number on the wire, where its name carries the prefix."""
    return {member: wire.Value(f"{prefix}_{member.name}") for member in members}


def members(numbers: Mapping[_E, _V]) -> Mapping[int, _E]:
    """Return the member of each number, the other way round."""
    return {number: one for one, number in numbers.items()}


def member(known: Mapping[int, _E], number: int, field: str) -> _E:
    """Return the member of a number. Refuses one that is not known, and 0."""
    found = known.get(number)
    if found is not None:
        return found
    problem = "is required" if number == 0 else f"{number} is not a value of this enum"
    raise invalid(field, problem)
