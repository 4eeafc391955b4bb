"""Nodes: what stands there, and what it can hold."""

from collections.abc import Mapping
from dataclasses import dataclass

from regions.kueue.objects import meta
from regions.kueue.objects.meta import Conditions, Meta, read_conditions, read_meta
from regions.kueue.objects.reading import Fields, unix_s
from regions.kueue.objects.taints import Taint, read_taints

ZONE = "topology.kubernetes.io/zone"
PLANNED_END = "node.gke.io/machine-termination-datetime"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node. ``planned_end_s``: when its machine will be taken back, None when untold."""

    meta: Meta
    is_cordoned: bool
    taints: tuple[Taint, ...]
    allocatable: Mapping[str, int]
    conditions: Conditions
    planned_end_s: float | None

    @property
    def is_ready(self) -> bool:
        """Whether its kubelet says that it works."""
        return meta.holds(self.conditions, "Ready")

    @property
    def zone(self) -> str:
        """Where it stands, empty when it does not say."""
        return self.meta.labels.get(ZONE, "")


def read_node(fields: Fields, _: str) -> Node:
    """Read a node."""
    spec, status = fields.inner("spec"), fields.inner("status")
    found = read_meta(fields)
    return Node(
        meta=found,
        is_cordoned=spec.flag("unschedulable"),
        taints=read_taints(spec, "taints"),
        allocatable=status.amounts("allocatable"),
        conditions=read_conditions(status),
        planned_end_s=unix_s(found.annotations.get(PLANNED_END, "")),
    )
