"""List prices that come with the program: of machines, and of what leaves a location.

The rule: every figure has its source and its date, and is told as being as old as it is. Those of
machines are for regions without a cloud, and for the time until a catalog was read. Read
``shipped``.
"""

import tomllib
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.resources import files
from typing import Any, Literal

import msgspec
from msgspec import Struct

from regions.gcp.prices.book import Book, Price
from regions.gcp.prices.egress import EgressRow, EgressTable, EgressTerm
from regions.gcp.shapes import SHAPES


class _Group(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: str
    as_of: date
    machine: str
    capacity_type: Literal["ON_DEMAND", "SPOT", "FLEX"]
    per_hour: dict[str, Decimal]


class _List(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: tuple[_Group, ...]


class _Pairs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: str
    as_of: date
    per_gib: Decimal
    between: tuple[tuple[str, str], ...]


class _Egress(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    areas: dict[str, tuple[str, ...]]
    source: tuple[_Pairs, ...]


def shipped() -> Book:
    """Return the book that comes with the program."""
    groups = msgspec.convert(_read("list_prices.toml"), _List).source
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


def shipped_egress(terms: tuple[EgressTerm, ...] = ()) -> EgressTable:
    """Return the prices between locations that come with the program, ops' own over them."""
    told = msgspec.convert(_read("egress_prices.toml"), _Egress)
    rows = tuple(
        EgressRow(
            areas=frozenset(pair), per_gib=group.per_gib, source=f"{group.source}, {group.as_of}"
        )
        for group in told.source
        for pair in group.between
    )
    return EgressTable(areas=told.areas, rows=rows, terms=terms)


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(files("regions.gcp.prices").joinpath(name).read_text("utf-8"))


def _midnight_s(day: date) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
