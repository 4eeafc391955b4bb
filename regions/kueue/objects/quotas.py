"""Resource groups and the totals of flavors, as queues and cohorts both write them."""

from collections.abc import Mapping
from dataclasses import dataclass

from regions.kueue.objects.reading import Fields, UnreadableError

FlavorResource = tuple[str, str]
"""A flavor and a resource of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What one node of the tree has of one resource of one flavor. A limit of None is none."""

    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorQuota:
    """One flavor of a group, and its quota by resource."""

    flavor: str
    quotas: Mapping[str, Quota]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceGroup:
    """Resources that are given out together, from flavors tried in this order."""

    resources: tuple[str, ...]
    flavors: tuple[FlavorQuota, ...]


def read_groups(spec: Fields) -> tuple[ResourceGroup, ...]:
    """Read ``resourceGroups``."""
    return tuple(
        ResourceGroup(
            resources=group.texts("coveredResources"),
            flavors=tuple(_flavor(flavor) for flavor in group.each("flavors")),
        )
        for group in spec.each("resourceGroups")
    )


def read_totals(status: Fields, name: str) -> dict[FlavorResource, int]:
    """Read what is held in all, by flavor and resource."""
    return {
        (flavor.text("name"), resource.text("name")): _total(resource)
        for flavor in status.each(name)
        for resource in flavor.each("resources")
    }


def by_flavor(groups: tuple[ResourceGroup, ...]) -> dict[FlavorResource, Quota]:
    """Return the quotas of all groups by flavor and resource."""
    return {
        (each.flavor, resource): quota
        for group in groups
        for each in group.flavors
        for resource, quota in each.quotas.items()
    }


def _flavor(fields: Fields) -> FlavorQuota:
    quotas = {each.text("name"): _quota(each) for each in fields.each("resources")}
    return FlavorQuota(flavor=fields.text("name"), quotas=quotas)


def _quota(fields: Fields) -> Quota:
    resource = fields.text("name")
    return Quota(
        nominal=_positive(fields, "nominalQuota", resource) or 0,
        borrowing_limit=_positive(fields, "borrowingLimit", resource),
        lending_limit=_positive(fields, "lendingLimit", resource),
    )


def _total(fields: Fields) -> int:
    """Read a total. It may be below nothing: Kueue's own count is shown as it is."""
    return fields.amount("total", fields.text("name")) or 0


def _positive(fields: Fields, name: str, resource: str) -> int | None:
    found = fields.amount(name, resource)
    if found is not None and found < 0:
        raise UnreadableError(f"the {name} of {resource} is {found}, less than nothing")
    return found
