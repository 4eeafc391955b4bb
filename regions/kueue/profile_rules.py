"""How pod profiles are read from a region's configuration, and what is refused. Pure.

The rule: a field that is not known is refused by name, and so is a value that could not work, or
that would take the place of what the start of a gang rests on. Read ``read_profiles`` first.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from regions.kueue import names
from regions.kueue.profiles import (
    Profile,
    Profiles,
    Sidecar,
    Volume,
    find_volume,
    is_within,
    volume_of,
)

LAUNCHER_DIR, WORK_DIR, SHM_DIR = "/broker/launcher", "/broker/work", "/dev/shm"
RESERVED_DIRS = ("/broker", SHM_DIR, "/proc", "/sys")
"""What no volume and no secret is mounted over: the launcher's own, and the machine's."""
PROTOCOL = frozenset(
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "JOB_COMPLETION_INDEX"}
)
"""Names of the environment that the start of a gang rests on, beside all that begin so:"""
PROTOCOL_PREFIX = "BROKER_"
_FOREIGN = ("kubernetes.io/", "k8s.io/", "x-k8s.io/", "capacity-broker.dev/")
"""What Kubernetes, Kueue, JobSet and we ourselves write on objects."""
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_CONTAINERS = ("train", "launcher")


class ProfileError(Exception):
    """A profile cannot be used; the message names the field."""


class _Book(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    default: dict[str, object]
    flavors: dict[str, dict[str, object]] = {}


def read_profiles(raw: object, *, allows_host_paths: bool) -> Profiles:
    """Read a cluster's profiles: a table ``default``, and one per flavor in ``flavors``.

    A flavor's table replaces the default's fields, each as a whole. ``allows_host_paths``: the
    region's configuration lets gangs see directories of their machines. Raises ProfileError.
    """
    try:
        book = msgspec.convert(raw, _Book)
    except msgspec.ValidationError as error:
        raise ProfileError(f"profiles: {error}") from error
    return Profiles(
        default=_read("default", book.default, allows_host_paths),
        flavors={
            flavor: _read(f"flavors.{flavor}", {**book.default, **own}, allows_host_paths)
            for flavor, own in book.flavors.items()
        },
    )


def _read(at: str, raw: dict[str, object], allows_host_paths: bool) -> Profile:
    try:
        profile = msgspec.convert(raw, Profile)
    except msgspec.ValidationError as error:
        raise ProfileError(f"profiles.{at}: {error}") from error
    for why in problems(profile, allows_host_paths):
        raise ProfileError(f"profiles.{at}: {why}")
    return profile


def problems(profile: Profile, allows_host_paths: bool) -> Iterable[str]:
    """Say what of a profile cannot work or may not be, field by field."""
    yield from _about_volumes(profile, allows_host_paths)
    for field, pairs in (
        ("env", profile.env),
        *((f"sidecars.{s.name}.env", s.env) for s in profile.sidecars),
    ):
        for name in pairs:
            if is_protocol(name):
                yield f"{field}.{name} is the start protocol's own"
    for field, pairs in (
        ("annotations", profile.annotations),
        ("node_selector", profile.node_selector),
    ):
        for name in pairs:
            if field == "annotations" and _is_foreign(name):
                yield f"annotations.{name} is for the cluster or the broker to write"
            if not _is_qualified(name):
                yield f"{field}.{name} is no name of a label"
    for reach in profile.reach:
        if not is_network(reach.cidr):
            yield f"reach: {reach.cidr!r} is no network such as 10.0.0.0/24"
    for secret in profile.image_pull_secrets:
        if not names.is_object_name(secret):
            yield f"image_pull_secrets: {secret!r} is no name of a secret"
    if profile.topology_level and not _is_qualified(profile.topology_level):
        yield f"topology_level: {profile.topology_level!r} is no name of a label"
    if profile.accelerator_resource in profile.extra_resources:
        yield f"extra_resources.{profile.accelerator_resource} is what a run asks for"
    yield from _about_sidecars(profile)


def _about_volumes(profile: Profile, allows_host_paths: bool) -> Iterable[str]:
    for field, path in (("store", profile.store), ("store_tokens", profile.store_tokens)):
        if path and volume_of(profile, path) is None:
            yield f"{field}: {path} is in none of the volumes"
    for volume in profile.volumes:
        at = f"volumes.{volume.name}"
        kinds = [kind for kind in _KINDS if getattr(volume, kind)]
        if len(kinds) != 1:
            yield f"{at}: set just one of {', '.join(_KINDS)}"
        if volume.host_path and not allows_host_paths:
            yield f"{at}.host_path: the cluster's allows_host_paths is not set"
        if volume.host_path and not _is_plain_path(volume.host_path):
            yield f"{at}.host_path: {volume.host_path!r} is no absolute path without .. in it"
        if volume.bucket and not _BUCKET.fullmatch(volume.bucket):
            yield f"{at}.bucket: {volume.bucket!r} is no name of a bucket"
        if volume.claim and not names.is_object_name(volume.claim):
            yield f"{at}.claim: {volume.claim!r} is no name of a claim"
        if volume.secret and not names.is_object_name(volume.secret):
            yield f"{at}.secret: {volume.secret!r} is no name of a secret"
        if volume.options and not volume.bucket:
            yield f"{at}.options: only a bucket has options"
        why = mount_problem(volume.mount_path)
        if why:
            yield f"{at}.mount_path: {why}"
        if (volume.is_read_only or volume.secret) and volume is find_volume(profile):
            yield f"{at}.is_read_only: gangs write their starts and checkpoints into the store"
    for path, count in Counter(volume.mount_path for volume in profile.volumes).items():
        if count > 1:
            yield f"volumes: {path} is mounted {count} times"
    yield from _twice("volumes", profile.volumes)


_KINDS = ("claim", "bucket", "secret", "host_path", "scratch_bytes", "memory_bytes")


def store_problem(profile: Profile, *, is_bucket: bool) -> str:
    """Say why a gang would not find its region's store by the profile, or nothing."""
    if is_bucket and profile.store:
        return "store: a bucket is reached as it is, without a directory; leave the field out"
    if not is_bucket and not profile.store:
        return "store is missing: where a process finds the region's store"
    if not is_bucket and profile.store_tokens:
        return "store_tokens: a directory is opened by no token"
    return ""


def _about_sidecars(profile: Profile) -> Iterable[str]:
    known = {volume.name for volume in profile.volumes}
    for sidecar in profile.sidecars:
        if sidecar.name in _CONTAINERS:
            yield f"sidecars.{sidecar.name}: the name is taken"
        for name in sidecar.volumes:
            if name not in known:
                yield f"sidecars.{sidecar.name}.volumes: there is no volume {name!r}"
    yield from _twice("sidecars", profile.sidecars)


def _twice(field: str, things: Iterable[Volume | Sidecar]) -> Iterable[str]:
    for name, count in Counter(thing.name for thing in things).items():
        if count > 1:
            yield f"{field}.{name} is there {count} times"


def is_protocol(name: str) -> bool:
    """Whether a variable is one that the start of a gang rests on."""
    return name in PROTOCOL or name.startswith(PROTOCOL_PREFIX)


def mount_problem(path: str) -> str:
    """Say why nothing can be mounted at a path in a gang's processes, or nothing."""
    if not _is_plain_path(path) or path == "/":
        return f"{path[:80]!r} is no absolute path of a folder without .. in it"
    for folder in RESERVED_DIRS:
        # What is mounted above the launcher's own hides it, and what is within mixes with it.
        if is_within(folder, path) or is_within(path, folder):
            return f"{path} would lie over {folder}"
    return ""


def _is_plain_path(path: str) -> bool:
    parts = path.split("/")
    if parts[0] or len(parts) < 2 or len(path) > 512 or ":" in path or not path.isprintable():
        return False
    return path == "/" or not any(part in ("", ".", "..") for part in parts[1:])


def _is_foreign(name: str) -> bool:
    domain = name.partition("/")[0] + "/"
    return "/" in name and any(domain == f or domain.endswith(f".{f}") for f in _FOREIGN)


def _is_qualified(name: str) -> bool:
    domain, slash, own = name.rpartition("/")
    is_own_fine = bool(own) and bool(names.is_label_value(own))
    return is_own_fine and (not slash or names.is_object_name(domain))


def is_network(cidr: str) -> bool:
    """Whether a text is a network, as an IP and how many of its bits count."""
    try:
        ipaddress.ip_network(cidr)
    except ValueError:
        return False
    return True
