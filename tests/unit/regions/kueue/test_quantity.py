"""Quantities: every way in which Kubernetes writes an amount, and what is none."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regions.kueue.objects.quantity import MOST, amount, parse


@pytest.mark.parametrize(
    ("raw", "whole"),
    [
        (8, 8),
        ("8", 8),
        ("8k", 8_000),
        ("1e3", 1_000),
        ("1E3", 1_000),
        ("1E", 10**18),
        ("2Ei", 2**61),
        ("500m", 1),
        ("1500m", 2),
        ("0.5", 1),
        (".5Gi", 2**29),
        ("2.", 2),
        ("-1500m", -1),
        ("1u", 1),
        ("0n", 0),
        (1.5, 2),
        ("1e-40", 1),
        ("0e999999999", 0),
        ("9" * 60, MOST),
        ("1e999999999", MOST),
        ("-9Ei", -MOST),
    ],
)
def test_a_quantity_is_read_as_the_api_server_reads_it(raw: object, whole: int) -> None:
    assert parse(raw) == whole


@pytest.mark.parametrize(
    "raw",
    ["", "m", ".", "8 ", "8kk", "0x8", "٨", "1_000", "8K", "e3", "1e", "9" * 65, True, None, [], {},
     float("nan"), float("inf"), "NaN", "1e9999999999"],
)  # fmt: skip
def test_what_is_no_quantity_is_refused(raw: object) -> None:
    with pytest.raises(ValueError, match="quantity"):
        parse(raw)


def test_cpu_counts_in_thousandths() -> None:
    assert [amount("cpu", raw) for raw in (2, "2", "500m", "0.1", "1k")] == [
        2_000, 2_000, 500, 100, 1_000_000,
    ]  # fmt: skip


TENS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}


@given(st.integers(0, 10**9), st.integers(0, 6), st.sampled_from(sorted(TENS)))
def test_it_is_the_exact_value_rounded_up(digits: int, places: int, suffix: str) -> None:
    whole, part = divmod(digits, 10**places)
    text = f"{whole}.{part:0{places}d}{suffix}" if places else f"{whole}{suffix}"
    exact = Fraction(digits, 10**places) * Fraction(10) ** TENS[suffix]
    assert parse(text) == min(MOST, -(-exact.numerator // exact.denominator))
