"""All that a cluster's informers know at one moment, and how well. Pure.

The rule: what was never heard, or is not ours to see, is unknown, and so is nothing counted from
it; a kind that the cluster does not have is known, and empty. Without some kinds nothing can be
said of our placements: not to see those makes the whole picture partial (``blind``). Others only
leave figures open (``narrow``). Read ``seen`` first.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from regions.kueue.cache import Health
from regions.kueue.objects import kinds
from regions.kueue.objects.admission_check import AdmissionCheck, ProvisioningConfig
from regions.kueue.objects.cluster_queue import ClusterQueue
from regions.kueue.objects.cohort import Cohort
from regions.kueue.objects.kinds import Kind, Unreadable
from regions.kueue.objects.local_queue import LocalQueue
from regions.kueue.objects.node import Node
from regions.kueue.objects.pod import Pod
from regions.kueue.objects.resource_flavor import ResourceFlavor
from regions.kueue.objects.topology import Topology
from regions.kueue.objects.workload import Workload

T = TypeVar("T")

STALE_S = 210.0
"""Two silences of a watch: what was not heard of for so long may be otherwise by now."""
SAID = 3
"""Of a kind's unreadable objects so many are said; there may be thousands, for one reason."""
ESSENTIAL = frozenset(
    kind.name for kind in (kinds.LOCAL_QUEUES, kinds.WORKLOADS, kinds.JOB_SETS, kinds.PODS)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen(Generic[T]):
    """The objects of one kind by key.

    ``is_known`` False: there may be others than these, or none of them. ``is_everywhere`` False:
    only those of one namespace are seen. ``is_denied``: they are not ours to see. ``trouble`` says
    why, empty when all is well.
    """

    objects: Mapping[str, T]
    unreadable: Mapping[str, Unreadable]
    is_known: bool
    is_everywhere: bool
    trouble: str
    is_denied: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether these are all that there are, each readable."""
        return self.is_known and self.is_everywhere and not self.unreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What is known of the kinds from which queues and flavors are described."""

    cluster_queues: Seen[ClusterQueue]
    local_queues: Seen[LocalQueue]
    cohorts: Seen[Cohort]
    flavors: Seen[ResourceFlavor]
    topologies: Seen[Topology]
    checks: Seen[AdmissionCheck]
    provisioning: Seen[ProvisioningConfig]
    workloads: Seen[Workload]
    nodes: Seen[Node]
    pods: Seen[Pod]

    def levels(self, flavor: ResourceFlavor) -> tuple[str, ...] | None:
        """Return the levels by which a flavor's machines stand together, the widest first.

        Empty: there are none; None: they are not seen.
        """
        if not flavor.topology:
            return ()
        found = self.topologies.objects.get(flavor.topology)
        if found is not None:
            return found.levels
        is_hidden = flavor.topology in self.topologies.unreadable
        return None if is_hidden or not self.topologies.is_known else ()


def seen(
    kind: Kind[T],
    objects: Mapping[str, T],
    unreadable: Mapping[str, Unreadable],
    health: Health,
    now_s: float,
) -> Seen[T]:
    """Judge how well a kind is known. ``now_s`` is on the informer's clock."""
    age_s = None if health.heard_s is None else now_s - health.heard_s
    is_fresh = age_s is not None and age_s < STALE_S
    trouble = ""
    if age_s is None or health.is_denied:
        trouble = health.trouble or f"{kind.name} have not been seen yet"
    elif not is_fresh:
        why = f": {health.trouble}" if health.trouble else ""
        trouble = f"{kind.name} have not been heard of for {age_s // 60:.0f} min{why}"
    elif health.scope:
        trouble = f"{kind.name} can be seen in namespace {health.scope} only"
    elif unreadable:
        reasons = [each.reason for _, each in zip(range(SAID), unreadable.values(), strict=False)]
        trouble = f"{len(unreadable)} {kind.name} cannot be read: {'; '.join(reasons)}"
    return Seen(
        objects=objects,
        unreadable=unreadable,
        is_known=is_fresh and not health.is_denied,
        is_everywhere=not health.scope,
        trouble=trouble,
        is_denied=health.is_denied,
    )


def absent() -> Seen[T]:
    """Return what is known of a kind that the cluster does not have: that there are none."""
    return Seen(objects={}, unreadable={}, is_known=True, is_everywhere=True, trouble="")


def blind(known: Iterable[tuple[Kind[object], Seen[object]]]) -> tuple[str, ...]:
    """Say which of what must be seen is not: without it a picture is partial."""
    return tuple(
        each.trouble for kind, each in known if kind.name in ESSENTIAL and not each.is_known
    )


def narrow(known: Iterable[tuple[Kind[object], Seen[object]]]) -> tuple[str, ...]:
    """Say what else is not seen, or not all of it, which leaves figures open."""
    return tuple(
        each.trouble
        for kind, each in known
        if each.trouble and (each.is_known or kind.name not in ESSENTIAL)
    )
