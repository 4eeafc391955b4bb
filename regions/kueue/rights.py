"""What the broker may do in a member cluster: one table, beside the code that needs each row. Pure.

The rule: a row for each resource that is asked for, with just the verbs that are used; what asks
without a row, or a row that nobody asks for, fails a test. Whoever sets a cluster up grants these
(``bootstrap``), whoever looks after it checks these (``checkup``). Read ``RIGHTS`` first.

What needs no row is what every login has: ``/version``, discovery, and to ask what it may do.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from regions.kueue.objects import kinds
from regions.kueue.objects.kinds import Kind

RBAC = "rbac.authorization.k8s.io"
NETWORKING = "networking.k8s.io"
NODE_EVENTS = "default"
"""Where Kubernetes keeps what is told of things that have no namespace."""
_SEE = ("list", "watch")


class Scope(StrEnum):
    """Where a right holds: in the whole cluster, in the gangs' namespace, in ``default``."""

    CLUSTER = "in the whole cluster"
    GANGS = "in the gangs' namespace"
    NODE_EVENTS = "in namespace default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """A resource and the verbs on it. ``resource`` may be a part of another: ``pods/log``.

    ``purpose`` says what it is for; ``loss`` what is not without it. ``is_essential``: without it
    no gang is started there, or none can be spoken of.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    scope: Scope
    purpose: str
    loss: str
    is_essential: bool = False

    @property
    def name(self) -> str:
        """The resource's full name, as kubectl takes it."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    def sentence(self) -> str:
        """Say what is granted, where, and what for."""
        return f"{', '.join(self.verbs)} {self.name} {self.scope}: {self.purpose}"


def _seen(
    kind: Kind[object], purpose: str, loss: str, *, scope: Scope = Scope.CLUSTER, must: bool = False
) -> Right:
    return Right(
        group=kind.group,
        resource=kind.plural,
        verbs=_SEE,
        scope=scope,
        purpose=purpose,
        loss=loss,
        is_essential=must,
    )


RIGHTS: tuple[Right, ...] = (
    _seen(
        kinds.CLUSTER_QUEUES,
        "how much quota there is, and how much of it is reserved and used",
        "quota is unknown, and every forecast is a guess",
    ),
    _seen(
        kinds.LOCAL_QUEUES,
        "into which queues a gang can be put, and whether they are open",
        "no gang can be put into a queue",
        must=True,
    ),
    _seen(
        kinds.COHORTS,
        "what a queue could borrow",
        "what can be borrowed is unknown",
    ),
    _seen(
        kinds.RESOURCE_FLAVORS,
        "which machines a flavor stands for: capacity type, accelerator, labels, taints",
        "no gang can be sent to a flavor",
        must=True,
    ),
    _seen(
        kinds.TOPOLOGIES,
        "which machines stand close together",
        "how close machines stand is unknown",
    ),
    _seen(
        kinds.ADMISSION_CHECKS,
        "which checks stand between quota and a start, and whether one is flex-start's",
        "a flavor of flex-start is not known as one, and a silent check has no name",
    ),
    _seen(
        kinds.PROVISIONING_CONFIGS,
        "how flex-start capacity is asked for",
        "a flavor of flex-start is not known as one",
    ),
    _seen(
        kinds.WORKLOADS,
        "what stands before a gang in its queue, and who holds the quota",
        "what is ahead of a gang is unknown; without those of its own namespace nothing is told"
        " of it",
        must=True,
    ),
    _seen(
        kinds.PRIORITY_CLASSES,
        "with which priority a gang waits, and to which it is raised",
        "gangs wait and train with the cluster's default priority",
    ),
    _seen(
        kinds.PODS,
        "what a gang's processes do, and which machines stand free of others' pods",
        "which machines are free is unknown; without those of its own namespace nothing is told"
        " of a gang",
        must=True,
    ),
    _seen(
        kinds.NODES,
        "which machines there are, what they could hold, and which was lost",
        "free machines are unknown, and a lost one is told late",
    ),
    Right(
        group=kinds.JOB_SETS.group,
        resource=kinds.JOB_SETS.plural,
        verbs=("create", "delete", "get", *_SEE, "patch"),
        scope=Scope.GANGS,
        purpose="to start a gang, raise its priority when it is granted, and remove it",
        loss="no gang is started, and none is removed",
        is_essential=True,
    ),
    Right(
        group="",
        resource="configmaps",
        verbs=("create", "get"),
        scope=Scope.GANGS,
        purpose="to bring the launcher that stands in front of each command",
        loss="no gang is started",
        is_essential=True,
    ),
    Right(
        group=NETWORKING,
        resource="networkpolicies",
        verbs=("create", "get"),
        scope=Scope.GANGS,
        purpose="to make each gang an enclave of its own",
        loss="no gang is started, for none goes without its enclave",
        is_essential=True,
    ),
    Right(
        group="",
        resource="pods/log",
        verbs=("get",),
        scope=Scope.GANGS,
        purpose="to show what a rank prints",
        loss="`broker logs` shows nothing of gangs there",
    ),
    _seen(
        kinds.PROVISIONING_REQUESTS,
        "when flex-start capacity will come, and why it did not",
        "the wait for flex-start has no estimate",
        scope=Scope.GANGS,
    ),
    _seen(
        kinds.EVENTS,
        "why a pod does not start: images, mounts, machines that do not come",
        "many causes of a wait are not told",
        scope=Scope.GANGS,
    ),
    _seen(
        kinds.EVENTS,
        "what the cloud says of its machines: stockouts, spot ends",
        "that machines of others are taken back from a flavor is not learned",
        scope=Scope.NODE_EVENTS,
    ),
)


def granted(rights: Iterable[Right], *, with_pods_of_others: bool) -> tuple[Right, ...]:
    """Return the rights to grant. Where others' pods are not to be seen, ours still are."""
    if with_pods_of_others:
        return tuple(rights)
    return tuple(
        _seen(
            kinds.PODS,
            "what a gang's processes do; others' pods are not seen, so free machines are unknown",
            each.loss,
            scope=Scope.GANGS,
            must=True,
        )
        if each.name == kinds.PODS.name
        else each
        for each in rights
    )


def rules(rights: Iterable[Right], scope: Scope) -> list[dict[str, Any]]:
    """Return the rules of the role that holds the rights of a scope, those alike in one."""
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for each in rights:
        if each.scope is scope:
            found.setdefault((each.group, each.verbs), []).append(each.resource)
    return [
        {"apiGroups": [group], "resources": sorted(resources), "verbs": list(verbs)}
        for (group, verbs), resources in found.items()
    ]
