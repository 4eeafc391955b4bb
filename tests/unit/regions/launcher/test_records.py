"""What stands in for ``dataclasses`` in the packed launcher does as that does."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from regions.launcher import records


@pytest.fixture(params=[dataclasses, records], ids=["the real one", "ours"])
def made(request: pytest.FixtureRequest) -> Any:
    return Made(request.param)


class Made:
    """Classes like the launcher's, made by one of both."""

    def __init__(self, by: Any) -> None:
        @by.dataclass(frozen=True)
        class Word:
            rank: int
            kind: str = "end"

            def __post_init__(self) -> None:
                if self.rank < 0:
                    raise ValueError("a rank below none")

        @by.dataclass(frozen=True)
        class Other:
            rank: int
            kind: str = "end"

        @by.dataclass
        class Notes:
            words: list[Any] = by.field(default_factory=list)
            count: int = 0

        self.by = by
        self.word: Any = Word
        self.other: Any = Other
        self.notes: Any = Notes


def test_a_value_is_made_by_position_by_name_and_by_its_defaults(made: Made) -> None:
    for word in (made.word(1), made.word(rank=1), made.word(1, kind="end"), made.word(1, "end")):
        assert (word.rank, word.kind) == (1, "end")


@pytest.mark.parametrize(
    ("values", "named"),
    [((), {}), ((1, "end", 2), {}), ((1,), {"rank": 1}), ((1,), {"size": 2})],
)
def test_what_a_value_is_not_made_from_is_refused(
    made: Made, values: tuple[Any, ...], named: dict[str, Any]
) -> None:
    with pytest.raises(TypeError):
        made.word(*values, **named)


def test_a_value_is_checked_once_it_is_made(made: Made) -> None:
    with pytest.raises(ValueError, match="below none"):
        made.word(-1)
    with pytest.raises(ValueError, match="below none"):
        made.by.replace(made.word(1), rank=-1)


def test_values_are_equal_by_their_fields_and_their_class(made: Made) -> None:
    word = made.word(1)
    assert word == made.word(1)
    assert word != made.word(2)
    assert word != made.other(1)
    assert word != (1, "end")
    assert {word: "known"}[made.word(1)] == "known"


def test_a_value_is_changed_by_making_another_one(made: Made) -> None:
    word = made.word(1)
    assert made.by.replace(word, kind="start") == made.word(1, "start")
    with pytest.raises(TypeError):
        made.by.replace(word, size=2)
    with pytest.raises(AttributeError):
        word.rank = 2
    with pytest.raises(AttributeError):
        del word.rank
    assert word == made.word(1)


def test_what_is_not_frozen_can_be_changed_and_has_no_hash(made: Made) -> None:
    notes, others = made.notes(), made.notes()
    notes.words.append("one")
    notes.count += 1
    assert (others.words, others.count) == ([], 0)
    assert notes == made.notes(["one"], 1)
    with pytest.raises(TypeError):
        hash(notes)


def test_a_value_shows_its_fields(made: Made) -> None:
    assert repr(made.word(1)).rpartition(".")[2] == "Word(rank=1, kind='end')"
