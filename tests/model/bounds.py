"""How far each search goes, and what is found without each rule.

The rule: a search is exhaustive within its bounds; together they have every fault, alone and with
those that it could hide behind. Read ``SMALL`` first.
"""

from dataclasses import replace

from tests.model.world import Bounds

_TWO = Bounds(
    regions=("A", "B"),
    epochs=2,
    crashes=0,
    recreations=0,
    deafenings=0,
    cuts=0,
    restores=0,
    checkpoints=0,
)
_THREE = replace(_TWO, regions=("A", "B", "A"), epochs=3)

SMALL = {
    "three epochs, late grants, revocation races": _THREE,
}

TWO_TRAIN = "two gangs of one run train at once"
TWO_COUNT = "two epochs count at once"

WEAKENED = {
    "B2": (_TWO, TWO_TRAIN),
    "B3": (replace(_TWO, cuts=1, checkpoints=2), "a start resumes from what no seal counts"),
    "L1": (
        replace(_TWO, recreations=1),
        "a gang starts with a member that was gone before the rest came",
    ),
    "L2": (replace(_TWO, recreations=1), TWO_TRAIN),
    "L3": (_TWO, "a process that can hear begins to train after the fence"),
    "R1": (replace(_TWO, restores=1), TWO_COUNT),
    "R1's margin": (replace(_TWO, restores=1), TWO_COUNT),
    "owners by number": (replace(_TWO, restores=1), TWO_COUNT),
}
