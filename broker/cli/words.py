"""Values as people read them in a terminal.

Read ``table`` first.
"""

import shutil
import sys
from collections.abc import Iterable, Sequence
from decimal import ROUND_FLOOR, Decimal
from typing import Any

import click

from broker.sdk.naming import short_name
from broker.sdk.showing import dollars_of, seconds_of

WIDTH_MAX = 120  # a line longer than this is hard to read
GAP = "  "
_COLOURS = {
    "RUNNING": "green",
    "SUCCEEDED": "green",
    "STARTING": "cyan",
    "QUEUED": "yellow",
    "VALIDATING": "yellow",
    "FAILED": "red",
    "REJECTED": "red",
    "CANCELLED": "magenta",
}


def width() -> int | None:
    """Return how many columns there are; None when nobody looks."""
    if not sys.stdout.isatty():
        return None
    return min(shutil.get_terminal_size((100, 24)).columns, WIDTH_MAX)


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return columns under their headers; the last one takes what is left of the line."""
    lines = [[str(cell) for cell in row] for row in (headers, *rows)]
    widths = [max(len(plain(line[i])) for line in lines) for i in range(len(headers))]
    columns = width()
    return "\n".join(_line(line, widths, columns) for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int], columns: int | None) -> str:
    padded = [cell + " " * (w - len(plain(cell))) for cell, w in zip(cells, widths, strict=True)]
    used = sum(widths[:-1]) + len(GAP) * (len(widths) - 1)
    last = cells[-1]
    if columns is not None:
        room = max(12, columns - used)
        last = last if len(plain(last)) <= room else f"{plain(last)[: room - 1]}…"
    return GAP.join([*padded[:-1], last]).rstrip()


def plain(text: str) -> str:
    """Return a text without its colours."""
    return click.unstyle(text) if "\x1b" in text else text


def coloured(state: str) -> str:
    """Return a state in its colour, on a terminal."""
    colour = _COLOURS.get(state)
    return click.style(state, fg=colour) if colour and width() is not None else state


def enum_name(message: Any, field: str) -> str:
    """Return the short name of an enum's value: ``RUNNING``."""
    descriptor = message.DESCRIPTOR.fields_by_name[field]
    return short_name(descriptor.enum_type, getattr(message, field))


def kind(message: Any, field: str = "capacity_type") -> str:
    """Return an enum's value as words: ``on-demand``."""
    return enum_name(message, field).lower().replace("_", "-")


def span(seconds: float) -> str:
    """Return a duration in at most two units: ``2h05m``, ``3m12s``, ``45s``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02}h"


def span_of(duration: Any) -> str:
    """Return a protobuf duration in at most two units."""
    return span(seconds_of(duration))


def wall_s(timestamp: Any) -> float:
    """Return a timestamp in Unix seconds."""
    return float(timestamp.seconds + timestamp.nanos / 1e9)


def ago(timestamp: Any, now_s: float) -> str:
    """Return how long ago a moment was."""
    return f"{span(now_s - wall_s(timestamp))} ago"


def until(timestamp: Any, now_s: float) -> str:
    """Return how long it is until a moment; ``now`` when it has come."""
    left = wall_s(timestamp) - now_s
    return f"in {span(left)}" if left >= 1 else "now"


def dollars(money: Any) -> str:
    """Return an amount as ``$12.34``."""
    units, _, decimals = dollars_of(money).partition(".")
    if len(decimals) > 2:  # what is below a cent matters only where there is nothing above
        amount = float(f"{units}.{decimals}")
        return f"${amount:.2f}" if amount >= 0.01 else f"${amount:.4f}"
    return f"${units}.{decimals}"


def shared(total: Any, parts: Sequence[Any]) -> list[str]:
    """Return the parts as dollars that add up to the total as that is printed.

    Each is cut to the last digit that is shown, and what is missing goes where the cut was largest.
    Parts that are not all of the total are left as they are.
    """
    shown = Decimal(dollars(total).removeprefix("$"))
    unit = Decimal(1).scaleb(int(shown.as_tuple().exponent))
    exact = [Decimal(dollars_of(part)) for part in parts]
    if abs(sum(exact) - Decimal(dollars_of(total))) >= unit:
        return [dollars(part) for part in parts]
    cut = [amount.quantize(unit, rounding=ROUND_FLOOR) for amount in exact]
    missing = int((shown - sum(cut)) / unit)
    by_loss = sorted(range(len(cut)), key=lambda i: cut[i] - exact[i])
    for index in by_loss[:missing]:
        cut[index] += unit
    return [f"${amount}" for amount in cut]


def hours(seconds: float) -> str:
    """Return seconds as hours: ``2.05``, and ``0.0106`` where two digits would say little."""
    found = seconds / 3600
    return f"{found:.4f}" if 0 < found < 0.1 else f"{found:.2f}"


def idle(spending: Any) -> str:
    """Return as ``$12.34`` what was paid for machines with nothing on them."""
    by_phase = spending.cost_by_phase
    parts = (by_phase.provisioning, by_phase.at_gate)
    return f"${sum(part.units + part.nanos / 1e9 for part in parts):.2f}"


def where(place: Any) -> str:
    """Return a place in words: ``us-east4 (spot)``."""
    if not place.capacity_type:
        return str(place.region)
    return f"{place.region} ({kind(place)})"


def id_of(name: str) -> str:
    """Return the last part of a resource name."""
    return name.rpartition("/")[2]


def team_of(name: str) -> str:
    """Return the team in a resource name."""
    parts = name.split("/")
    return parts[1] if len(parts) > 1 else ""


def counted(count: int, noun: str) -> str:
    """Return ``1 node`` or ``2 nodes``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def short_kind(capacity_type: int) -> str:
    """Return a capacity type as it is written: ``on-demand``."""
    from broker.v1 import intent_pb2

    name: str = intent_pb2.CapacityType.Name(intent_pb2.CapacityType.ValueType(capacity_type))
    return name.removeprefix("CAPACITY_TYPE_").lower().replace("_", "-")
