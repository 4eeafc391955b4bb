"""A ClusterQueue of the broker's own, in a cohort, for who wants its runs apart. Pure.

The rule: it takes flavors that are there, covers the same resources in each, and preempts only what
stands below it. Read ``spec`` first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from regions.kueue import names
from regions.kueue.objects.quantity import amount


class SettingsError(Exception):
    """What was asked for cannot be set up; the sentence says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnQueue:
    """The queue's name, its cohort (empty: none) and, per flavor, what it owns of each resource.

    ``checks``: AdmissionChecks to the flavors that each is for (none: all). Quantities are written
    as Kubernetes has them. What it does not own it borrows from the cohort.
    """

    name: str
    cohort: str = ""
    flavors: Mapping[str, Mapping[str, str]]
    checks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def spec(own: OwnQueue, namespace: str, version: str) -> dict[str, Any]:
    """Return the ClusterQueue's spec. Raises SettingsError."""
    covered = _covered(own)
    found: dict[str, Any] = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "resourceGroups": [
            {
                "coveredResources": covered,
                "flavors": [
                    {
                        "name": flavor,
                        "resources": [{"name": one, "nominalQuota": quota[one]} for one in covered],
                    }
                    for flavor, quota in own.flavors.items()
                ],
            }
        ],
        # A gang waits below everybody, so that neither of the two moves anyone for it.
        "preemption": {
            "withinClusterQueue": "LowerPriority",
            "reclaimWithinCohort": "LowerPriority",
        },
    }
    if own.cohort:
        found["cohort" if version == "v1beta1" else "cohortName"] = own.cohort
    if own.checks:
        found["admissionChecksStrategy"] = {
            "admissionChecks": [
                {"name": name, "onFlavors": list(flavors)} if flavors else {"name": name}
                for name, flavors in own.checks.items()
            ]
        }
    return found


def grants(own: OwnQueue, namespace: str) -> tuple[str, ...]:
    """Say what the queue gives to whom."""
    held = "; ".join(
        f"{', '.join(f'{quota} {resource}' for resource, quota in each.items())} of {flavor}"
        for flavor, each in own.flavors.items()
    )
    borrows = (
        f"It borrows what others of cohort {own.cohort} leave, and lends them what it leaves."
        if own.cohort
        else "It stands in no cohort: it neither borrows nor lends."
    )
    return (f"Namespace {namespace}, and no other, has {held}.", borrows)


def _covered(own: OwnQueue) -> list[str]:
    """Return the resources that every flavor has, in the order of the first. Raises."""
    if not names.is_object_name(own.name):
        raise SettingsError(f"{own.name[:80]!r} cannot name a ClusterQueue")
    if not own.flavors:
        raise SettingsError(f"ClusterQueue {own.name} needs a flavor, and its quota")
    first, covered = next((name, list(quota)) for name, quota in own.flavors.items())
    for flavor, quota in own.flavors.items():
        if not quota or set(quota) != set(covered):
            said = f"flavor {flavor} has {', '.join(quota) or 'none'}, {first} {', '.join(covered)}"
            raise SettingsError(f"all flavors of a queue cover the same resources: {said}")
        for resource, text in quota.items():
            if not _is_quota(resource, text):
                raise SettingsError(f"{text[:40]!r} is no quota of {resource} for {flavor}")
    strangers = {one for flavors in own.checks.values() for one in flavors} - own.flavors.keys()
    if strangers:
        raise SettingsError(f"a check is for {min(strangers)}, which is no flavor of the queue")
    return covered


def _is_quota(resource: str, text: str) -> bool:
    try:
        return amount(resource, text) >= 0
    except ValueError:
        return False
