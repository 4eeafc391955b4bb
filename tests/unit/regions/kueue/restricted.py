"""The pod security standard ``restricted``, as its admission plugin checks it: what of a pod's
template is forbidden. Written from the plugin's own checks of 1.35; the plugin itself is asked on
real control planes.
"""

from collections.abc import Iterator
from typing import Any

_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
_BASELINE_SYSCTLS = ("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range")


def forbidden(template: dict[str, Any]) -> list[str]:
    """What the standard forbids of a pod with this template; empty: it is admitted."""
    return list(_forbidden(template["spec"]))


def _forbidden(spec: dict[str, Any]) -> Iterator[str]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield field
    for volume in spec.get("volumes", ()):
        for kind in volume.keys() - {"name"} - _VOLUMES:
            yield f"volume {kind}"
    pod = spec.get("securityContext", {})
    if pod.get("runAsUser") == 0:
        yield "pod runAsUser 0"
    for sysctl in pod.get("sysctls", ()):
        if sysctl["name"] not in _BASELINE_SYSCTLS:
            yield f"sysctl {sysctl['name']}"
    containers = [
        *spec["containers"],
        *spec.get("initContainers", ()),
        *spec.get("ephemeralContainers", ()),
    ]
    for container in containers:
        yield from _of_container(container, pod)


def _of_container(container: dict[str, Any], pod: dict[str, Any]) -> Iterator[str]:
    name, own = container["name"], container.get("securityContext", {})
    if own.get("privileged"):
        yield f"{name} privileged"
    if own.get("allowPrivilegeEscalation") is not False:
        yield f"{name} allowPrivilegeEscalation"
    capabilities = own.get("capabilities", {})
    if "ALL" not in capabilities.get("drop", ()):
        yield f"{name} does not drop ALL"
    for added in set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}:
        yield f"{name} adds {added}"
    if not own.get("runAsNonRoot", pod.get("runAsNonRoot")):
        yield f"{name} runAsNonRoot"
    if own.get("runAsUser") == 0:
        yield f"{name} runAsUser 0"
    profile = own.get("seccompProfile", pod.get("seccompProfile", {}))
    if profile.get("type") not in ("RuntimeDefault", "Localhost"):
        yield f"{name} seccompProfile"
    if own.get("procMount", "Default") != "Default":
        yield f"{name} procMount"
    for port in container.get("ports", ()):
        if port.get("hostPort"):
            yield f"{name} hostPort"
