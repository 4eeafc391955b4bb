"""A book of prices on disk.

The rule: the file is replaced whole or not at all, and is hostile when it is read: what is not
wholly a book of ours is no book, and the reason is said. Read ``PriceFile`` first.
"""

import os
import tempfile
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from regions.gcp.prices.book import DAY_S, Book, Price
from regions.gcp.prices.reading import MAX_RATE

SCHEMA_VERSION = 1
MAX_FILE_BYTES = 16 << 20
MAX_PRICES = 50_000

Word = Annotated[str, Meta(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9_-]+\Z")]
Text = Annotated[str, Meta(max_length=500)]


class UnusableFileError(Exception):
    """The file is there and is no book of ours; the message says why."""


class _Row(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    machine: Word
    accelerator: Word
    accelerators: Annotated[int, Meta(ge=1, le=64)]
    region: Word
    capacity_type: Word
    per_hour: Decimal
    as_of_s: Annotated[float, Meta(ge=0)]
    source: Text


class _File(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    schema_version: int
    prices: Annotated[tuple[_Row, ...], Meta(max_length=MAX_PRICES)]
    doubts: tuple[Text, ...] = ()


class PriceFile:
    """Where a book is kept between two lives of the daemon."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self, now_s: float) -> Book | None:
        """Return the book, None where there is none. Raises UnusableFileError."""
        try:
            with self._path.open("rb") as file:
                raw = file.read(MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UnusableFileError(f"{self._path} cannot be read: {error}") from error
        if len(raw) > MAX_FILE_BYTES:
            raise UnusableFileError(f"{self._path} is larger than {MAX_FILE_BYTES >> 20} MiB")
        try:
            return _book(msgspec.json.decode(raw, type=_File), now_s)
        except (msgspec.MsgspecError, ValueError) as error:
            raise UnusableFileError(f"{self._path} is no book of prices: {error}") from error

    def save(self, book: Book) -> None:
        """Put a book in the place of the one that is there. Raises OSError."""
        rows = tuple(
            _Row(
                machine=each.machine,
                accelerator=each.accelerator,
                accelerators=each.accelerators,
                region=each.region,
                capacity_type=each.capacity_type,
                per_hour=each.per_hour,
                as_of_s=each.as_of_s,
                source=each.source,
            )
            for each in book.prices
        )
        doubts = tuple(each[:500] for each in book.doubts)
        content = msgspec.json.encode(
            _File(schema_version=SCHEMA_VERSION, prices=rows, doubts=doubts)
        )
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, scratch = tempfile.mkstemp(dir=self._path.parent, prefix=".prices-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(scratch).replace(self._path)
        except BaseException:
            with suppress(OSError):
                Path(scratch).unlink()
            raise


def _book(file: _File, now_s: float) -> Book:
    if file.schema_version != SCHEMA_VERSION:
        raise ValueError(f"its form is {file.schema_version}, not {SCHEMA_VERSION}")
    for row in file.prices:
        if not (row.per_hour.is_finite() and 0 < row.per_hour <= MAX_RATE * row.accelerators):
            raise ValueError(f"a {row.machine} costs ${row.per_hour}")
        if row.as_of_s > now_s + DAY_S:
            # A clock that went wrong once would keep its prices young for ever.
            raise ValueError(f"the price of a {row.machine} is from the future")
    return Book(
        prices=tuple(
            Price(
                machine=row.machine,
                accelerator=row.accelerator,
                accelerators=row.accelerators,
                region=row.region,
                capacity_type=row.capacity_type,
                per_hour=row.per_hour,
                as_of_s=row.as_of_s,
                source=row.source,
            )
            for row in file.prices
        ),
        doubts=file.doubts,
    )
