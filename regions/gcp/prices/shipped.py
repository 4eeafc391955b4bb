"""List prices that come with the program.

The rule: every figure has its source and its date, and is told as being as old as it is. They are
for regions without a cloud, and for the time until a catalog was read. Read ``shipped``.
"""

import tomllib
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.resources import files
from typing import Literal

import msgspec
from msgspec import Struct

from regions.gcp.prices.book import Book, Price
from regions.gcp.shapes import SHAPES


class _Group(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: str
    as_of: date
    machine: str
    capacity_type: Literal["ON_DEMAND", "SPOT", "FLEX"]
    per_hour: dict[str, Decimal]


class _List(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: tuple[_Group, ...]


def shipped() -> Book:
    """Return the book that comes with the program."""
    text = files("regions.gcp.prices").joinpath("list_prices.toml").read_text("utf-8")
    groups = msgspec.convert(tomllib.loads(text), _List).source
    return Book(
        prices=tuple(
            Price(
                machine=group.machine,
                accelerator=SHAPES[group.machine].accelerator,
                accelerators=SHAPES[group.machine].accelerators,
                region=region,
                capacity_type=group.capacity_type,
                per_hour=per_hour,
                as_of_s=_midnight_s(group.as_of),
                source=f"{group.source}, {group.as_of}",
            )
            for group in groups
            for region, per_hour in group.per_hour.items()
        )
    )


def _midnight_s(day: date) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
