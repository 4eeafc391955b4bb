"""Checks of single values; what each returns is empty, or the problem that names the field.

The rule: a check never raises, whatever the value holds: not a number, infinite, empty, a lone
surrogate. Every submit goes through some thirty of them, so a value without a problem costs a
comparison and no more. Read ``check_text`` first.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from broker.model.reasons import Reason

Shape = Literal["ENV", "LABEL", "OBJECT", "SHA256"]

_NO_TEXT = re.compile("[\x00\ud800-\udfff]")  # what no process, log or terminal carries
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


Problems = tuple[Problem, ...]


def check_text(
    field: str, text: str, shortest: int, longest: int, *, is_one_line: bool = True
) -> Problems:
    """Check length, and that a process, a log and a terminal can carry the text."""
    if not shortest <= len(text) <= longest:
        wanted = f"{shortest} to {longest}" if shortest else f"up to {longest}"
        return _one(field, f"{len(text)} characters; {wanted} are accepted")
    if text.isprintable():  # then it holds nothing of what is looked for below
        return ()
    if _NO_TEXT.search(text):
        return _one(field, "it holds what is no text")
    return _one(field, "it holds a line break or what cannot be printed") if is_one_line else ()


def check_name(field: str, name: str, shape: Shape) -> Problems:
    """Check a word against its shape."""
    pattern, sentence = _SHAPES[shape]
    if pattern.fullmatch(name):
        return ()
    return _one(field, f"{name[:63]!a}: {sentence}")


def check_count(field: str, count: int, least: int, most: int, unit: str = "entries") -> Problems:
    """Check how many there are."""
    if least <= count <= most:
        return ()
    wanted = f"{least} to {most}" if least else f"up to {most}"
    return _one(field, f"{count} {unit}; {wanted} are accepted")


def check_distinct(field: str, values: Sequence[object]) -> Problems:
    """Check that nothing is there twice."""
    if len(values) < 2 or len(set(values)) == len(values):
        return ()
    return _one(field, "the same is named twice")


def check_whole(field: str, value: int, least: int, most: int) -> Problems:
    """Check a whole number."""
    if least <= value <= most:
        return ()
    return _one(field, f"{value}; {least} to {most} is accepted")


def check_number(field: str, value: float, least: float, most: float) -> Problems:
    """Check a number; not a number and infinity are refused."""
    if math.isfinite(value) and least <= value <= most:
        return ()
    return _one(field, f"{value:g}; {least:g} to {most:g} is accepted")


def check_seconds(field: str, value: float, most_s: float) -> Problems:
    """Check a duration: a millisecond at least; not a number and infinity are refused."""
    if math.isfinite(value) and 0.001 <= value <= most_s:
        return ()
    most = f"{most_s / 86_400:g} days"
    return _one(field, f"{value:g} s; a thousandth of a second to {most} is accepted")


def check_decimal(field: str, value: Decimal, most: int) -> Problems:
    """Check an amount of US dollars: positive, finite, to a millionth."""
    if not value.is_finite() or not 0 < value <= most:
        told = f"{value.normalize():f}" if value.is_finite() else value
        return _one(field, f"{told}; more than 0 and up to {most} is accepted")
    if value != round(value, 6):
        return _one(field, "an amount is told to a millionth of a dollar")
    return ()


def _one(field: str, message: str) -> Problems:
    return (Problem(field=field, message=message),)
