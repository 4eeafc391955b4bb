"""Durations, money, sizes and times as people write and read them.

The rule: what ``*_of`` reads, ``*_text`` writes. Each ``*_of`` raises ValueError with a sentence
that says what is wanted. Read ``duration_s_of`` first.
"""

import re
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

SECONDS_MAX = 315_576_000_000  # protobuf's own bound: ten thousand years
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhdw]))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
_SIZES = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)(i?)b?", re.IGNORECASE)


def duration_s_of(text: str) -> float:
    """Return the seconds of ``90``, ``90s``, ``1h30m``, ``2d`` or ``250ms``."""
    text = text.strip()
    if re.fullmatch(r"\d{1,12}(\.\d+)?", text):
        seconds = float(text)
    elif len(text) <= 64 and _DURATION.fullmatch(text):
        seconds = sum(float(count) * _UNITS_S[unit] for count, unit in _PART.findall(text))
    else:
        raise ValueError(f"{text[:40]!r} is not a duration such as 90s, 30m or 1h30m")
    if seconds > SECONDS_MAX:
        raise ValueError(f"{text[:40]!r} is longer than ten thousand years")
    return seconds


def duration_text(seconds: float) -> str:
    """Return the shortest text that reads as the same duration: ``1h30m``, ``90s``, ``1.5s``."""
    millis = round(seconds * 1000)
    if millis < 0:
        return f"-{duration_text(-seconds)}"
    whole, rest = divmod(millis, 1000)
    parts = []
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        count, whole = divmod(whole, size)
        if count:
            parts.append(f"{count}{unit}")
    if rest:
        parts.append(f"{whole}.{rest:03}".rstrip("0") + "s")
    elif whole or not parts:
        parts.append(f"{whole}s")
    return "".join(parts)


def money_of(text: str) -> Decimal:
    """Return the US dollars of ``25``, ``25.50`` or ``$25.50``; not more than nine decimals."""
    plain = text.strip().removeprefix("$").strip()
    try:
        amount = Decimal(plain) if len(plain) <= 32 else Decimal("NaN")
    except InvalidOperation:
        amount = Decimal("NaN")
    if not (amount.is_finite() and 0 <= amount <= 10**12):
        raise ValueError(f"{text[:40]!r} is not an amount of US dollars such as 25 or 25.50")
    if amount != amount.quantize(Decimal("1e-9")):
        raise ValueError(f"{text[:40]!r} has more than nine decimals")
    return amount


def money_text(units: int, nanos: int) -> str:
    """Return US dollars with two decimals, or more where they say something."""
    amount = Decimal(units) + Decimal(nanos).scaleb(-9)
    exact = f"{amount:.9f}".rstrip("0")
    whole, _, decimals = exact.partition(".")
    return f"{whole}.{decimals:0<2}"


def size_bytes_of(text: str) -> int:
    """Return the bytes of ``1000``, ``16GiB`` (powers of 1024) or ``16GB`` (of 1000)."""
    match = _SIZE.fullmatch(text.strip()) if len(text) <= 32 else None
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a size such as 16GiB or 500MB")
    count, prefix, is_binary = match.groups()
    scale: int = (1024 if is_binary else 1000) ** _SIZES[prefix.lower()]
    return round(Decimal(count) * scale)


def size_text(size_bytes: int) -> str:
    """Return a size for people: ``1.5 GiB``."""
    size, unit = float(size_bytes), 0
    while size >= 1023.95 and unit < 5:
        size, unit = size / 1024, unit + 1
    return f"{size_bytes} B" if unit == 0 else f"{size:.1f} {'KMGTP'[unit - 1]}iB"


def time_of(text: str) -> datetime:
    """Return the moment of ``2026-03-01T18:00:00Z`` or ``2026-03-01 18:00``, which is local."""
    try:
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(f"{text[:40]!r} is not a time such as 2026-03-01T18:00:00Z") from error


def time_text(moment: datetime) -> str:
    """Return a moment as ``2026-03-01T18:00:00Z``."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
