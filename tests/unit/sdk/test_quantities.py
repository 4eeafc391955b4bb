"""Durations, money, sizes and times, read and written."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.sdk import quantities as q


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("90s", 90.0),
        ("1h30m", 5400.0),
        ("2d", 172_800.0),
        ("250ms", 0.25),
        ("1.5h", 5400.0),
        ("1w", 604_800.0),
        (" 10m ", 600.0),
    ],
)
def test_a_duration_is_read_as_people_write_it(text: str, seconds: float) -> None:
    assert q.duration_s_of(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "1 hour", "-5m", "1h-", "5x", "1e9s", "9" * 20, "∞"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"90s, 30m or 1h30m|ten thousand years"):
        q.duration_s_of(text)


@given(st.integers(min_value=0, max_value=10**11))
def test_a_written_duration_reads_as_the_same(millis: int) -> None:
    assert round(q.duration_s_of(q.duration_text(millis / 1000)) * 1000) == millis


@given(st.decimals(min_value=0, max_value=10**12, places=9, allow_nan=False, allow_infinity=False))
def test_a_written_amount_reads_as_the_same(amount: Decimal) -> None:
    units = int(amount)
    text = q.money_text(units, int((amount - units) * 10**9))
    assert q.money_of(text) == amount
    assert len(text.partition(".")[2]) >= 2


@pytest.mark.parametrize(
    "text", ["", "-1", "1,50", "NaN", "Infinity", "1e13", "0.0000000001", "1" * 40, "$", "five"]
)
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"US dollars|decimals"):
        q.money_of(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1000", 1000), ("16GiB", 16 << 30), ("16GB", 16 * 10**9), ("1.5k", 1500), ("2 MiB", 2 << 20)],
)
def test_a_size_is_read_with_its_unit(text: str, size: int) -> None:
    assert q.size_bytes_of(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1", "1XB", "1 2", "9" * 40])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="16GiB"):
        q.size_bytes_of(text)


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB")]
)
def test_a_size_is_written_for_people(size: int, text: str) -> None:
    assert q.size_text(size) == text


def test_a_time_is_read_in_any_zone_and_written_in_utc() -> None:
    moment = datetime(2026, 3, 1, 18, 0, tzinfo=UTC)
    assert q.time_of("2026-03-01T18:00:00Z") == moment
    assert q.time_of("2026-03-01T19:00:00+01:00") == moment
    assert q.time_text(moment) == "2026-03-01T18:00:00Z"
    with pytest.raises(ValueError, match="2026-03-01T18:00:00Z"):
        q.time_of("tomorrow")
