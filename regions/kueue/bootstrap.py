"""What a member cluster needs before the broker can use it, as objects to apply. Pure.

The rule: each object says what it grants, and grants no more than ``rights`` has a row for; all of
it bears one label, by which it is taken back. The broker's account stands in a namespace of its
own: where gangs run, a run could name it as its own account. Read ``pieces`` first.

Nothing here is over queues of others: the broker uses them by a LocalQueue that leads there.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from regions.kueue import names, own_queue
from regions.kueue.objects.kinds import KUEUE
from regions.kueue.own_queue import OwnQueue, SettingsError
from regions.kueue.rights import NODE_EVENTS, RBAC, RIGHTS, Right, Scope, granted, rules

MEMBER = names.PREFIX + "member"
"""The label that names the gangs' namespace that an object is for; what all members of a cluster
share has none."""
WAITING, RUNNING = "capacity-broker-waiting", "capacity-broker-running"
ACCOUNT = "capacity-broker"
STANDARDS = ("restricted", "baseline", "privileged")
MOST_PRIORITY = 1_000_000_000

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a platform team decides about a member cluster.

    ``namespace`` is the gangs'. ``queues``: LocalQueues to the ClusterQueues that they lead to.
    ``users`` are the names under which a broker logs in from elsewhere (a cloud identity's e-mail
    address); without any it is a ServiceAccount in ``account_namespace``. ``pod_security`` is the
    standard that the gangs' namespace holds pods to. ``waiting`` and ``running`` are the values of
    the two priorities. ``kueue`` is the version of Kueue's API.
    """

    namespace: str = "capacity-broker"
    queues: Mapping[str, str]
    own_queue: OwnQueue | None = None
    account_namespace: str = "capacity-broker-system"
    users: tuple[str, ...] = ()
    pod_security: str = "restricted"
    sees_pods_of_others: bool = True
    waiting: int = -1_000_000
    running: int = 500_000
    kueue: str = "v1beta2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One object. ``grants`` are sentences; ``file`` is what it stands under as a manifest."""

    file: str
    manifest: Object
    grants: tuple[str, ...]

    @property
    def name(self) -> str:
        """What people call it: kind, namespace if it has one, name."""
        return name_of(self.manifest)


def name_of(manifest: Object) -> str:
    """Return what people call an object."""
    meta = manifest["metadata"]
    place = f"{meta['namespace']}/" if meta.get("namespace") else ""
    return f"{manifest['kind']} {place}{meta['name']}"


def pieces(settings: Settings) -> tuple[Piece, ...]:
    """Return the objects in the order in which they are applied. Raises SettingsError."""
    _check(settings)
    return (
        *_namespaces(settings),
        *_account(settings),
        *_rights(settings),
        _closed_by_default(settings),
        *_priorities(settings),
        *_queues(settings),
    )


def _check(settings: Settings) -> None:
    for what, name in (
        ("namespace", settings.namespace),
        ("account namespace", settings.account_namespace),
    ):
        if not names.is_dns_label(name):
            raise SettingsError(f"{what} {name[:80]!r} cannot name a namespace")
    if settings.namespace == NODE_EVENTS:
        raise SettingsError("gangs need a namespace of their own: default is everybody's")
    if settings.account_namespace == settings.namespace and not settings.users:
        raise SettingsError(
            "the broker's account cannot stand where gangs run: a run could name it as its own"
        )
    if settings.pod_security not in STANDARDS:
        raise SettingsError(f"the pod security standards are {', '.join(STANDARDS)}")
    if not -MOST_PRIORITY <= settings.waiting < settings.running <= MOST_PRIORITY:
        raise SettingsError("a gang that waits needs a lower priority than one that trains")
    if not settings.queues:
        raise SettingsError("name at least one LocalQueue and the ClusterQueue that it leads to")
    for name in (*settings.queues, *settings.queues.values()):
        if not names.is_object_name(name):
            raise SettingsError(f"{name[:80]!r} cannot name a queue")


def _namespaces(settings: Settings) -> Iterator[Piece]:
    yield Piece(
        file="10-namespaces",
        manifest=_object(
            "v1",
            "Namespace",
            _meta(settings.namespace, settings.namespace)
            | {"labels": _labels(settings.namespace) | standards(settings.pod_security)},
        ),
        grants=(
            "Gangs run here, and nothing else needs to.",
            f"It admits pods that keep to the security standard {settings.pod_security}.",
        ),
    )
    if not settings.users:
        yield Piece(
            file="10-namespaces",
            manifest=_object(
                "v1",
                "Namespace",
                {
                    "name": settings.account_namespace,
                    "labels": _labels() | standards("restricted"),
                },
            ),
            grants=("The broker's account stands here, out of the reach of runs.",),
        )


def standards(level: str) -> dict[str, str]:
    """Return the labels by which a namespace holds its pods to a security standard."""
    return {f"pod-security.kubernetes.io/{mode}": level for mode in ("enforce", "warn")}


def _account(settings: Settings) -> Iterator[Piece]:
    if settings.users:
        return
    yield Piece(
        file="20-account",
        manifest=_object(
            "v1",
            "ServiceAccount",
            {"name": ACCOUNT, "namespace": settings.account_namespace, "labels": _labels()},
        )
        | {"automountServiceAccountToken": False},
        grants=("Who the broker is to this cluster. Alone it may nothing; no token is made here.",),
    )


def _rights(settings: Settings) -> Iterator[Piece]:
    """The roles, each with who it is given to."""
    for scope, name, namespace in (
        (Scope.CLUSTER, f"capacity-broker-{settings.namespace}", ""),
        (Scope.GANGS, "capacity-broker", settings.namespace),
        (Scope.NODE_EVENTS, f"capacity-broker-{settings.namespace}", NODE_EVENTS),
    ):
        held = [each for each in _granted(settings) if each.scope is scope]
        kind = "Role" if namespace else "ClusterRole"
        meta = _meta(settings.namespace, name, namespace)
        yield Piece(
            file="30-rights",
            manifest=_object(f"{RBAC}/v1", kind, meta) | {"rules": rules(held, scope)},
            grants=(*(f"{each.sentence()}." for each in held), *_reading_only(held)),
        )
        yield Piece(
            file="30-rights",
            manifest=_object(f"{RBAC}/v1", f"{kind}Binding", meta)
            | {
                "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
                "subjects": _subjects(settings),
            },
            grants=(f"Gives the role above to {_who(settings)}.",),
        )


def _reading_only(held: Iterable[Right]) -> tuple[str, ...]:
    verbs = {verb for each in held for verb in each.verbs}
    return () if verbs - {"list", "watch"} else ("It only reads.",)


def _granted(settings: Settings) -> tuple[Right, ...]:
    return granted(RIGHTS, with_pods_of_others=settings.sees_pods_of_others)


def _subjects(settings: Settings) -> list[Object]:
    if settings.users:
        return [{"apiGroup": RBAC, "kind": "User", "name": each} for each in settings.users]
    place = settings.account_namespace
    return [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": place}]


def _who(settings: Settings) -> str:
    if settings.users:
        return " and ".join(settings.users)
    return f"the account {settings.account_namespace}/{ACCOUNT}"


def _closed_by_default(settings: Settings) -> Piece:
    return Piece(
        file="40-network",
        manifest=_object(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            _meta(settings.namespace, "capacity-broker-closed", settings.namespace),
        )
        | {
            "spec": {
                "podSelector": {"matchLabels": {names.MANAGED_BY: names.MANAGER}},
                "policyTypes": ["Ingress", "Egress"],
            }
        },
        grants=(
            "Grants nothing: a gang's processes speak with nobody until it has its own enclave.",
            "Pods of others in the namespace are not touched.",
        ),
    )


def _priorities(settings: Settings) -> Iterator[Piece]:
    for name, value, grants in (
        (
            WAITING,
            settings.waiting,
            "Gangs wait with this priority: below it nobody is, so that it preempts nobody.",
        ),
        (
            RUNNING,
            settings.running,
            "A gang that was granted is raised to this: only what is above it preempts it.",
        ),
    ):
        yield Piece(
            file="50-priorities",
            manifest=_object(
                f"{KUEUE}/{settings.kueue}",
                "WorkloadPriorityClass",
                {"name": name, "labels": _labels()},
            )
            | {"value": value, "description": grants},
            grants=(grants,),
        )


def _queues(settings: Settings) -> Iterator[Piece]:
    own = settings.own_queue
    if own is not None:
        meta = _meta(settings.namespace, own.name)
        yield Piece(
            file="60-queues",
            manifest=_object(f"{KUEUE}/{settings.kueue}", "ClusterQueue", meta)
            | {"spec": own_queue.spec(own, settings.namespace, settings.kueue)},
            grants=own_queue.grants(own, settings.namespace),
        )
    for name, above in settings.queues.items():
        yield Piece(
            file="60-queues",
            manifest=_object(
                f"{KUEUE}/{settings.kueue}",
                "LocalQueue",
                _meta(settings.namespace, name, settings.namespace),
            )
            | {"spec": {"clusterQueue": above}},
            grants=(f"Workloads of this namespace may take quota of ClusterQueue {above}.",),
        )


def _object(api: str, kind: str, meta: Object) -> Object:
    return {"apiVersion": api, "kind": kind, "metadata": meta}


def _meta(member: str, name: str, namespace: str = "") -> Object:
    place = {"namespace": namespace} if namespace else {}
    return {"name": name, **place, "labels": _labels(member)}


def _labels(member: str = "") -> dict[str, str]:
    shared = {names.MANAGED_BY: names.MANAGER, names.PART: names.MEMBER_PART}
    return shared | ({MEMBER: member} if member else {})


def is_ours(found: Object) -> bool:
    """Whether an object that is there was set up here: by its labels."""
    return names.is_set_up(found.get("metadata", {}).get("labels") or {})


def member_of(found: Object) -> str:
    """Return the gangs' namespace that an object of ours is for; empty: it is shared."""
    labels = found.get("metadata", {}).get("labels") or {}
    return str(labels.get(MEMBER, ""))
