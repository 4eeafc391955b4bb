"""What all objects have: who they are, and the conditions that they are in."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from regions.kueue.objects.reading import Fields, UnreadableError

ANNOTATIONS = (
    "kueue.x-k8s.io/",
    "provreq.kueue.x-k8s.io/",
    "autoscaling.x-k8s.io/",
    "cluster-autoscaler.kubernetes.io/",
    "cloud.google.com/",
    "node.gke.io/",
    "batch.kubernetes.io/",
    "capacity-broker.dev/",
)
"""Prefixes of the annotations that are kept: others can hold a whole manifest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """An object's name and life. ``uid`` is never reused; ``owner_uid`` is empty for none.

    ``deleting_s``: since when it is on its way out, None when it is not.
    """

    name: str
    namespace: str
    uid: str
    resource_version: str
    created_s: float | None
    deleting_s: float | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    owner_kind: str
    owner_name: str
    owner_uid: str

    @property
    def key(self) -> str:
        """Its name among those of its kind."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition. ``status`` None: the cluster itself does not know."""

    type: str
    status: bool | None
    reason: str
    message: str
    since_s: float | None


Conditions = tuple[Condition, ...]


def read_meta(fields: Fields) -> Meta:
    """Read an object's metadata; without a name or a uid it is none."""
    meta = fields.inner("metadata")
    name, uid = meta.text("name"), meta.text("uid")
    if not name or not uid:
        raise UnreadableError("metadata has no name or no uid")
    owners = meta.each("ownerReferences")
    owner = next((one for one in owners if one.flag("controller")), owners[0] if owners else None)
    return Meta(
        name=name,
        namespace=meta.text("namespace"),
        uid=uid,
        resource_version=meta.text("resourceVersion"),
        created_s=meta.time_s("creationTimestamp"),
        deleting_s=meta.time_s("deletionTimestamp"),
        labels=meta.pairs("labels"),
        annotations=meta.notes("annotations", ANNOTATIONS),
        owner_kind=owner.text("kind") if owner is not None else "",
        owner_name=owner.text("name") if owner is not None else "",
        owner_uid=owner.text("uid") if owner is not None else "",
    )


def read_conditions(status: Fields) -> Conditions:
    """Read the conditions of a status."""
    return tuple(
        Condition(
            type=each.text("type"),
            status=_STATUS.get(each.text("status")),
            reason=each.text("reason"),
            message=each.message("message"),
            since_s=each.time_s("lastTransitionTime"),
        )
        for each in status.each("conditions")
    )


def find(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """Return the condition of a type, None when there is none."""
    return next((each for each in conditions if each.type == type_), None)


def holds(conditions: Iterable[Condition], type_: str) -> bool:
    """Whether a condition is there and true."""
    found = find(conditions, type_)
    return found is not None and found.status is True


_STATUS = {"True": True, "False": False}
