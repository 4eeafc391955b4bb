"""Why a gang that was let in does not stand yet: machines, images, secrets, volumes. Pure.

The rule: what a machine says of a process comes before what the scheduler says of the rest, and
both before what is only to be expected; that some machines came and the others cannot be had is its
own word, because the ones that are here cost money. Read ``of_start`` first.
"""

from collections.abc import Iterable, Mapping, Sequence

from regions.kueue.hearing import Heard, hear, sayings, unknown
from regions.kueue.objects.event import Event
from regions.kueue.objects.node import Node
from regions.kueue.objects.pod import ContainerState, Pod
from regions.kueue.schedule_hearing import of_scheduler
from regions.kueue.vocabulary import Word

EVENT_AGE_S = 900.0
"""An event older than this tells of another time; the autoscaler repeats what still holds."""

_PULLS = sayings(
    (r"toomanyrequests|429 Too Many|pull rate limit", Word.IMAGE_RATE_LIMITED),
    (r"no match for platform|no matching manifest for", Word.IMAGE_WRONG_ARCHITECTURE),
    (
        (
            r"40[13] (?:Forbidden|Unauthorized)|unauthorized|forbidden|denied|insufficient_scope"
            r"|may require authorization|no basic auth credentials"
        ),
        Word.IMAGE_NO_RIGHT,
    ),
    (r"no space left on device", Word.IMAGE_DISK_FULL),
    (
        (
            r"no such host|i/o timeout|connection refused|TLS handshake|connection reset|EOF"
            r"|context deadline exceeded|network is unreachable|50[0234] "
        ),
        Word.REGISTRY_UNREACHABLE,
    ),
    (r"code = NotFound|manifest unknown|name unknown|not found", Word.IMAGE_NOT_FOUND),
)
_PULL_REASONS = {
    "ErrImagePull": Word.IMAGE_PULL_FAILING,
    "ImagePullBackOff": Word.IMAGE_PULL_FAILING,
    "ImageInspectError": Word.IMAGE_PULL_FAILING,
    "ErrImageNeverPull": Word.IMAGE_PULL_FAILING,
    "RegistryUnavailable": Word.REGISTRY_UNREACHABLE,
    "SignatureValidationFailed": Word.IMAGE_PULL_FAILING,
    "InvalidImageName": Word.IMAGE_NAME_INVALID,
}
_CREATES = sayings(
    (r"couldn't find key (?P<what>\S{1,253}) in Secret", Word.SECRET_KEY_MISSING),
    (r"secret \"(?P<what>[^\"]{1,253})\" not found", Word.SECRET_MISSING),
    (r"configmap \"(?P<what>[^\"]{1,253})\" not found", Word.CONFIG_MISSING),
    (r"runAsNonRoot", Word.ROOT_REFUSED),
)
_CREATE_REASONS = (
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "PreCreateHookError",
    "PreStartHookError",
    "PostStartHookError",
)
_SANDBOXES = ("CreatePodSandboxError", "ConfigPodSandboxError")
_WAITS = {
    "ContainerCreating": Word.PODS_STARTING,
    "PodInitializing": Word.PODS_STARTING,
    "": Word.PODS_STARTING,
}
_MOUNTS = sayings(
    (r"non-existent secret key: (?P<what>\S{1,253})", Word.SECRET_KEY_MISSING),
    (r"secret \"(?P<what>[^\"]{1,253})\" not found", Word.SECRET_MISSING),
    (r"configmap \"(?P<what>[^\"]{1,253})\" not found", Word.CONFIG_MISSING),
    (
        (
            r"volume \"(?P<what>[^\"]{1,253})\"[^\n]{0,300}?"
            r"(?:PermissionDenied|Unauthenticated|Error 403|access denied)"
        ),
        Word.VOLUME_NO_RIGHT,
    ),
    (
        (
            r"volume \"(?P<what>[^\"]{1,253})\"[^\n]{0,300}?"
            r"(?:code = NotFound|type check failed|not found in the list of registered CSI drivers)"
        ),
        Word.VOLUME_MISSING,
    ),
    (r"volume \"(?P<what>[^\"]{1,253})\"", Word.VOLUME_NOT_MOUNTED),
    (r"unmounted volumes=\[(?P<what>[^\]]{1,253})\]", Word.VOLUME_NOT_MOUNTED),
)
_CREATIONS = sayings(
    (r"violates PodSecurity (?P<what>\"[^\"]{1,100}\")", Word.PODS_REFUSED_BY_SECURITY),
    (r"exceeded quota: (?P<what>[^,\s]{1,253})", Word.PODS_REFUSED_BY_QUOTA),
    (
        r"service ?account \"?(?P<what>[^\"\s]{1,300})\"?[^\n]{0,80}not found",
        Word.SERVICE_ACCOUNT_MISSING,
    ),
    (r"admission webhook \"(?P<what>[^\"]{1,253})\" denied", Word.PODS_REFUSED),
)
_SCALE_UPS = sayings(
    (r"out of resources|STOCKOUT|RESOURCE_POOL_EXHAUSTED|resource_availability", Word.STOCKOUT),
    (r"quota.{0,40}exceeded|exceeded.{0,40}quota", Word.CLOUD_QUOTA_EXCEEDED),
    (r"IP space exhausted|IP_SPACE_EXHAUSTED", Word.NO_ADDRESSES_LEFT),
    # Where a request for machines ends without them, and nobody says why, there were none.
    (r"", Word.STOCKOUT),
)
_NO_SCALE_UPS = sayings(
    (r"max(?:imum)? node (?:group|pool) size reached", Word.POOL_AT_ITS_MAXIMUM),
    (r"max cluster (?:cpu|memory|nvidia\S*)[^,]{0,40} limit reached", Word.POOL_AT_ITS_MAXIMUM),
    (r"in backoff after failed scale-up", Word.STOCKOUT),
    (r"", Word.NO_POOL_FITS),
)
_OUT_OF_STOCK = frozenset(
    {
        Word.STOCKOUT,
        Word.CLOUD_QUOTA_EXCEEDED,
        Word.POOL_AT_ITS_MAXIMUM,
        Word.NO_ADDRESSES_LEFT,
    }
)


def of_start(
    pods: Sequence[Pod],
    events: Sequence[Event],
    nodes: Mapping[str, Node] | None,
    *,
    wanted: int,
    now_s: float,
) -> Heard:
    """Say what a gang that was let in waits for. ``wanted`` is how many members it has.

    ``nodes`` are all that are seen, by name; None: they cannot be seen.
    """
    recent = _recent(events, now_s)
    here = [pod for pod in pods if pod.node]
    for pod in sorted(here, key=lambda one: one.meta.name):
        heard = _of_machine(pod, recent)
        if heard is not None:
            return heard
    missing = [pod for pod in pods if not pod.node]
    if missing:
        return _of_arrival(missing, recent, nodes, here=len(here), wanted=wanted)
    if len(pods) < wanted:
        refused = _of_creation(recent)
        if refused is not None:
            return refused
        made = f"{len(pods)} of {wanted} of them"
        return Heard(word=Word.PODS_STARTING, detail=made, look_at=_job(recent))
    if all(_is_up(pod) for pod in pods):
        return Heard(word=Word.STANDING)
    starting = next(pod for pod in pods if not _is_up(pod))
    up = sum(_is_up(pod) for pod in pods)
    pulling = any(event.reason == "Pulling" for event in _about(starting, recent))
    return Heard(
        word=Word.PULLING_IMAGE if pulling else Word.PODS_STARTING,
        detail=f"{up} of {wanted} are up",
        look_at=_at(starting),
        member=starting.meta.uid,
    )


def _of_machine(pod: Pod, events: Sequence[Event]) -> Heard | None:
    """What a machine says of a process that it does not get up; None: nothing is wrong there."""
    for container in pod.containers:
        found = _of_container(container)
        if found is not None:
            word, detail, counted = found
            raw = container.message or container.reason
            return Heard(
                word=word,
                detail=detail,
                raw=raw,
                look_at=_at(pod),
                unknown=counted,
                member=pod.meta.uid,
            )
    if _is_up(pod):
        return None
    for event in _about(pod, events):
        if event.reason in ("FailedMount", "FailedAttachVolume", "FailedMapVolume"):
            heard = hear(event.message, _MOUNTS) or (Word.VOLUME_NOT_MOUNTED, "")
            return _told(pod, event, *heard)
        if event.reason == "FailedCreatePodSandBox":
            return _told(pod, event, Word.SANDBOX_FAILING)
    return None


def _told(pod: Pod, event: Event, word: Word, detail: str = "") -> Heard:
    return Heard(word=word, detail=detail, raw=event.message, look_at=_at(pod), member=pod.meta.uid)


def _of_container(container: ContainerState) -> tuple[Word, str, str] | None:
    if container.is_init and container.state == "terminated" and container.exit_code:
        code = container.exit_code
        return Word.SIDECAR_FAILING, f"{container.name}, exit code {code}", ""
    if container.state != "waiting" or container.reason in _WAITS:
        return None
    if container.reason in _PULL_REASONS:
        usual = _PULL_REASONS[container.reason]
        heard = hear(container.message, _PULLS) if usual is Word.IMAGE_PULL_FAILING else None
        return (*(heard or (usual, "")), "")
    if container.reason in _CREATE_REASONS:
        return (*(hear(container.message, _CREATES) or (Word.CONTAINER_REFUSED, "")), "")
    if container.reason in _SANDBOXES:
        return Word.SANDBOX_FAILING, "", ""
    if container.reason == "CrashLoopBackOff":
        return Word.SIDECAR_FAILING, container.name, ""
    return Word.UNKNOWN, "", unknown("Container.waiting", container.reason)


def _of_arrival(
    missing: Sequence[Pod],
    events: Sequence[Event],
    nodes: Mapping[str, Node] | None,
    *,
    here: int,
    wanted: int,
) -> Heard:
    """Why some or all of the machines are not here."""
    first = min(missing, key=lambda one: one.meta.name)
    for pod in missing:
        heard = _of_autoscaler(pod, events) or of_scheduler(pod, nodes)
        if heard is None:
            continue
        arrived = f"{here} of {wanted} are here"
        if heard.word in _OUT_OF_STOCK and here:
            return Heard(
                word=Word.PARTIAL_ARRIVAL, detail=arrived, raw=heard.raw, look_at=heard.look_at
            )
        detail = heard.detail if heard.word is not Word.NODES_COMING else arrived
        return Heard(
            word=heard.word,
            detail=detail,
            raw=heard.raw,
            look_at=heard.look_at,
            unknown=heard.unknown,
        )
    return Heard(word=Word.NODES_COMING, detail=f"{here} of {wanted} are here", look_at=_at(first))


def _of_autoscaler(pod: Pod, events: Sequence[Event]) -> Heard | None:
    # The newest counts: machines that are bought after a failure are on their way.
    for event in _about(pod, events):
        word = scale_up_word(event)
        if word is not None:
            return Heard(word=word, raw=event.message, look_at=_at(pod))
    return None


def scale_up_word(event: Event) -> Word | None:
    """Return what the autoscaler says of machines by an event; None: it says nothing of them."""
    match event.reason:
        case "TriggeredScaleUp":
            return Word.NODES_COMING
        case "FailedScaleUp":
            said = _SCALE_UPS
        case "NotTriggerScaleUp":
            said = _NO_SCALE_UPS
        case _:
            return None
    word, _ = hear(event.message, said) or (Word.NO_POOL_FITS, "")
    return word


def _of_creation(events: Iterable[Event]) -> Heard | None:
    for event in events:
        if event.reason == "FailedCreate":
            word, detail = hear(event.message, _CREATIONS) or (Word.PODS_REFUSED, "")
            look_at = f"{event.about_kind.lower()}/{event.about_name}"
            return Heard(word=word, detail=detail, raw=event.message, look_at=look_at)
    return None


def _recent(events: Iterable[Event], now_s: float) -> list[Event]:
    """The events that still tell of now, newest first."""
    known = [one for one in events if one.last_s is None or now_s - one.last_s <= EVENT_AGE_S]
    return sorted(known, key=lambda one: one.last_s or 0.0, reverse=True)


def _about(pod: Pod, events: Iterable[Event]) -> list[Event]:
    return [
        one
        for one in events
        if one.about_uid == pod.meta.uid
        or (not one.about_uid and one.about_kind == "Pod" and one.about_name == pod.meta.name)
    ]


def _is_up(pod: Pod) -> bool:
    own = [one for one in pod.containers if not one.is_init]
    return bool(own) and all(one.state in ("running", "terminated") for one in own)


def _job(events: Iterable[Event]) -> str:
    return next((f"job/{one.about_name}" for one in events if one.about_kind == "Job"), "")


def _at(pod: Pod) -> str:
    return f"pod/{pod.meta.name}"
