"""Why a gang cannot be asked of a cluster at all. Pure.

The rule: refused here is what the cluster would refuse later or, worse, take and never run; each
sentence names what is to be changed. Read ``problems`` first.
"""

import re
from collections.abc import Iterable

from regions.cluster import Queue
from regions.kueue import names
from regions.kueue.landing import topology_problem
from regions.kueue.profile_rules import is_protocol, mount_problem
from regions.kueue.site import Site
from regions.launcher import layout

MAX_SPEC_BYTES = 256 << 10
"""Command and environment of one process, in bytes: the object they are in may have 1.5 MB, and is
kept twice more by the cluster's own controllers."""
MAX_ENV = 1000
MAX_SECRETS = 64
MAX_ACCELERATORS = 64
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_IMAGE = re.compile(r"[a-z0-9]+[A-Za-z0-9._:/-]{0,400}")


def problems(queue: Queue, site: Site) -> tuple[str, ...]:
    """Say all that keeps the gang out of this cluster, a sentence each; empty: nothing does."""
    gang = queue.gang
    checks = (
        (layout.is_name(queue.placement), "the placement's name cannot be part of a path"),
        (layout.is_name(queue.run_key), "the run's key cannot be part of a path"),
        (names.is_object_name(queue.queue), f"{queue.queue[:80]!r} is no name of a queue"),
        (
            names.is_label_value(queue.queue),
            f"the queue's name {queue.queue[:80]!r} is too long for a label",
        ),
        (1 <= gang.ranks <= layout.MAX_RANKS, f"a gang has 1 to {layout.MAX_RANKS} ranks"),
        (
            0 <= gang.accelerators_per_node <= MAX_ACCELERATORS,
            f"a machine has up to {MAX_ACCELERATORS} accelerators",
        ),
        (gang.cpu_millis >= 0 and gang.memory_bytes >= 0, "a size is negative"),
        (bool(queue.command), "there is no command"),
        (
            queue.gate_timeout_s > 0 and queue.stop_grace_s >= 0 and (queue.max_run_s or 1) >= 1,
            "a duration is negative",
        ),
        (
            not queue.service_account or names.is_object_name(queue.service_account),
            f"{queue.service_account[:80]!r} is no name of a service account",
        ),
        (
            len(names.told_annotation(queue.labels)) <= names.MAX_TOLD,
            f"the order's labels exceed {names.MAX_TOLD} characters",
        ),
    )
    found = [why for is_fine, why in checks if not is_fine]
    found += [why for why in (image_problem(queue.image), topology_problem(queue, site)) if why]
    return (*found, *_about_texts(queue), *_about_secrets(queue, site))


def image_problem(image: str) -> str:
    """Say why the image cannot be run by its name, or nothing: only a digest names one for ever."""
    if not image:
        return "the run names no image, and this cluster runs nothing else"
    name, at, digest = image.partition("@")
    if not at:
        return f"image {image[:200]!r} is not pinned to a digest"
    if not _IMAGE.fullmatch(name) or not _DIGEST.fullmatch(digest):
        return f"{image[:200]!r} is no image of the form NAME@sha256:DIGEST"
    return ""


def _about_texts(queue: Queue) -> Iterable[str]:
    words = (*queue.command, *queue.env.values(), queue.run_name)
    if any("\0" in word for word in words):
        yield "a text holds a NUL"
    if any(not _can_be_sent(word) for word in (*words, *queue.env, *queue.labels.values())):
        yield "a text holds half a character"
        return
    size = sum(len(word.encode()) for word in (*words, *queue.env))
    if size > MAX_SPEC_BYTES:
        yield f"command and environment exceed {MAX_SPEC_BYTES} bytes"
    if len(queue.env) > MAX_ENV:
        yield f"the environment has over {MAX_ENV} variables"
    for name in queue.env:
        if not _ENV_NAME.fullmatch(name):
            yield f"{name[:80]!r} is no name of a variable"


def _about_secrets(queue: Queue, site: Site) -> Iterable[str]:
    if len(queue.secrets) > MAX_SECRETS:
        yield f"over {MAX_SECRETS} secrets are asked for"
    taken = [volume.mount_path for volume in site.profile.volumes]
    seen: set[str] = set()
    for name, env, path in queue.secrets:
        if not names.is_object_name(name):
            yield f"{name[:80]!r} is no name of a secret"
        if env and not _ENV_NAME.fullmatch(env):
            yield f"secret {name}: {env[:80]!r} is no name of a variable"
        if is_protocol(env) or env in site.profile.env:
            yield f"secret {name}: the variable {env} is the cluster's own"
        if not env and not path:
            yield f"secret {name}: neither a variable nor a path shows it"
        why = mount_problem(path) if path else ""
        if why:
            yield f"secret {name}: {why}"
        elif path in taken:
            yield f"secret {name}: {path} is taken"
        if env in seen or path in seen:
            yield f"secret {name}: it is shown where another one is"
        seen |= {shown for shown in (env, path) if shown}


def _can_be_sent(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
