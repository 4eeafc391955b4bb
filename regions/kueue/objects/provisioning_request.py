"""ProvisioningRequests: nodes that are asked for all at once, before a gang is let in."""

from collections.abc import Mapping
from dataclasses import dataclass

from regions.kueue.objects.meta import Conditions, Meta, read_conditions, read_meta
from regions.kueue.objects.reading import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningRequest:
    """One ProvisioningRequest; its owner is the Workload that waits for it."""

    meta: Meta
    class_name: str
    parameters: Mapping[str, str]
    pods: int
    details: Mapping[str, str]
    conditions: Conditions


def read_provisioning_request(fields: Fields, _: str) -> ProvisioningRequest:
    """Read a ProvisioningRequest; its versions write it alike."""
    spec, status = fields.inner("spec"), fields.inner("status")
    return ProvisioningRequest(
        meta=read_meta(fields),
        class_name=spec.text("provisioningClassName"),
        parameters=spec.pairs("parameters"),
        pods=sum(each.count("count") for each in spec.each("podSets")),
        details=status.pairs("provisioningClassDetails"),
        conditions=read_conditions(status),
    )
