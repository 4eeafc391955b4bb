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
    garbles=0,
)
_THREE = replace(_TWO, regions=("A", "B", "A"), epochs=3)

SMALL = {
    "three epochs, late grants, revocation races": _THREE,
    "a member dies, the gang is brought back, a zombie trains on": replace(
        _TWO, crashes=1, recreations=1, deafenings=1
    ),
    "a region goes silent, its zombie saves on": replace(_TWO, cuts=1, checkpoints=2),
    "a restored backup, and a member dies": replace(_TWO, restores=1, crashes=1),
    "a restored backup finds what was sealed after it": replace(_TWO, restores=1, checkpoints=1),
    "a restored backup, and the gang is brought back": replace(_TWO, restores=1, recreations=1),
    "a restored backup finds an owner garbled": replace(_TWO, restores=1, garbles=1),
}

LARGE = {
    "a restored backup finds an owner garbled, and what was sealed after it": replace(
        _TWO, restores=1, garbles=1, checkpoints=1
    ),
    "a restored backup, and a region goes silent": replace(_TWO, restores=1, cuts=1, checkpoints=1),
    "three epochs, and a member dies": replace(_THREE, crashes=1),
    "three epochs, and a region goes silent": replace(_THREE, cuts=1, checkpoints=1),
    "three epochs, and a gang is brought back": replace(_THREE, recreations=1),
    "three epochs, and a restored backup": replace(_THREE, restores=1),
    "two restored backups": replace(_TWO, restores=2, epochs=3),
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
    "R2": (
        replace(_TWO, restores=1, checkpoints=1),
        "a restored broker seals anew what a grant had sealed",
    ),
    "R1 for what is garbled": (replace(_TWO, restores=1, garbles=1), TWO_COUNT),
    "R1's margin": (replace(_TWO, restores=1), TWO_COUNT),
    "owners by number": (replace(_TWO, restores=1), TWO_COUNT),
}
