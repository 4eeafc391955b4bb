"""The cloud's advice on where capacity may be had, as a prior that yields to evidence. Pure.

The rule: advice is a guess of somebody who sells. Zones that were empty have been advised at 0.9,
and the figure jumps by a third within an hour; so it counts as much as a few tries would, less the
older it is, and what was tried and seen outweighs it. Read ``chance`` first, with its formula.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

TRUST = 2.0
"""Advice that is new counts as this many tries."""
ADVICE_HALF_LIFE_S = 3600.0
EVIDENCE_HALF_LIFE_S = 1800.0
NEUTRAL_TRIES = 0.5
"""So many tries that went half and half stand behind it all: nothing known is one half."""
STEP = 0.15
"""A chance that moved by less is the same one: choices are not turned over by noise."""
_MAX_ROWS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """How likely a zone gives machines, from 0 to 1, in Google's words ``obtainability``."""

    zone: str
    machine: str
    model: str
    obtainability: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One thing that was seen: whether machines came, how long ago."""

    came: bool
    age_s: float


def chance(advice: float | None, advice_age_s: float, tries: Iterable[Try]) -> float:
    """Return how likely capacity is to be had, from 0 to 1.

    The mean of a Beta distribution whose counts fade: with a the advice, A its age, k = TRUST,
    n = NEUTRAL_TRIES and h(t, T) = 2^(-t/T),

        w0 = k h(A, ADVICE_HALF_LIFE_S), or 0 without advice
        wi = h(age of try i, EVIDENCE_HALF_LIFE_S)
        chance = (n/2 + w0 a + sum of wi over tries that came) / (n + w0 + sum of wi)

    So advice alone, new, of 0.9 is 0.82; one refusal a minute old makes that 0.59, three 0.38;
    and when all of it has grown old the answer is one half.
    """
    weight = 0.0 if advice is None else TRUST * _faded(advice_age_s, ADVICE_HALF_LIFE_S)
    good = NEUTRAL_TRIES / 2 + weight * min(1.0, max(0.0, advice or 0.0))
    total = NEUTRAL_TRIES + weight
    for each in tries:
        faded = _faded(each.age_s, EVIDENCE_HALF_LIFE_S)
        total += faded
        good += faded if each.came else 0.0
    return good / total


def settled(before: float | None, now: float) -> float:
    """Return the chance to go by: the former one until it has moved by a step."""
    return now if before is None or abs(now - before) >= STEP else before


def read_advice(message: Mapping[str, Any]) -> tuple[Advice, ...]:
    """Read a ``CapacityAdviceResponse`` in JSON; what is not of its form is left out."""
    found = []
    for each in _tables(message.get("recommendations")):
        scores = each.get("scores")
        score = scores.get("obtainability") if isinstance(scores, dict) else None
        if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
            continue
        for shard in _tables(each.get("shards")):
            count = shard.get("instanceCount")
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                continue
            found.append(
                Advice(
                    zone=str(shard.get("zone", "")).rpartition("/")[2][:63],
                    machine=str(shard.get("machineType", "")).rpartition("/")[2][:63],
                    model=str(shard.get("provisioningModel", ""))[:63],
                    obtainability=float(score),
                    count=count,
                )
            )
    return tuple(found)


def question(machine: str, count: int, model: str) -> Mapping[str, Any]:
    """Return the request of a ``capacity`` call: which zone of a region gives so many at once."""
    return {
        "size": count,
        "distributionPolicy": {"targetShape": "ANY_SINGLE_ZONE"},
        "instanceFlexibilityPolicy": {"instanceSelections": {"one": {"machineTypes": [machine]}}},
        "instanceProperties": {"scheduling": {"provisioningModel": model}},
    }


def _faded(age_s: float, half_life_s: float) -> float:
    return float(2.0 ** (-max(0.0, age_s) / half_life_s))


def _tables(value: object) -> list[Mapping[str, Any]]:
    found = value[:_MAX_ROWS] if isinstance(value, list) else []
    return [each for each in found if isinstance(each, dict)]
