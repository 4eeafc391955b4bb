"""The template of a gang's pods: one container, the launcher in front of the run's command. Pure.

The rule: closed by default. No root, no way to more rights, no rights at all, the runtime's own
filter of system calls, no word for the service account, bounds on what is used; what ``restricted``
of the pod security standards asks for, and what opens it is a profile's, and said. Read
``pod_template`` first.
"""

from typing import Any

from regions.cluster import Queue
from regions.kueue import landing, names
from regions.kueue.environment import LAUNCHER_FILE, command, environment, times, verbatim
from regions.kueue.profile_rules import LAUNCHER_DIR, SHM_DIR, WORK_DIR
from regions.kueue.profiles import Profile, Sidecar, Volume
from regions.kueue.site import Site

TRAIN = "train"
"""The container that trains; its output is the rank's log."""
DEFAULT_SHM_BYTES = 8 << 30
SECRET_MODE = 0o440
"""For the process, by its group, and for nobody else."""
_GCSFUSE = {"gke-gcsfuse/volumes": "true"}
_KEPT_BY_AUTOSCALER = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
"""Otherwise the autoscaler takes a machine away to pack others better, and the training with it."""


def pod_template(queue: Queue, site: Site, *, launcher: str) -> dict[str, Any]:
    """Return the template of one rank's pod. ``launcher`` names the ConfigMap with the program."""
    profile = site.profile
    annotations = {**profile.annotations, **_KEPT_BY_AUTOSCALER}
    annotations |= landing.topology_annotations(queue, site)
    if any(volume.bucket for volume in profile.volumes):
        annotations |= _GCSFUSE
    return {
        "metadata": {
            "labels": names.pod_labels(queue.labels, placement=queue.placement),
            "annotations": annotations,
        },
        "spec": _spec(queue, site, launcher),
    }


def _spec(queue: Queue, site: Site, launcher: str) -> dict[str, Any]:
    profile = site.profile
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": times(queue, site).container_s,
        "automountServiceAccountToken": queue.service_account_token,
        # Addresses of the namespace's services are nobody's environment.
        "enableServiceLinks": False,
        "nodeSelector": landing.node_selector(queue, site),
        "tolerations": landing.tolerations(queue, site),
        "securityContext": _pod_security(profile),
        "containers": [_trainer(queue, site)],
        "volumes": _volumes(queue, profile, launcher),
    }
    if profile.sidecars:
        # An init container that is always restarted is up before the gang and ends after it, and
        # does not keep the pod alive.
        spec["initContainers"] = [_sidecar(profile, one) for one in profile.sidecars]
    if queue.service_account:
        spec["serviceAccountName"] = queue.service_account
    if profile.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in profile.image_pull_secrets]
    if profile.runtime_class:
        spec["runtimeClassName"] = profile.runtime_class
    if profile.is_on_host_network:
        spec |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    return spec


def _trainer(queue: Queue, site: Site) -> dict[str, Any]:
    profile = site.profile
    mounts = [
        {"name": "broker-launcher", "mountPath": LAUNCHER_DIR, "readOnly": True},
        {"name": "broker-work", "mountPath": WORK_DIR},
        {"name": "broker-shm", "mountPath": SHM_DIR},
    ]
    if profile.is_root_read_only:
        mounts.append({"name": "broker-tmp", "mountPath": "/tmp"})
    mounts += [_mount(volume) for volume in profile.volumes]
    mounts += [
        {"name": f"broker-secret-{at}", "mountPath": path, "readOnly": True}
        for at, (_, _, path) in enumerate(queue.secrets)
        if path
    ]
    return {
        "name": TRAIN,
        "image": queue.image,
        "imagePullPolicy": "IfNotPresent",
        "command": command(queue, site),
        "env": environment(queue, site),
        "resources": resources(queue, profile),
        "volumeMounts": mounts,
        "securityContext": _security(
            profile.capabilities, as_root=profile.runs_as_root, read_only=profile.is_root_read_only
        ),
        # The last lines of a process that failed stand in the pod's status, where they are seen
        # even after its machine is gone.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def resources(queue: Queue, profile: Profile) -> dict[str, Any]:
    """Return what one rank is given: what it asks for is what it may use."""
    gang = queue.gang
    found: dict[str, Any] = dict(profile.extra_resources)
    if gang.accelerators_per_node:
        found[profile.accelerator_resource] = gang.accelerators_per_node
    cpu, memory = gang.cpu_millis or profile.cpu_millis, memory_bytes(queue, profile)
    if cpu:
        found["cpu"] = f"{cpu}m"
    if memory:
        found["memory"] = memory
    quantities = {name: str(value) for name, value in sorted(found.items())}
    return {"requests": quantities, "limits": dict(quantities)}


def memory_bytes(queue: Queue, profile: Profile) -> int | None:
    """Return the memory of one rank in bytes, None when it has no bound."""
    return queue.gang.memory_bytes or profile.memory_bytes


def _volumes(queue: Queue, profile: Profile, launcher: str) -> list[dict[str, Any]]:
    memory = memory_bytes(queue, profile)
    # What lies in shared memory counts as the process's own; half leaves room for the process.
    shm = profile.shm_bytes or (memory // 2 if memory else DEFAULT_SHM_BYTES)
    program = {"name": launcher, "items": [{"key": LAUNCHER_FILE, "path": LAUNCHER_FILE}]}
    found: list[dict[str, Any]] = [
        {"name": "broker-launcher", "configMap": program},
        {"name": "broker-work", "emptyDir": {}},
        {"name": "broker-shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(shm)}},
    ]
    if profile.is_root_read_only:
        found.append({"name": "broker-tmp", "emptyDir": {}})
    found += [{"name": volume.name, **_source(volume)} for volume in profile.volumes]
    found += [
        {"name": f"broker-secret-{at}", "secret": {"secretName": name, "defaultMode": SECRET_MODE}}
        for at, (name, _, path) in enumerate(queue.secrets)
        if path
    ]
    return found


def _source(volume: Volume) -> dict[str, Any]:
    if volume.claim:
        claim = {"claimName": volume.claim, "readOnly": volume.is_read_only}
        return {"persistentVolumeClaim": claim}
    if volume.bucket:
        attributes = {"bucketName": volume.bucket}
        if volume.options:
            attributes["mountOptions"] = volume.options
        driver = {"driver": "gcsfuse.csi.storage.gke.io", "readOnly": volume.is_read_only}
        return {"csi": {**driver, "volumeAttributes": attributes}}
    if volume.secret:
        return {"secret": {"secretName": volume.secret, "defaultMode": SECRET_MODE}}
    if volume.host_path:
        return {"hostPath": {"path": volume.host_path, "type": "Directory"}}
    if volume.memory_bytes:
        return {"emptyDir": {"medium": "Memory", "sizeLimit": str(volume.memory_bytes)}}
    return {"emptyDir": {"sizeLimit": str(volume.scratch_bytes)}}


def _mount(volume: Volume) -> dict[str, Any]:
    mount: dict[str, Any] = {"name": volume.name, "mountPath": volume.mount_path}
    return {**mount, "readOnly": True} if volume.is_read_only or volume.secret else mount


def _sidecar(profile: Profile, sidecar: Sidecar) -> dict[str, Any]:
    quantities = {"cpu": f"{sidecar.cpu_millis}m", "memory": str(sidecar.memory_bytes)}
    found: dict[str, Any] = {
        "name": sidecar.name,
        "image": sidecar.image,
        "restartPolicy": "Always",
        "env": [{"name": n, "value": verbatim(v)} for n, v in sorted(sidecar.env.items())],
        "resources": {"requests": quantities, "limits": dict(quantities)},
        "volumeMounts": [_mount(v) for v in profile.volumes if v.name in sidecar.volumes],
        "securityContext": _sidecar_security(sidecar),
    }
    if sidecar.command:
        found["command"] = [verbatim(word) for word in sidecar.command]
    if sidecar.args:
        found["args"] = [verbatim(word) for word in sidecar.args]
    return found


def _pod_security(profile: Profile) -> dict[str, Any]:
    # Most training images name no user, and so root, whom the cluster then refuses to start: the
    # profile names one. The group lets it into the volumes of others without owning them.
    user, group = (0, 0) if profile.runs_as_root else (profile.user, profile.group)
    return {
        "runAsNonRoot": not profile.runs_as_root,
        "runAsUser": user,
        "runAsGroup": group,
        "fsGroup": profile.group,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "Unconfined" if profile.is_seccomp_off else "RuntimeDefault"},
    }


def _security(capabilities: tuple[str, ...], *, as_root: bool, read_only: bool) -> dict[str, Any]:
    # The root of the file system stays writable unless a profile says otherwise: compilers of
    # kernels, caches and package installers write where no two images agree, none but the image's
    # owner can write over what it brought, and what is written is gone with the process.
    dropped: dict[str, Any] = {"drop": ["ALL"]}
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": read_only,
        "runAsNonRoot": not as_root,
        "capabilities": {**dropped, "add": list(capabilities)} if capabilities else dropped,
    }


def _sidecar_security(sidecar: Sidecar) -> dict[str, Any]:
    if sidecar.is_privileged:
        user = {"runAsNonRoot": False, "runAsUser": 0} if sidecar.runs_as_root else {}
        return {"privileged": True, **user}
    found = _security(sidecar.capabilities, as_root=sidecar.runs_as_root, read_only=False)
    return {**found, "runAsUser": 0} if sidecar.runs_as_root else found
