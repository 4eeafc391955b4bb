"""The cloud's advice on where capacity may be had: how it is asked for, and read. Pure.

The rule: advice is a guess of somebody who sells, and jumps by a third within an hour: one that
moved by little is the same one. What it counts for beside what was seen is its reader's to say.
Read ``read_advice`` first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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


def _tables(value: object) -> list[Mapping[str, Any]]:
    found = value[:_MAX_ROWS] if isinstance(value, list) else []
    return [each for each in found if isinstance(each, dict)]
