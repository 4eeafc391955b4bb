"""The enclave of a gang: what its processes may connect to, and who may connect to them. Pure.

The rule: a gang speaks with itself, with the names' service, with the store, and with nothing else;
the way out into the internet only if the run asks for it, and never into private networks by it.
Read ``network_policy`` first.
"""

from typing import Any

from regions.cluster import Queue
from regions.kueue import names
from regions.kueue.profiles import Reach
from regions.kueue.site import Site

NODE_LOCAL_DNS, CLOUD_DNS = "169.254.20.10/32", "169.254.169.254/32"
"""The cache of names on each machine, and who answers for names where GKE's own service does."""
DNS_PORTS = (("UDP", 53), ("TCP", 53))
_DNS_PODS = ("kube-dns", "node-local-dns")

METADATA = (
    # The server itself, as the newer network layer of GKE passes it on, and where the older ones
    # send what is meant for it.
    Reach(cidr="169.254.169.254/32", ports=(80,)),
    Reach(cidr="169.254.169.252/32", ports=(987, 988)),
    Reach(cidr="127.0.0.1/32", ports=(987, 988)),
)
"""Where a GKE process learns who it is to Google's interfaces: the store's credentials."""

_PRIVATE_4 = (
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
)
_PRIVATE_6 = ("fc00::/7", "fe80::/10")


def network_policy(queue: Queue, site: Site) -> dict[str, Any]:
    """Return the NetworkPolicy of a placement's gang, still without its owner."""
    gang = {"podSelector": {"matchLabels": names.selector(queue.placement)}}
    reach = (*(METADATA if site.is_gke else ()), *site.store_reach, *site.profile.reach)
    egress = [{"to": [gang]}, _dns(is_gke=site.is_gke), *(_reach(one) for one in reach)]
    if queue.internet:
        egress.append(_internet())
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": names.jobset_name(queue.placement),
            "namespace": site.namespace,
            "labels": names.labels(queue.labels, placement=queue.placement, run_key=queue.run_key),
        },
        "spec": {
            "podSelector": {"matchLabels": names.selector(queue.placement)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [gang]}],
            "egress": egress,
        },
    }


def _dns(*, is_gke: bool) -> dict[str, Any]:
    system = {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}
    served = {"matchExpressions": [{"key": "k8s-app", "operator": "In", "values": list(_DNS_PODS)}]}
    return {
        "to": [
            {"namespaceSelector": system, "podSelector": served},
            {"ipBlock": {"cidr": NODE_LOCAL_DNS}},
            *([{"ipBlock": {"cidr": CLOUD_DNS}}] if is_gke else []),
        ],
        "ports": [{"protocol": protocol, "port": port} for protocol, port in DNS_PORTS],
    }


def _reach(reach: Reach) -> dict[str, Any]:
    found: dict[str, Any] = {"to": [{"ipBlock": {"cidr": reach.cidr}}]}
    if reach.ports:
        found["ports"] = [{"protocol": "TCP", "port": port} for port in reach.ports]
    return found


def _internet() -> dict[str, Any]:
    return {
        "to": [
            {"ipBlock": {"cidr": "0.0.0.0/0", "except": list(_PRIVATE_4)}},
            {"ipBlock": {"cidr": "::/0", "except": list(_PRIVATE_6)}},
        ],
        "ports": [{"protocol": "TCP", "port": 443}],
    }
