"""A project's GPU quota, region by region. Pure.

The rule: spot and flex-start draw on one quota, the preemptible one, and a reservation on none; a
project without a preemptible one draws on the standard one for spot. Two services tell of it:
Compute tells limit and use, of older accelerators only; Cloud Quotas tells limits of all. Where
Compute is silent the use is unknown, and a limit that nobody tells is unknown, never zero. Read
``quotas`` first, then ``Quotas.find``.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

STANDARD, PREEMPTIBLE = "STANDARD", "PREEMPTIBLE"
DRAWS_ON: Mapping[str, str] = {"ON_DEMAND": STANDARD, "SPOT": PREEMPTIBLE, "FLEX": PREEMPTIBLE}
"""Which quota a capacity type draws on; reserved machines draw on none."""
UNLIMITED = 1 << 40
_MAX_ROWS = 100_000

_ACCELERATORS = {
    "A100": "A100",
    "A100_80GB": "A100-80GB",
    "L4": "L4",
    "T4": "T4",
    "V100": "V100",
    "H100": "H100",
    "H100_MEGA": "H100-MEGA",
    "H200": "H200",
    "B200": "B200",
    "GB200": "GB200",
    "RTX_PRO_6000": "RTX-PRO-6000",
}
_METRIC = re.compile(r"(PREEMPTIBLE_)?NVIDIA_([A-Z0-9_]+?)_GPUS")
_QUOTA_ID = re.compile(r"(PREEMPTIBLE-)?NVIDIA-([A-Z0-9-]+?)-GPUS-per-project-region")
_FAMILY_ID = re.compile(r"(PREEMPTIBLE-)?GPUS-PER-GPU-FAMILY-per-project-region")
ALL_REGIONS = "GPUS_ALL_REGIONS"

Key = tuple[str, str, str]  # region, accelerator, STANDARD or PREEMPTIBLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """How many GPUs may be had, and how many are; None was not told."""

    limit: int | None
    used: int | None
    source: str

    @property
    def room(self) -> int | None:
        """How many more may be had; a limit alone is at least a bound."""
        return None if self.limit is None else max(0, self.limit - (self.used or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """All that is known, and the limit over all regions and kinds, which binds too.

    ``untold`` are those who did not tell, each with why: what they would have told is unknown.
    """

    by_key: Mapping[Key, Quota]
    overall: Quota | None
    untold: tuple[str, ...] = ()

    def find(self, region: str, accelerator: str, capacity_type: str) -> Quota | None:
        """Return the quota that such machines draw on; None: none, or none is known.

        Of the two that bind, the one with less room.
        """
        known = self._binding(region, accelerator, capacity_type)
        return min(known, key=lambda each: each.room or 0, default=None)

    def most(self, region: str, accelerator: str, capacity_type: str) -> int | None:
        """Return how many such GPUs there can be at once; None: nothing is known to bound it."""
        known = self._binding(region, accelerator, capacity_type)
        limit = min((each.limit for each in known if each.limit is not None), default=UNLIMITED)
        return None if limit >= UNLIMITED else limit

    def _binding(self, region: str, accelerator: str, capacity_type: str) -> list[Quota]:
        pool = DRAWS_ON.get(capacity_type)
        if pool is None:
            return []
        own = self.by_key.get((region, accelerator, pool))
        if capacity_type == "SPOT" and own is not None and own.limit == 0:
            # A project that was given no preemptible quota draws on its standard one for spot.
            own = self.by_key.get((region, accelerator, STANDARD), own)
        told = (own, self.overall)
        return [each for each in told if each is not None and each.room is not None]


def quotas(
    project: Mapping[str, Any],
    regions: Iterable[Mapping[str, Any]],
    limits: Iterable[Mapping[str, Any]],
) -> Quotas:
    """Put together Compute's project and regions and Cloud Quotas' ``quotaInfos``, all JSON."""
    found: dict[Key, Quota] = {}
    for info in limits:
        found.update(_limits(info))
    for region in regions:
        for key, quota in _used(str(region.get("name", "")), region):
            # Compute's word goes before, for it tells the use as well; if it tells a limit at all.
            if quota.limit is not None or key not in found:
                found[key] = quota
    overall = next((q for metric, q in _rows(project) if metric == ALL_REGIONS), None)
    return Quotas(by_key=found, overall=overall)


def _used(region: str, message: Mapping[str, Any]) -> Iterable[tuple[Key, Quota]]:
    for metric, quota in _rows(message):
        if (form := _METRIC.fullmatch(metric)) and form[2] in _ACCELERATORS:
            yield (region, _ACCELERATORS[form[2]], _pool(form[1])), quota


def _rows(message: Mapping[str, Any]) -> Iterable[tuple[str, Quota]]:
    for row in _list(message.get("quotas")):
        limit, used = _count(row.get("limit")), _count(row.get("usage"))
        yield str(row.get("metric", "")), Quota(limit=limit, used=used, source="Compute Engine")


def _limits(info: Mapping[str, Any]) -> Iterable[tuple[Key, Quota]]:
    """Yield one quota's limit by region: rows with a region of their own before the others."""
    quota_id = str(info.get("quotaId", ""))
    one, family = _QUOTA_ID.fullmatch(quota_id), _FAMILY_ID.fullmatch(quota_id)
    if one is None and family is None:
        return
    pool = _pool(one[1] if one else family[1] if family else None)
    rows = _list(info.get("dimensionsInfos"))
    rows.sort(key=lambda row: "region" in _table(row.get("dimensions")))
    for row in rows:
        dimensions = _table(row.get("dimensions"))
        name = one[2].replace("-", "_") if one else _family(dimensions)
        limit = _count(_table(row.get("details")).get("value"))
        if name not in _ACCELERATORS or limit is None:
            continue
        for region in _places(row, dimensions):
            key = (region, _ACCELERATORS[name], pool)
            yield key, Quota(limit=limit, used=None, source="Cloud Quotas")


def _places(row: Mapping[str, Any], dimensions: Mapping[str, Any]) -> list[str]:
    if "region" in dimensions:
        return [str(dimensions["region"])]
    places = row.get("applicableLocations")
    return [str(each) for each in places[:_MAX_ROWS]] if isinstance(places, list) else []


def _family(dimensions: Mapping[str, Any]) -> str:
    return str(dimensions.get("gpu_family", "")).removeprefix("NVIDIA_")


def _pool(prefix: str | None) -> str:
    return PREEMPTIBLE if prefix else STANDARD


def _count(value: object) -> int | None:
    """Return a count; -1 is Google's word for no limit, and nothing else below zero is a count."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        count = int(float(value))
    except (ValueError, OverflowError):
        return None
    if count == -1:
        return UNLIMITED
    return min(count, UNLIMITED) if count >= 0 else None


def _list(value: object) -> list[Mapping[str, Any]]:
    found = value[:_MAX_ROWS] if isinstance(value, list) else []
    return [each for each in found if isinstance(each, dict)]


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
