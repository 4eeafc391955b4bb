"""ResourceFlavors: which nodes a quota is of."""

from collections.abc import Mapping
from dataclasses import dataclass

from regions.kueue.objects.meta import Meta, read_meta
from regions.kueue.objects.reading import Fields
from regions.kueue.objects.taints import Taint, Toleration, read_taints, read_tolerations


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceFlavor:
    """One ResourceFlavor. Its nodes carry all of ``node_labels``; it has no status."""

    meta: Meta
    node_labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    tolerations: tuple[Toleration, ...]
    topology: str


def read_resource_flavor(fields: Fields, _: str) -> ResourceFlavor:
    """Read a ResourceFlavor; both versions write it alike."""
    spec = fields.inner("spec")
    return ResourceFlavor(
        meta=read_meta(fields),
        node_labels=spec.pairs("nodeLabels"),
        taints=read_taints(spec, "nodeTaints"),
        tolerations=read_tolerations(spec, "tolerations"),
        topology=spec.text("topologyName"),
    )
