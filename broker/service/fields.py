"""One field of a request at a time: a value of the model, or a refusal that names the field.

The rule: what comes from the wire is bounded here before anything else looks at it. Durations
are float seconds, money is Decimal US dollars. Read ``text`` and ``duration_s`` first.
"""

import math
import re
from collections.abc import Iterable
from decimal import Decimal

from google.protobuf import duration_pb2, timestamp_pb2
from google.type import money_pb2

from broker.model import names
from broker.service.errors import InvalidArgument, Violation, invalid

SECONDS_MAX = 315_576_000_000  # protobuf's own bound: ten thousand years
WALL_MIN_S, WALL_MAX_S = -62_135_596_800, 253_402_300_799  # years 1 to 9999
MONEY_MAX = 1_000_000_000_000
NAME_MAX = 256
SENTENCE_MAX = 1_000
REQUEST_ID_MAX = 64
DIGEST = re.compile(r"[0-9a-f]{64}")


def text(value: str, field: str, *, longest: int, required: bool = False) -> str:
    """Return one line of what can be printed, of at most ``longest`` characters.

    Whatever is taken in here is shown to others in a terminal, or is what they have to type.
    """
    if required and not value:
        raise invalid(field, "is required")
    if len(value) > longest:
        raise invalid(field, f"has {len(value)} characters; the most is {longest}")
    if not value.isprintable():
        raise invalid(field, "holds a line break, or what cannot be printed")
    return value


def sentence(value: str, field: str, *, required: bool = False) -> str:
    """Return a text for people."""
    return text(value, field, longest=SENTENCE_MAX, required=required)


def run_name(value: str, field: str = "name") -> str:
    """Return ``teams/{team}/runs/{run}``."""
    try:
        names.parse_run(text(value, field, longest=NAME_MAX, required=True))
    except names.NameMalformedError as error:
        raise invalid(field, str(error)) from error
    return value


def team_id(value: str, field: str = "parent", *, may_be_all: bool = False) -> str:
    """Return the id in ``teams/{team}``; with ``may_be_all``, "" for ``teams/-``."""
    parts = text(value, field, longest=NAME_MAX, required=True).split("/")
    if may_be_all and parts == ["teams", "-"]:
        return ""
    if len(parts) != 2 or parts[0] != "teams" or not names.is_id(parts[1]):
        raise invalid(field, f"{value!r} is not of the form teams/TEAM")
    return parts[1]


def region_id(value: str, field: str = "name", *, ending: str = "") -> str:
    """Return the id in ``regions/{region}``, or in ``regions/{region}/policy``."""
    parts = text(value, field, longest=NAME_MAX, required=True).split("/")
    wanted = [ending] if ending else []
    if len(parts) < 2 or parts[0] != "regions" or parts[2:] != wanted or not names.is_id(parts[1]):
        form = "/".join(["regions", "REGION", *wanted])
        raise invalid(field, f"{value!r} is not of the form {form}")
    return parts[1]


def digest(value: str, field: str) -> str:
    """Return a sha256 in hexadecimal."""
    if not DIGEST.fullmatch(value):
        raise invalid(field, "is not a sha256 in lower-case hexadecimal")
    return value


def request_id(value: str) -> str:
    """Return a request id, "" for none."""
    return text(value, "request_id", longest=REQUEST_ID_MAX)


def duration_s(value: duration_pb2.Duration, field: str) -> float:
    """Return a duration that is not negative, in seconds."""
    if not (0 <= value.seconds <= SECONDS_MAX and 0 <= value.nanos <= 999_999_999):
        raise invalid(field, "is not a duration of 0 s or more")
    return value.seconds + value.nanos / 1e9


def wall_s(value: timestamp_pb2.Timestamp, field: str) -> float:
    """Return a point in time as Unix seconds."""
    if not (WALL_MIN_S <= value.seconds <= WALL_MAX_S and 0 <= value.nanos <= 999_999_999):
        raise invalid(field, "is not a timestamp of the years 1 to 9999")
    return value.seconds + value.nanos / 1e9


def money(value: money_pb2.Money, field: str) -> Decimal:
    """Return an amount of US dollars that is not negative."""
    if value.currency_code not in ("", "USD"):
        raise invalid(f"{field}.currency_code", "only USD is known")
    if not (0 <= value.units <= MONEY_MAX and 0 <= value.nanos <= 999_999_999):
        raise invalid(field, f"is not an amount between 0 and {MONEY_MAX}")
    return Decimal(value.units) + Decimal(value.nanos).scaleb(-9)


def finite(value: float, field: str) -> float:
    """Return a number that is neither infinite nor not a number."""
    if not math.isfinite(value):
        raise invalid(field, "is not a finite number")
    return value


def not_negative(value: int, field: str) -> int:
    """Return a count of 0 or more."""
    if value < 0:
        raise invalid(field, "is negative")
    return value


def page_size(value: int, *, default: int, largest: int) -> int:
    """Return how many of a list are wanted; what is too many is the most there is."""
    if value < 0:
        raise invalid("page_size", "is negative")
    return min(value or default, largest)


def generation(etag: str, field: str = "etag") -> int:
    """Return the generation that an etag names."""
    if not etag:
        raise invalid(field, "is required: read the resource first")
    if not (etag.isascii() and etag.isdigit() and len(etag) <= 18):
        raise invalid(field, f"{etag[:40]!r} is no etag of this server")
    return int(etag)


def check(violations: Iterable[Violation]) -> None:
    """Refuse when there is a violation."""
    found = tuple(violations)
    if found:
        raise InvalidArgument(found)
