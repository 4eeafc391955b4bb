"""WorkloadPriorityClasses: the priorities that workloads can wait with."""

from dataclasses import dataclass

from regions.kueue.objects.meta import Meta, read_meta
from regions.kueue.objects.reading import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityClass:
    """One WorkloadPriorityClass."""

    meta: Meta
    value: int


def read_priority_class(fields: Fields, _: str) -> PriorityClass:
    """Read a WorkloadPriorityClass; both versions write it alike."""
    return PriorityClass(meta=read_meta(fields), value=fields.integer("value") or 0)
