"""What a region's API server is taught before it is of use: resource kinds, webhooks, visibility.

The rule: the modules' own files, with the service of each webhook made a URL of this machine, for
the controllers run beside the cluster and not in it. Read ``kinds`` and ``webhooks``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import yaml

from tests.cluster.rig.building import Assets

Object = dict[str, Any]
# Webhooks over groups that are not installed would only be looked at for each request.
GROUPS = {"kueue.x-k8s.io", "batch", "jobset.x-k8s.io"}
# A patch of its conversion is in the module, and its kustomization leaves it out.
NOT_CONVERTED = {"resourceflavors.kueue.x-k8s.io"}
SYSTEM = "kueue-system"


def kinds(assets: Assets, hook_port: int, ca_base64: str) -> list[Object]:
    """Return the CustomResourceDefinitions of Kueue, JobSet and ProvisioningRequest."""
    converted = {
        yaml.safe_load(file.read_text())["metadata"]["name"] for file in assets.files("converted")
    } - NOT_CONVERTED
    found = [yaml.safe_load(file.read_text()) for file in assets.files("crds")]
    for kind in found:
        if kind["metadata"]["name"] in converted:
            kind["spec"]["conversion"] = {
                "strategy": "Webhook",
                "webhook": {
                    "conversionReviewVersions": ["v1"],
                    "clientConfig": by_url(hook_port, "/convert", ca_base64),
                },
            }
    return found


def webhooks(assets: Assets, kueue_port: int, jobset_port: int, ca_base64: str) -> list[Object]:
    """Return the webhook configurations of Kueue and JobSet."""
    return [
        *of_module(assets, "kueue", kueue_port, ca_base64, is_of_installed_groups),
        *of_module(assets, "jobset", jobset_port, ca_base64, only_for_jobsets),
    ]


def of_module(
    assets: Assets, name: str, port: int, ca_base64: str, keep: Callable[[Object], bool]
) -> list[Object]:
    found: list[Object] = []
    for file in assets.files(f"webhooks/{name}"):
        for manifest in yaml.safe_load_all(file.read_text()):
            manifest["metadata"]["name"] = f"{name}-{manifest['metadata']['name']}"
            manifest["webhooks"] = [hook for hook in manifest["webhooks"] if keep(hook)]
            for hook in manifest["webhooks"]:
                path = hook["clientConfig"]["service"]["path"]
                hook["clientConfig"] = by_url(port, path, ca_base64)
            found.append(manifest)
    return found


def is_of_installed_groups(hook: Object) -> bool:
    return set(hook["rules"][0]["apiGroups"]) <= GROUPS


def only_for_jobsets(hook: Object) -> bool:
    """Keep JobSet's webhooks; that over pods sees only theirs, as its module patches it."""
    if "pods" in hook["rules"][0]["resources"]:
        label = {"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}
        hook["objectSelector"] = {"matchExpressions": [label]}
    return True


def by_url(port: int, path: str, ca_base64: str) -> Object:
    return {"url": f"https://127.0.0.1:{port}{path}", "caBundle": ca_base64}


def visibility(port: int) -> list[Object]:
    """Return what lets the aggregator reach Kueue's visibility API without a service network."""
    name = "kueue-visibility-server"
    service = {"name": name, "namespace": SYSTEM, "port": port}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": SYSTEM},
            "spec": {
                "type": "ExternalName",
                "externalName": "localhost",
                "ports": [{"port": port}],
            },
        },
        *(
            {
                "apiVersion": "apiregistration.k8s.io/v1",
                "kind": "APIService",
                "metadata": {"name": f"{version}.visibility.kueue.x-k8s.io"},
                "spec": {
                    "group": "visibility.kueue.x-k8s.io",
                    "version": version,
                    "groupPriorityMinimum": 100,
                    "versionPriority": 100,
                    "insecureSkipTLSVerify": True,
                    "service": service,
                },
            }
            for version in ("v1beta1", "v1beta2")
        ),
    ]


def namespace(name: str, **labels: str) -> Object:
    """Return a namespace with labels."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
