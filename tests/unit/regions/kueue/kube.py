"""Objects as an API server writes them: without arguments each is valid."""

from typing import Any

Json = dict[str, Any]


def meta(name: str = "it", *, namespace: str = "", uid: str = "", **more: Any) -> Json:
    found = {"name": name, "uid": uid or f"uid-of-{name}", "resourceVersion": "1", **more}
    return found | ({"namespace": namespace} if namespace else {})


def condition(
    type_: str, *, status: str = "True", reason: str = "Because", message: str = ""
) -> Json:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-11-01T00:00:00Z",
    }


def groups(quotas: dict[str, Json], resource: str = "nvidia.com/gpu") -> list[Json]:
    """One resource group: flavors to the quota of the resource."""
    flavors = [
        {"name": flavor, "resources": [{"name": resource, **quota}]}
        for flavor, quota in quotas.items()
    ]
    return [{"coveredResources": [resource], "flavors": flavors}]


def totals(held: dict[str, object], resource: str = "nvidia.com/gpu") -> list[Json]:
    return [
        {"name": flavor, "resources": [{"name": resource, "total": total}]}
        for flavor, total in held.items()
    ]


def cluster_queue(
    name: str = "cq",
    *,
    cohort: str = "",
    quotas: dict[str, Json] | None = None,
    reserved: dict[str, object] | None = None,
    used: dict[str, object] | None = None,
    **spec: Any,
) -> Json:
    quotas = {"spot": {"nominalQuota": 16}} if quotas is None else quotas
    status: Json = {"conditions": [condition("Active")]}
    if reserved is not None:
        status["flavorsReservation"] = totals(reserved)
    if used is not None:
        status["flavorsUsage"] = totals(used)
    return {
        "metadata": meta(name),
        "spec": {"cohortName": cohort, "resourceGroups": groups(quotas), **spec},
        "status": status,
    }


def pod_set(name: str = "main", *, count: int = 2, gpus: object = 8, **spec: Any) -> Json:
    container = {"name": "train", "resources": {"requests": {"nvidia.com/gpu": gpus}}}
    return {
        "name": name,
        "count": count,
        "template": {"spec": {"containers": [container], **spec}},
    }


def workload(
    name: str = "wl",
    *,
    namespace: str = "team",
    queue: str = "lq",
    priority: int = 0,
    created: str = "2026-11-01T00:00:00Z",
    pod_sets: list[Json] | None = None,
    admitted_to: str = "",
    flavor: str = "spot",
    held: object = 16,
    conditions: tuple[Json, ...] | None = None,
    **status: Any,
) -> Json:
    sets = [pod_set()] if pod_sets is None else pod_sets
    if admitted_to:
        status["admission"] = {
            "clusterQueue": admitted_to,
            "podSetAssignments": [
                {
                    "name": sets[0]["name"],
                    "count": sets[0]["count"],
                    "flavors": {"nvidia.com/gpu": flavor},
                    "resourceUsage": {"nvidia.com/gpu": held},
                }
            ],
        }
        conditions = (condition("QuotaReserved"),) if conditions is None else conditions
    return {
        "metadata": meta(name, namespace=namespace, creationTimestamp=created),
        "spec": {"queueName": queue, "priority": priority, "podSets": sets},
        "status": {"conditions": list(conditions or ()), **status},
    }


def node(
    name: str = "node",
    *,
    gpus: object = 8,
    labels: dict[str, str] | None = None,
    zone: str = "europe-west4-a",
    taints: list[Json] | None = None,
    is_ready: bool = True,
    **spec: Any,
) -> Json:
    found = {"topology.kubernetes.io/zone": zone} | ({} if labels is None else labels)
    return {
        "metadata": meta(name, labels=found),
        "spec": {"taints": taints or [], **spec},
        "status": {
            "allocatable": {"nvidia.com/gpu": gpus, "cpu": "200", "memory": "1800Gi"},
            "conditions": [condition("Ready", status="True" if is_ready else "False")],
        },
    }


def pod(
    name: str = "pod", *, node_name: str = "", gpus: object = 8, phase: str = "Running", **more: Any
) -> Json:
    container = {"name": "train", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    return {
        "metadata": meta(name, namespace="team"),
        "spec": {"nodeName": node_name, "containers": [container]},
        "status": {"phase": phase, **more},
    }


def flavor(name: str = "spot", *, labels: dict[str, str] | None = None, **spec: Any) -> Json:
    return {"metadata": meta(name), "spec": {"nodeLabels": labels or {}, **spec}}
