"""Checks of single values, each yielding a problem that names the field.

The rule: a check never raises, whatever the value holds: not a number, infinite, empty, a lone
surrogate. Read ``check_text`` first.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from broker.model.reasons import Reason

Shape = Literal["ENV", "LABEL", "OBJECT", "SHA256"]

_SHAPES: dict[Shape, tuple[re.Pattern[str], str]] = {
    "ENV": (
        re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}"),
        "a variable is letters, digits and '_', not a digit first, up to 128",
    ),
    "LABEL": (
        re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?"),
        "a word is letters, digits, '.', '_', '/' and '-', up to 63",
    ),
    "OBJECT": (
        re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"),
        "a name in a cluster is lower-case letters, digits, '-' and '.', up to 253",
    ),
    "SHA256": (re.compile(r"[0-9a-f]{64}"), "a digest is 64 hexadecimal digits, lower case"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong: the proto path of the field, a sentence, a reason."""

    field: str
    message: str
    reason: Reason = Reason.INVALID_FIELD


def check_text(
    field: str, text: str, shortest: int, longest: int, *, is_one_line: bool = True
) -> Iterator[Problem]:
    """Check length, and that a process, a log and a terminal can carry the text."""
    if not shortest <= len(text) <= longest:
        wanted = f"{shortest} to {longest}" if shortest else f"up to {longest}"
        yield Problem(field=field, message=f"{len(text)} characters; {wanted} are accepted")
    elif "\x00" in text or any("\ud800" <= c <= "\udfff" for c in text):
        yield Problem(field=field, message="it holds what is no text")
    elif is_one_line and not text.isprintable():
        yield Problem(field=field, message="it holds a line break or what cannot be printed")


def check_name(field: str, name: str, shape: Shape) -> Iterator[Problem]:
    """Check a word against its shape."""
    pattern, sentence = _SHAPES[shape]
    if pattern.fullmatch(name) is None:
        yield Problem(field=field, message=f"{name[:63]!a}: {sentence}")


def check_count(
    field: str, count: int, least: int, most: int, unit: str = "entries"
) -> Iterator[Problem]:
    """Check how many there are."""
    if not least <= count <= most:
        wanted = f"{least} to {most}" if least else f"up to {most}"
        yield Problem(field=field, message=f"{count} {unit}; {wanted} are accepted")


def check_distinct(field: str, values: Sequence[object]) -> Iterator[Problem]:
    """Check that nothing is there twice."""
    if len(set(values)) != len(values):
        yield Problem(field=field, message="the same is named twice")


def check_whole(field: str, value: int, least: int, most: int) -> Iterator[Problem]:
    """Check a whole number."""
    if not least <= value <= most:
        yield Problem(field=field, message=f"{value}; {least} to {most} is accepted")


def check_number(field: str, value: float, least: float, most: float) -> Iterator[Problem]:
    """Check a number; not a number and infinity are refused."""
    if not math.isfinite(value) or not least <= value <= most:
        yield Problem(field=field, message=f"{value:g}; {least:g} to {most:g} is accepted")


def check_decimal(field: str, value: Decimal, most: int) -> Iterator[Problem]:
    """Check an amount of US dollars: positive, finite, to a millionth."""
    if not value.is_finite() or not 0 < value <= most:
        yield Problem(field=field, message=f"{value}; more than 0 and up to {most} is accepted")
    elif value != round(value, 6):
        yield Problem(field=field, message="an amount is told to a millionth of a dollar")
