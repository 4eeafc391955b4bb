"""Durations, money and counts in the words that users read."""

import re
from collections.abc import Sequence
from decimal import Decimal

# A number that stands by itself: the 4 of us-east4 is a part of a name.
_NUMBER = re.compile(r"(?<![\w-])\d[\d.,]*")


def duration(seconds: float) -> str:
    """Return seconds as people say them: "40 s", "12 min", "3 h 20 min", "2 d 4 h"."""
    whole = max(0, round(seconds))
    if whole < 120:
        return f"{whole} s"
    minutes = round(whole / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def money(dollars: Decimal) -> str:
    """Return US dollars with cents."""
    return f"${dollars.quantize(Decimal('0.01'))}"


def size(size_bytes: int) -> str:
    """Return a size as the client writes it: "900 B", "12.5 MiB", "1.4 TiB"."""
    number, unit = float(size_bytes), 0
    while number >= 1023.95 and unit < 5:
        number, unit = number / 1024, unit + 1
    return f"{size_bytes} B" if unit == 0 else f"{number:.1f} {'KMGTP'[unit - 1]}iB"


def times(number: int) -> str:
    """Return "once", "twice", "3 times"."""
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, "1 node" or "3 nodes"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listed(names: Sequence[str]) -> str:
    """Return names as a sentence has them: "alpha", "alpha and beta", "alpha, beta and gamma"."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def without_numbers(sentence: str) -> str:
    """Return a sentence without what is counted in it; names keep their digits."""
    return _NUMBER.sub("", sentence)


def renumbered(said: str, now: str) -> str:
    """Return a sentence that begins as ``now`` does but for its numbers, with those of ``now``.

    One that says something else is returned as it is.
    """
    same = r"\d[\d.,]*".join(map(re.escape, _NUMBER.split(now)))
    found = re.match(same, said) if now else None
    return said if found is None else now + said[found.end() :]
