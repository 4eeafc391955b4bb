"""Numbers in sentences: which are counted, which are part of a name, and how sizes are written."""

from __future__ import annotations

import pytest

from broker.placement.words import renumbered, size, without_numbers
from broker.sdk.quantities import size_text

TWO = "2 of 4 machines are here in us-east4, the rest are out of stock"


@pytest.mark.parametrize("size_bytes", [0, 900, 1023, 1024, 12_500_000, 5 << 30, 3 << 50])
def test_a_size_is_written_as_the_client_writes_it(size_bytes: int) -> None:
    assert size(size_bytes) == size_text(size_bytes)


def test_names_keep_their_digits() -> None:
    assert without_numbers("24 H100 ahead in us-east4, $1.86") == " H100 ahead in us-east4, $"


@pytest.mark.parametrize(
    ("said", "now", "told"),
    [
        (TWO.replace("2", "0"), TWO, TWO),
        (
            TWO.replace("2", "0") + ", and 1 more leg elsewhere",
            TWO,
            TWO + ", and 1 more leg elsewhere",
        ),
        (TWO.replace("east4", "east1"), TWO, TWO.replace("east4", "east1")),
        ("24 H100 ahead of it", "8 H100 ahead of it", "8 H100 ahead of it"),
        ("a place was found", TWO, "a place was found"),
        (TWO, "", TWO),
    ],
)
def test_a_sentence_takes_the_numbers_of_one_that_says_the_same(
    said: str, now: str, told: str
) -> None:
    assert renumbered(said, now) == told
