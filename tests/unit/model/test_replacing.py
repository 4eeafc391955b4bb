"""The quick copy is the standard one."""

from __future__ import annotations

import dataclasses

import pytest

from broker.model.moment import Moment
from broker.model.replacing import replace
from broker.model.run import PhaseSeconds, ResumeWish
from tests.builders import Story


def test_a_copy_is_what_the_standard_library_makes() -> None:
    run = Story().accepted().training().run
    changes = {"next_epoch": 9, "forked_from": "teams/vision/runs/parent"}
    assert replace(run, **changes) == dataclasses.replace(run, **changes)  # type: ignore[arg-type]
    assert run.next_epoch == 2
    assert replace(ResumeWish(step=1), step=2) == ResumeWish(step=2)
    assert replace(PhaseSeconds(), running=1.0) == PhaseSeconds(running=1.0)


def test_a_copy_is_as_frozen_as_its_original() -> None:
    copy = replace(Moment(elapsed_s=1.0, wall_s=2.0), wall_s=3.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        copy.wall_s = 4.0  # type: ignore[misc]


def test_a_field_that_is_not_there_is_not_made() -> None:
    with pytest.raises(KeyError):
        replace(Moment(elapsed_s=1.0, wall_s=2.0), mood="fine")  # type: ignore[call-arg]


def test_what_is_more_than_its_slots_is_refused() -> None:
    @dataclasses.dataclass
    class Loose:
        a: int = 0

    @dataclasses.dataclass(slots=True)
    class Checked:
        a: int = 0

        def __post_init__(self) -> None:
            self.a += 1

    @dataclasses.dataclass(slots=True)
    class Empty:
        pass

    for value in (Loose(), Checked(), Empty()):
        with pytest.raises(TypeError):
            replace(value, a=1)  # type: ignore[arg-type]
