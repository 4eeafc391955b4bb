"""Numbers in sentences: which are counted, and which are a part of a name."""

from __future__ import annotations

import pytest

from broker.placement.words import renumbered, without_numbers

TWO = "2 of 4 machines are here in us-east4, the rest are out of stock"


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
