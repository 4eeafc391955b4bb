"""Ids: of the shapes that names and the start protocol ask for."""

import random

from broker.model.names import PLACEMENT_PATTERN, is_id
from broker.runtime.entropy import Ids, KernelChance
from regions.launcher.layout import is_name, is_nonce


def test_ids_have_the_shapes_that_stores_and_names_take() -> None:
    ids = Ids()
    for _ in range(200):
        assert is_name(ids.run_uid())
        assert is_name(ids.placement())
        assert PLACEMENT_PATTERN.fullmatch(ids.placement())
        assert is_nonce(ids.nonce())
        assert is_id(ids.text(8))


def test_a_seeded_source_draws_the_same_again() -> None:
    one, other = (Ids(random.Random(7).randrange) for _ in range(2))
    assert [one.nonce(), one.placement()] == [other.nonce(), other.placement()]


def test_ids_are_not_drawn_twice() -> None:
    ids = Ids()
    drawn = [ids.placement() for _ in range(2_000)]
    assert len(set(drawn)) == len(drawn)


def test_every_draw_is_an_id_of_its_own_and_the_ends_are_in() -> None:
    assert Ids(lambda below: 0).text(3) == "aaa"
    assert Ids(lambda below: below - 1).text(3) == "z99"
    drawn = {Ids(lambda below, at=at: at).text(2) for at in range(26 * 36)}  # type: ignore[misc]
    assert drawn == {
        first + second
        for first in "abcdefghijklmnopqrstuvwxyz"
        for second in "abcdefghijklmnopqrstuvwxyz0123456789"
    }
    assert Ids(lambda below: below - 1).nonce() == "f" * 16


def test_the_kernels_chance_reaches_every_number_below_a_bound_and_no_other() -> None:
    chance = KernelChance()
    for bound in (1, 2, 3, 26, 256, 257):
        assert {chance.below(bound) for _ in range(40 * bound)} == set(range(bound))
    assert all(chance.below(26 * 36**400) < 26 * 36**400 for _ in range(50))
