"""Cohorts: the inner nodes of the tree through which quota is lent."""

from dataclasses import dataclass

from regions.kueue.objects.meta import Meta, read_meta
from regions.kueue.objects.quotas import ResourceGroup, read_groups
from regions.kueue.objects.reading import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """One Cohort. ``parent`` is empty at the top; ``groups`` is quota of its own, to share."""

    meta: Meta
    parent: str
    groups: tuple[ResourceGroup, ...]


def read_cohort(fields: Fields, _: str) -> Cohort:
    """Read a Cohort; both versions write it alike."""
    spec = fields.inner("spec")
    return Cohort(
        meta=read_meta(fields),
        # Before it was renamed, with the promotion to v1beta1, the field was ``parent``.
        parent=spec.text("parentName") or spec.text("parent"),
        groups=read_groups(spec),
    )
