"""ClusterQueues: whose quota it is, and what is held of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from regions.kueue.objects.meta import Conditions, Meta, read_conditions, read_meta
from regions.kueue.objects.quotas import FlavorResource, ResourceGroup, read_groups, read_totals
from regions.kueue.objects.reading import Fields

V1BETA1 = "v1beta1"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRule:
    """An admission check that the queue asks for. ``flavors`` empty: on all of them."""

    name: str
    flavors: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQueue:
    """One ClusterQueue. ``cohort`` is empty for none.

    ``reservation`` is held by all that have quota, whether they wait for a check or run; ``usage``
    by those admitted. Both None: its status was not written yet, which is not nothing held.
    """

    meta: Meta
    cohort: str
    strategy: str
    groups: tuple[ResourceGroup, ...]
    stop_policy: str
    checks: tuple[CheckRule, ...]
    reservation: Mapping[FlavorResource, int] | None
    usage: Mapping[FlavorResource, int] | None
    pending: int
    conditions: Conditions


def read_cluster_queue(fields: Fields, version: str) -> ClusterQueue:
    """Read a ClusterQueue as the version has it."""
    spec, status = fields.inner("spec"), fields.inner("status")
    checks = [
        CheckRule(name=each.text("name"), flavors=each.texts("onFlavors"))
        for each in spec.inner("admissionChecksStrategy").each("admissionChecks")
    ]
    if version == V1BETA1:
        checks += [CheckRule(name=name, flavors=()) for name in spec.texts("admissionChecks")]
    return ClusterQueue(
        meta=read_meta(fields),
        cohort=spec.text("cohort" if version == V1BETA1 else "cohortName"),
        strategy=spec.text("queueingStrategy", "BestEffortFIFO"),
        groups=read_groups(spec),
        stop_policy=spec.text("stopPolicy", "None"),
        checks=tuple(checks),
        reservation=_totals(status, "flavorsReservation"),
        usage=_totals(status, "flavorsUsage"),
        pending=status.count("pendingWorkloads"),
        conditions=read_conditions(status),
    )


def _totals(status: Fields, name: str) -> Mapping[FlavorResource, int] | None:
    return read_totals(status, name) if status.has(name) else None
