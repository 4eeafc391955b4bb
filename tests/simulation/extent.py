"""How much happens in a play: mostly little, now and then a lot.

The rule: most faults that can be found are found in a small world, and many small ones cost what
one large one does; what needs crowds or long silences is in the few large ones. Read ``drawn``
first.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Bounds of what is drawn in one play; pairs are the least and the most.

    ``trouble_s`` is for how long there is trouble, ``strikes_s`` and ``meddles_s`` what passes
    between two troubles and between two words of a user, ``arrives_s`` what can pass between two
    first submits. ``runs`` are submitted at first; ``nodes``, ``steps``, ``step_s`` and
    ``save_every`` are what their gangs and programs are drawn from.
    """

    name: str
    trouble_s: float
    strikes_s: tuple[float, float]
    meddles_s: tuple[float, float]
    runs: tuple[int, int]
    arrives_s: tuple[float, ...]
    nodes: tuple[int, ...]
    steps: tuple[int, ...]
    step_s: tuple[float, ...]
    save_every: tuple[int, ...]


SMALL = Extent(
    name="small",
    trouble_s=90.0,
    strikes_s=(1.0, 12.0),
    meddles_s=(8.0, 40.0),
    runs=(1, 2),
    arrives_s=(0.0, 5.0, 15.0),
    nodes=(1, 2, 2, 3),
    steps=(8, 12),
    step_s=(1.0, 2.0),
    save_every=(3, 5),
)
MIDDLING = Extent(
    name="middling",
    trouble_s=200.0,
    strikes_s=(2.0, 20.0),
    meddles_s=(10.0, 60.0),
    runs=(2, 3),
    arrives_s=(0.0, 5.0, 30.0),
    nodes=(1, 2, 2, 3, 4),
    steps=(12, 20),
    step_s=(1.0, 3.0),
    save_every=(4, 10),
)
LARGE = Extent(
    name="large",
    trouble_s=400.0,
    strikes_s=(2.0, 30.0),
    meddles_s=(15.0, 100.0),
    runs=(3, 6),
    arrives_s=(0.0, 5.0, 30.0, 60.0),
    nodes=(1, 2, 2, 3, 4),
    steps=(12, 20, 40),
    step_s=(1.0, 3.0, 4.0),
    save_every=(4, 10),
)
OFTEN = {SMALL: 14, MIDDLING: 4, LARGE: 2}
"""How often each is drawn, in twenty plays."""


def drawn(chance: random.Random, often: Mapping[Extent, int]) -> Extent:
    """Draw how much a play holds, by how often each extent is to come."""
    return chance.choices([*often], [*often.values()])[0]
