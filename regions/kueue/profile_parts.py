"""What a profile lays over a gang, in words. Pure.

The rule: of variables, annotations and secrets the names are told and no value, for whoever may see
a region reads it. Read ``parts`` first.
"""

from collections.abc import Iterable

import msgspec

from regions.kueue.profiles import Profile, Sidecar, Volume, is_within

INTERFACES = ("networking.gke.io/interfaces", "k8s.v1.cni.cncf.io/networks")
"""The annotations by which a pod is given more interfaces: GKE's, and Multus'."""
_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def parts(profile: Profile) -> Iterable[tuple[str, str]]:
    """Yield of each thing that a profile lays over a gang what it is, and which."""
    for volume in profile.volumes:
        yield "mount", _mount(volume, profile)
    if profile.shm_bytes is not None:
        yield "mount", f"/dev/shm: {_size(profile.shm_bytes)} of memory"
    if profile.env:
        yield "environment", _names(profile.env)
    for sidecar in profile.sidecars:
        yield "sidecar", _sidecar(sidecar)
    for key in INTERFACES:
        if key in profile.annotations:
            yield "interface", _interfaces(profile.annotations[key]) or f"as {key} says"
    others = [key for key in profile.annotations if key not in INTERFACES]
    if others:
        yield "annotation", _names(others)
    for resource, count in sorted(profile.extra_resources.items()):
        yield "resource", f"{count} {resource}"
    yield from _sizes(profile)
    yield from _machines(profile)
    if profile.image_pull_secrets:
        yield "pull", f"images with the secrets {_names(profile.image_pull_secrets)}"


def _mount(volume: Volume, profile: Profile) -> str:
    what = _source(volume)
    notes = ["only read"] if volume.is_read_only or volume.secret else []
    if profile.store and is_within(profile.store, volume.mount_path):
        notes.append("the region's store is in it")
    return ", ".join([f"{volume.mount_path}: {what}", *notes])


def _source(volume: Volume) -> str:
    if volume.claim:
        return f"claim {volume.claim}"
    if volume.bucket:
        return f"bucket {volume.bucket}, by gcsfuse"
    if volume.secret:
        return f"secret {volume.secret}"
    if volume.host_path:
        return f"{volume.host_path} of the machine"
    if volume.memory_bytes is not None:
        return f"{_size(volume.memory_bytes)} of memory"
    return f"{_size(volume.scratch_bytes or 0)} of the machine's disk"


def _sidecar(sidecar: Sidecar) -> str:
    told = f"{sidecar.name}: {sidecar.image}"
    return f"{told}, with {_names(sidecar.env)}" if sidecar.env else told


def _interfaces(value: str) -> str:
    """Return the interfaces that an annotation gives, empty where it cannot be read."""
    try:
        found = msgspec.json.decode(value, type=list[_Interface])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    return ", ".join(
        f"{one.interface or one.asked or 'one more'} in {one.network or one.name or 'its network'}"
        for one in found
    )


class _Interface(msgspec.Struct, frozen=True):
    """One more interface, in GKE's words or in Multus'."""

    interface: str = msgspec.field(name="interfaceName", default="")
    network: str = ""
    name: str = ""
    asked: str = msgspec.field(name="interface", default="")


def _sizes(profile: Profile) -> Iterable[tuple[str, str]]:
    sizes = []
    if profile.cpu_millis is not None:
        sizes.append(f"{profile.cpu_millis / 1000:g} CPUs")
    if profile.memory_bytes is not None:
        sizes.append(f"{_size(profile.memory_bytes)} of memory")
    if sizes:
        yield "size", f"{' and '.join(sizes)} for each process of a run that asks for none"


def _machines(profile: Profile) -> Iterable[tuple[str, str]]:
    for key, value in sorted(profile.node_selector.items()):
        yield "machine", f"with label {key}={value}"
    for one in profile.tolerations:
        tail = f"={one.value}" if one.value else ""
        yield "machine", f"with taint {one.key}{tail}, too"
    if profile.topology_level:
        yield "machine", f"close together by {profile.topology_level}, where a run wishes it"
    if profile.preemption_window_s is not None:
        yield "machine", f"taken back with {profile.preemption_window_s:g} s of notice"
    if profile.runtime_class:
        yield "machine", f"with runtime class {profile.runtime_class}"


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _size(size_bytes: int) -> str:
    for unit, name in _UNITS:
        if size_bytes >= unit:
            return f"{size_bytes / unit:.4g} {name}"
    return f"{size_bytes} bytes"
