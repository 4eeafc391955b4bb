"""What a cluster serves, in which versions, and what we may do there.

The rule: only a plain "there is no such thing" counts as one; whatever else goes wrong leaves the
answer open, and raises. What is absent narrows what can be seen, and is said. Read ``discover``
first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from regions.kueue.access import Api
from regions.kueue.errors import BrokenError, MissingError
from regions.kueue.objects import kinds
from regions.kueue.objects.kinds import KINDS, Kind

_ABSENT: dict[str, str] = {
    kinds.CLUSTER_QUEUES.name: "Kueue is not installed: there are no ClusterQueues",
    kinds.LOCAL_QUEUES.name: "Kueue is not installed: there are no LocalQueues",
    kinds.WORKLOADS.name: "Kueue is not installed: there are no Workloads",
    kinds.RESOURCE_FLAVORS.name: "Kueue is not installed: there are no ResourceFlavors",
    kinds.JOB_SETS.name: "JobSet is not installed: no gang can be started",
}
"""Without these a cluster is of no use. Others are features that it does not have, and that is
nothing to be blind to: no ProvisioningRequest can exist where its kind does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What a cluster serves: the version that we take of each kind, by the kind's name."""

    kubernetes: str
    versions: Mapping[str, str]
    blind: tuple[str, ...]

    def version(self, kind: Kind[object]) -> str | None:
        """Return the version of a kind to ask for, None when the cluster has none."""
        return self.versions.get(kind.name)


def path(kind: Kind[object], version: str, namespace: str = "", name: str = "") -> str:
    """Return where objects of a kind are; without a namespace, those of all of them."""
    root = f"/apis/{kind.group}/{version}" if kind.group else f"/api/{version}"
    place = f"/namespaces/{namespace}" if namespace and kind.is_namespaced else ""
    return f"{root}{place}/{kind.plural}" + (f"/{name}" if name else "")


async def discover(api: Api) -> Served:
    """Ask what is served. Raises ClusterError."""
    told = await _get(api, "/version", _Version)
    assert told is not None
    found: dict[str, str] = {kind.name: kind.versions[0] for kind in KINDS if not kind.group}
    for group in dict.fromkeys(kind.group for kind in KINDS if kind.group):
        found |= await _of_group(api, group)
    return Served(
        kubernetes=told.git_version,
        versions=found,
        blind=tuple(dict.fromkeys(why for name, why in _ABSENT.items() if name not in found)),
    )


async def _of_group(api: Api, group: str) -> dict[str, str]:
    """Return the version of each kind of a group, the best that is served."""
    told = await _get(api, f"/apis/{group}", _Group)
    served = [each.version for each in told.versions] if told is not None else []
    wanted = [kind for kind in KINDS if kind.group == group]
    known = dict.fromkeys(version for kind in wanted for version in kind.versions)
    found: dict[str, str] = {}
    for version in (version for version in known if version in served):
        if len(found) == len(wanted):
            break
        there = await _get(api, f"/apis/{group}/{version}", _Resources)
        names = {each.name for each in there.resources} if there is not None else set()
        found = {
            kind.name: version
            for kind in wanted
            if kind.plural in names and version in kind.versions
        } | found
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What may be done with which objects. ``names`` empty: with all of them."""

    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What we may do in a namespace. ``is_whole`` False: there may be more than the rules say."""

    rules: tuple[Rule, ...]
    is_whole: bool

    def may(self, verb: str, group: str, resource: str) -> bool | None:
        """Whether we may do that with every such object; None when it cannot be told."""
        for rule in self.rules:
            is_meant = (
                {verb, "*"} & rule.verbs
                and {group, "*"} & rule.groups
                and {resource, "*"} & rule.resources
            )
            if is_meant and not rule.names:
                return True
        return False if self.is_whole else None


async def rights(api: Api, namespace: str) -> Rights:
    """Ask what we may do in a namespace. Raises ClusterError."""
    where = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    asked = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    told = _read(await api.ask("POST", where, body=asked), _Review, where).status
    return Rights(
        rules=tuple(
            Rule(
                verbs=frozenset(rule.verbs),
                groups=frozenset(rule.api_groups or ()),
                resources=frozenset(rule.resources or ()),
                names=frozenset(rule.resource_names or ()),
            )
            for rule in told.resource_rules or ()
        ),
        is_whole=not told.incomplete,
    )


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = ""


class _GroupVersion(msgspec.Struct, frozen=True):
    version: str


class _Group(msgspec.Struct, frozen=True):
    versions: list[_GroupVersion]


class _Resource(msgspec.Struct, frozen=True):
    name: str


class _Resources(msgspec.Struct, frozen=True):
    resources: list[_Resource]


class _Rule(msgspec.Struct, frozen=True, rename="camel"):
    verbs: list[str]
    api_groups: list[str] | None = None
    resources: list[str] | None = None
    resource_names: list[str] | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    resource_rules: list[_Rule] | None = None
    incomplete: bool = False


class _Review(msgspec.Struct, frozen=True):
    status: _Status


_Told = TypeVar("_Told")


async def _get(api: Api, where: str, form: type[_Told]) -> _Told | None:
    try:
        return _read(await api.ask("GET", where), form, where)
    except MissingError:
        return None


def _read(body: bytes, form: type[_Told], where: str) -> _Told:
    try:
        return msgspec.json.decode(body, type=form)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BrokenError(f"{where} answers something else: {error}") from error
