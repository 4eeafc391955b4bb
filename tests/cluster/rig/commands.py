"""How each program of a region is called: arguments and configuration files. Starts nothing.

The rule: every port is given, every address is loopback's, and each limit that a test waits for is
short: a node that is silent is lost after 20 seconds and its pods are given up 5 seconds later,
where a real cluster takes 40 seconds and 5 minutes.
Read ``Places``, then one function per program.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.rig.building import KUEUE_CERTIFICATES, Assets
from tests.cluster.rig.certificates import Certificates
from tests.cluster.rig.machines.pools import LIVE_NODE
from tests.cluster.rig.manifests import SYSTEM

LEASE_S = 20
NODE_GRACE_S = 20
UNREACHABLE_TOLERATION_S = 5
WAIT_FOR_PODS_S = 30
# What jobs, their pods, nodes and namespaces need. Nothing routes here, so that nothing watches
# services; endpoints could not hold a pod's loopback address either.
CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
    "validatingadmissionpolicy-status-controller",
)
QUICK = ("--kube-api-qps=500", "--kube-api-burst=1000")
PORTS = (
    "api",
    "controllers",
    "scheduler",
    "kueue-hook",
    "kueue-metrics",
    "kueue-health",
    "visibility",
    "jobset-hook",
    "jobset-metrics",
    "jobset-health",
    "kwok",
    "machines",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """One region's name, folder, ports by name, and number of its loopback network."""

    name: str
    folder: Path
    ports: Mapping[str, int]
    network: int
    admin: Path  # the admin's kubeconfig
    certificates: Certificates


def etcd(assets: Assets, folder: Path, client_port: int, peer_port: int) -> list[str]:
    """Return the call of the one etcd that serves all regions of a rig."""
    return [
        str(assets.etcd),
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls=http://127.0.0.1:{client_port}",
        f"--advertise-client-urls=http://127.0.0.1:{client_port}",
        f"--listen-peer-urls=http://127.0.0.1:{peer_port}",
        "--unsafe-no-fsync",  # nobody reads a rig's data after a power cut
        "--log-level=warn",
    ]


def api_server(assets: Assets, places: Places, etcd_port: int) -> list[str]:
    """Return the call of a region's API server."""
    made = places.certificates
    return [
        *assets.apiserver,
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        f"--etcd-prefix=/{places.name}",
        f"--secure-port={places.ports['api']}",
        "--bind-address=127.0.0.1",
        f"--tls-cert-file={made.server_cert}",
        f"--tls-private-key-file={made.server_key}",
        f"--client-ca-file={made.ca}",
        f"--token-auth-file={made.tokens_file}",
        f"--service-account-key-file={made.account_key}",
        f"--service-account-signing-key-file={made.account_key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--authorization-mode=RBAC",
        "--max-requests-inflight=2000",
        "--max-mutating-requests-inflight=1000",
        "--endpoint-reconciler-type=none",
        "--allow-privileged=true",
        "--enable-admission-plugins=ExtendedResourceToleration",  # as GKE tolerates its GPUs' taint
        f"--default-not-ready-toleration-seconds={UNREACHABLE_TOLERATION_S}",
        f"--default-unreachable-toleration-seconds={UNREACHABLE_TOLERATION_S}",
        f"--proxy-client-cert-file={made.front_cert}",
        f"--proxy-client-key-file={made.front_key}",
        f"--requestheader-client-ca-file={made.front_ca}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-username-headers=X-Remote-User",
    ]


def controllers(assets: Assets, places: Places) -> list[str]:
    """Return the call of a region's controller manager."""
    made = places.certificates
    return [
        *assets.controllers,
        f"--kubeconfig={places.admin}",
        f"--secure-port={places.ports['controllers']}",
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
        "--use-service-account-credentials=false",
        f"--service-account-private-key-file={made.account_key}",
        f"--root-ca-file={made.ca}",
        "--controllers=" + ",".join(CONTROLLERS),
        f"--node-monitor-grace-period={NODE_GRACE_S}s",
        "--node-monitor-period=1s",
        *QUICK,
    ]


def scheduler(assets: Assets, places: Places) -> list[str]:
    """Return the call of a region's scheduler."""
    return [
        *assets.scheduler,
        f"--kubeconfig={places.admin}",
        f"--secure-port={places.ports['scheduler']}",
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
        *QUICK,
    ]


def kwok(assets: Assets, places: Places) -> list[str]:
    """Return the call of kwok: it keeps the nodes with the label LIVE_NODE alive, and no more.

    With no stage for pods at all it would use its own and complete the pods of Jobs at once, so it
    is given one that no pod matches: the pods are the machines' (see ``machines``).
    """
    never = places.folder / "no-pods.yaml"
    write_yaml(
        never,
        {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": "Stage",
            "metadata": {"name": "no-pods"},
            "spec": {
                "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
                "selector": {"matchLabels": {"rig.capacity-broker/never": "never"}},
                "next": {},
            },
        },
    )
    return [
        str(assets.kwok),
        f"--kubeconfig={places.admin}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-label-selector={LIVE_NODE}=true",
        f"--server-address=127.0.0.1:{places.ports['kwok']}",
        *(f"--config={stage}" for stage in [*assets.files("stages"), never]),
        f"--node-lease-duration-seconds={LEASE_S}",
        "--node-ip=127.0.0.1",
        f"--node-port={places.ports['machines']}",
    ]


def machines(places: Places, etcd_folder: Path) -> list[str]:
    """Return the call of a region's machines: its nodes' agent and its cloud."""
    return [
        sys.executable,
        "-m",
        "tests.cluster.rig.machines",
        f"--region={places.name}",
        f"--kubeconfig={places.admin}",
        f"--folder={etcd_folder}",
        f"--port={places.ports['machines']}",
        f"--network={places.network}",
        f"--cert={places.certificates.server_cert}",
        f"--key={places.certificates.server_key}",
    ]


def jobset(assets: Assets, places: Places) -> list[str]:
    """Return the call of JobSet's controller."""
    config = places.folder / "jobset.yaml"
    write_yaml(
        config,
        {
            "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "webhook": webhook(places, "jobset-hook"),
            "metrics": {"bindAddress": address(places, "jobset-metrics")},
            "health": {"healthProbeBindAddress": address(places, "jobset-health")},
        },
    )
    return [str(assets.jobset), f"--kubeconfig={places.admin}", f"--config={config}"]


def kueue(assets: Assets, places: Places, changes: Mapping[str, Any]) -> list[str]:
    """Return the call of Kueue. ``changes`` are put over its configuration's first level."""
    config = places.folder / "kueue.yaml"
    write_yaml(
        config,
        {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "namespace": SYSTEM,
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "webhook": webhook(places, "kueue-hook"),
            "metrics": {
                "bindAddress": address(places, "kueue-metrics"),
                "enableClusterQueueResources": True,
            },
            "health": {"healthProbeBindAddress": address(places, "kueue-health")},
            "visibilityServer": {
                "bindAddress": "127.0.0.1",
                "bindPort": places.ports["visibility"],
            },
            "clientConnection": {"qps": 500, "burst": 1000},
            "waitForPodsReady": {
                "timeout": f"{WAIT_FOR_PODS_S}s",
                "recoveryTimeout": f"{WAIT_FOR_PODS_S}s",
                "blockAdmission": False,
                "requeuingStrategy": {
                    "backoffLimitCount": 2,
                    "backoffBaseSeconds": 1,
                    "timestamp": "Eviction",
                },
            },
            "integrations": {"frameworks": ["batch/job", "jobset.x-k8s.io/jobset"]},
            **changes,
        },
    )
    return [
        str(assets.kueue),
        f"--kubeconfig={places.admin}",
        f"--config={config}",
        "--zap-log-level=2",
    ]


def certificates_of(places: Places) -> Path:
    """Return the folder in which Kueue and JobSet look for their webhooks' certificate."""
    return places.folder / KUEUE_CERTIFICATES


def webhook(places: Places, port: str) -> dict[str, Any]:
    return {
        "port": places.ports[port],
        "host": "127.0.0.1",
        "certDir": str(certificates_of(places)),
    }


def address(places: Places, port: str) -> str:
    return f"127.0.0.1:{places.ports[port]}"


def write_yaml(path: Path, value: dict[str, Any]) -> None:
    path.write_text(yaml.safe_dump(value))
