"""Whether a member cluster has what the broker needs, asked when a person wants to know.

The rule: what cannot be asked is said to be unknown, never to be well; each thing that is missing
comes with what is lost without it, and with what mends it. Rights are asked one by one, by the
table that the roles were made of: what a role says need not be what the cluster allows. Read
``examine`` first.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from regions.examined import Finding
from regions.kueue.access import Api
from regions.kueue.discovery import Served, discover, path
from regions.kueue.errors import BrokenError, ClusterError
from regions.kueue.objects import kinds
from regions.kueue.objects.kinds import Kind, Unreadable, decode, key_of
from regions.kueue.objects.meta import Conditions
from regions.kueue.objects.priority_class import PriorityClass
from regions.kueue.rights import NODE_EVENTS, RIGHTS, Right, Scope
from regions.kueue.sites import classes_for

BOOTSTRAP = "broker regions bootstrap --apply"
AT_ONCE = 8
_BY_PLURAL = {kind.plural: kind for kind in kinds.KINDS}
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """What ops wrote of the cluster: names of LocalQueues and priority classes, empty for all."""

    namespace: str
    queues: frozenset[str] = frozenset()
    priority_classes: frozenset[str] = frozenset()


async def examine(api: Api, member: Member) -> tuple[Finding, ...]:
    """Ask the cluster what it serves and allows, and what stands in our namespace."""
    try:
        served = await discover(api)
    except ClusterError as error:
        mend = "see whether the address, the credentials and the network to it are right"
        return (Finding(what="API server", is_well=False, said=f"{error}", mend=mend),)
    findings = [*_versions(served), *await _rights(api, member.namespace, served)]
    for asking in (_queues(api, member, served), _priorities(api, member, served)):
        findings += await asking
    return tuple(findings)


# ---- what is served ----


def _versions(served: Served) -> Iterator[Finding]:
    yield Finding(what="API server", is_well=True, said=f"Kubernetes {served.kubernetes}")
    for name, kind in (("Kueue", kinds.WORKLOADS), ("JobSet", kinds.JOB_SETS)):
        version = served.version(kind)
        known = ", ".join(kind.versions)
        yield Finding(
            what=name,
            is_well=version is not None,
            said=f"serves {version}" if version else f"does not serve {kind.plural} in {known}",
            mend="" if version else f"install {name}, in a version that serves {known}",
        )
    flex = served.version(kinds.PROVISIONING_REQUESTS)
    said = f"serves {flex}" if flex else "are not there, so flex-start cannot be asked for"
    yield Finding(what="ProvisioningRequests", is_well=True, said=said)


# ---- what is allowed ----


async def _rights(api: Api, namespace: str, served: Served) -> list[Finding]:
    places = {Scope.CLUSTER: "", Scope.GANGS: namespace, Scope.NODE_EVENTS: NODE_EVENTS}
    wanted = [each for each in RIGHTS if _is_served(each, served)]
    try:
        lacking = await _denied(api, [(each, places[each.scope]) for each in wanted])
        wide = [each for each in lacking if each.scope is Scope.CLUSTER and _is_namespaced(each)]
        nowhere = await _denied(api, [(each, namespace) for each in wide])
    except ClusterError as error:
        return [Finding(what="rights", is_well=False, said=f"they could not be asked: {error}")]
    if not lacking:
        count = sum(len(each.verbs) for each in wanted)
        return [Finding(what="rights", is_well=True, said=f"all {count} that are needed are held")]
    return [
        _lacking(each, verbs, namespace, is_narrow=each in wide and each not in nowhere)
        for each, verbs in lacking.items()
    ]


async def _denied(api: Api, asked: list[tuple[Right, str]]) -> dict[Right, list[str]]:
    """Return the rights that are not held in those namespaces, and their verbs that are not.

    Raises ClusterError, when all have been answered: none is left behind.
    """
    limit = asyncio.Semaphore(AT_ONCE)

    async def ask(right: Right, verb: str, place: str) -> bool:
        async with limit:
            return await is_allowed(api, right, verb, place)

    each_verb = [(right, verb, place) for right, place in asked for verb in right.verbs]
    answers = await asyncio.gather(*(ask(*one) for one in each_verb), return_exceptions=True)
    found: dict[Right, list[str]] = {}
    for (right, verb, _), answer in zip(each_verb, answers, strict=True):
        if isinstance(answer, BaseException):
            raise answer
        if not answer:
            found.setdefault(right, []).append(verb)
    return found


def _lacking(right: Right, verbs: Iterable[str], namespace: str, *, is_narrow: bool) -> Finding:
    what = f"right to {', '.join(verbs)} {right.name}"
    if is_narrow:
        said = f"is held in namespace {namespace} only, not {right.scope}: {right.loss}"
        return Finding(what=what, is_well=False, said=said, mend=f"{BOOTSTRAP} grants it")
    said = f"is not held {right.scope}: {right.loss}"
    return Finding(what=what, is_well=False, said=said, mend=f"{BOOTSTRAP} grants it")


def _is_served(right: Right, served: Served) -> bool:
    kind = _BY_PLURAL.get(right.resource)
    return kind is None or served.version(kind) is not None


def _is_namespaced(right: Right) -> bool:
    kind = _BY_PLURAL.get(right.resource)
    return kind is not None and kind.is_namespaced


async def is_allowed(api: Api, right: Right, verb: str, namespace: str) -> bool:
    """Whether we may do one thing; an empty namespace is all of them. Raises ClusterError."""
    resource, _, part = right.resource.partition("/")
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {
            "resourceAttributes": {
                "namespace": namespace,
                "verb": verb,
                "group": right.group,
                "resource": resource,
                "subresource": part,
            }
        },
    }
    where = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    return _told(await api.ask("POST", where, body=body), _Review).status.allowed


# ---- what stands there ----


async def _queues(api: Api, member: Member, served: Served) -> list[Finding]:
    version = served.version(kinds.LOCAL_QUEUES)
    if version is None:
        return []
    try:
        queues = await _all(api, kinds.LOCAL_QUEUES, version, member.namespace)
    except ClusterError as error:
        return [Finding(what="queues", is_well=False, said=f"they cannot be seen: {error}")]
    found = [
        _queue(name, queue.conditions, queue.cluster_queue, queue.stop_policy)
        for name, queue in sorted(queues.items())
        if not member.queues or name in member.queues
    ]
    lost = sorted(member.queues - queues.keys())
    if not queues and not lost:
        said = f"namespace {member.namespace} has no LocalQueue: nothing can be queued there"
        mend = f"{BOOTSTRAP} --queue NAME=CLUSTERQUEUE makes one"
        found.append(Finding(what="queues", is_well=False, said=said, mend=mend))
    for name in lost:
        said = f"there is none of this name in namespace {member.namespace}"
        mend = f"make it, or take it out of the configuration; {BOOTSTRAP} --queue makes one"
        found.append(Finding(what=f"queue {name}", is_well=False, said=said, mend=mend))
    return found


def _queue(name: str, conditions: Conditions, above: str, stop: str) -> Finding:
    active = next((each for each in conditions if each.type == "Active"), None)
    if stop != "None":
        said, mend = f"it is stopped ({stop})", "whoever stopped it lets it go on"
    elif active is None:
        said, mend = f"Kueue says nothing of it: does ClusterQueue {above} exist?", "see Kueue"
    elif not active.status:
        said = f"it does not admit: {active.message or active.reason}"
        mend = f"see whether ClusterQueue {above} exists and is active"
    else:
        return Finding(what=f"queue {name}", is_well=True, said=f"admits, through {above}")
    return Finding(what=f"queue {name}", is_well=False, said=said, mend=mend)


async def _priorities(api: Api, member: Member, served: Served) -> list[Finding]:
    version = served.version(kinds.PRIORITY_CLASSES)
    if version is None:
        return []
    try:
        classes = await _all(api, kinds.PRIORITY_CLASSES, version, "")
    except ClusterError as error:
        return [Finding(what="priorities", is_well=False, said=f"they cannot be seen: {error}")]
    ours = classes_for(classes.values(), member.priority_classes)
    lost = sorted(member.priority_classes - classes.keys())
    said = ", ".join(f"{name} is {value}" for name, value in sorted(ours.items()))
    if lost:
        said = f"there is no class {', '.join(lost)}"
    elif not ours:
        said = "no class of priority is for its gangs: who waits preempts as who trains does"
    elif len(set(ours.values())) == 1:
        said = f"{said}, the only one: a granted gang cannot be raised above those that wait"
    below = "" if lost or not ours else _preempted_by_who_waits(ours, classes.values())
    said = f"{said}; {below}" if below else said
    is_well = not lost and len(set(ours.values())) > 1 and not below
    mend = "" if is_well else f"{BOOTSTRAP} makes two"
    return [Finding(what="priorities", is_well=is_well, said=said, mend=mend)]


def _preempted_by_who_waits(ours: Mapping[str, int], classes: Iterable[PriorityClass]) -> str:
    """Say whom a gang that only waits may preempt, empty for nobody."""
    waiting = min(ours, key=lambda name: (ours[name], name))
    lower = sorted(
        each.meta.name
        for each in classes
        if each.meta.name not in ours and each.value < ours[waiting]
    )
    if lower:
        return f"who waits as {waiting} may preempt others who have {', '.join(lower)}"
    # Who names no class has a priority of 0.
    return f"who waits as {waiting} may preempt whoever has no class" if ours[waiting] > 0 else ""


async def _all(api: Api, kind: Kind[T], version: str, namespace: str) -> dict[str, T]:
    """Return the readable objects of a kind by name. Raises ClusterError."""
    told = _told(await api.ask("GET", path(kind, version, namespace)), _List)
    found: dict[str, T] = {}
    for raw in told.items:
        each = decode(kind, version, raw)
        if not isinstance(each, Unreadable):
            found[key_of(raw).rpartition("/")[2]] = each
    return found


class _Allowed(msgspec.Struct):
    allowed: bool


class _Review(msgspec.Struct):
    status: _Allowed


class _List(msgspec.Struct):
    items: list[dict[str, object]]


_Form = TypeVar("_Form")


def _told(body: bytes, form: type[_Form]) -> _Form:
    try:
        return msgspec.json.decode(body, type=form)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BrokenError(f"the answer is another: {error}") from error
