"""The simulator itself: the same seed is the same play, and every alarm rings."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes.region_store import ControlStore, Objects, RegionContent
from tests.simulation.extent import LARGE
from tests.simulation.planted import PLANTED
from tests.simulation.play import play
from tests.simulation.timeless import VirtualLoop

SEEDS = 12  # a plant needs a play in which what it breaks is asked for


@pytest.mark.parametrize("seed", [1, 5])
def test_the_same_seed_is_the_same_play(seed: int) -> None:
    first, second = play(seed), play(seed)
    assert first.events > 0
    assert (first.digest, first.trace) == (second.digest, second.trace)


@pytest.mark.parametrize("number", range(1, 11))
def test_every_law_has_an_alarm(number: int) -> None:
    assert any(plant.law == f"law {number}" for plant in PLANTED.values())


@pytest.mark.parametrize("name", PLANTED, ids=lambda name: f"{PLANTED[name].law}: {name}")
def test_a_planted_fault_is_noticed_by_its_law(name: str) -> None:
    plant = PLANTED[name]
    for seed in range(plant.first_seed, plant.first_seed + SEEDS):
        breaches = play(seed, plant.pieces, is_patient=False, often={LARGE: 1}).breaches
        if any(breach.law == plant.law for breach in breaches):
            return
    raise AssertionError(f"{name} goes unnoticed in {SEEDS} plays")


def test_time_passes_only_when_everybody_waits() -> None:
    loop = VirtualLoop()

    async def wait_a_day() -> float:
        began_s = loop.time()
        async with asyncio.timeout(100_000.0):
            await asyncio.sleep(86_400.0)
        return loop.time() - began_s

    try:
        assert loop.run_until_complete(wait_a_day()) == pytest.approx(86_400.0)
    finally:
        loop.close()


def test_both_faces_of_a_store_show_the_same_objects() -> None:
    objects = Objects(lambda: 5.0)
    control, content = (
        ControlStore(objects),
        RegionContent(objects, ControlStore(objects).line, 1.0),
    )
    assert control.create_if_absent("runs/a/e1/owner", b"one")
    assert not control.create_if_absent("runs/a/e1/owner", b"two")
    content.put("runs/a/e1/step-1/file", [b"x", b"y"])
    assert control.list("runs/a/e1/") == ("owner", "step-1/")
    assert [entry.name for entry in content.list("runs/a/").entries] == [
        "runs/a/e1/owner",
        "runs/a/e1/step-1/file",
    ]
    assert content.delete("runs/a/e1/step-1/file")
    assert control.list("runs/a/e1/") == ("owner",)
    control.delete("runs/a/e1/owner")
    assert control.list("runs/") == ()
