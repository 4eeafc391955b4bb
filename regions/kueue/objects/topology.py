"""Topologies: the labels by which nodes stand near each other, widest first."""

from dataclasses import dataclass

from regions.kueue.objects.meta import Meta, read_meta
from regions.kueue.objects.reading import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """One Topology. ``levels`` are node labels, from the widest domain to the host."""

    meta: Meta
    levels: tuple[str, ...]


def read_topology(fields: Fields, _: str) -> Topology:
    """Read a Topology; all versions write it alike."""
    levels = fields.inner("spec").each("levels")
    return Topology(
        meta=read_meta(fields),
        levels=tuple(level.text("nodeLabel") for level in levels),
    )
