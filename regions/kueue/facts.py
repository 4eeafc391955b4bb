"""What the cluster itself tells of a flavor's capacity, of late: scale-ups and requests. Pure.

The rule: for each flavor the newest word of each who tells, as it was said, with its age; what of
it is news is a signal, and stands there. Read ``facts`` first.
"""

from collections.abc import Iterable

from regions.capacity import KnownSeen
from regions.cluster import PlacementSeen
from regions.kueue import check_hearing
from regions.kueue.eta import eta_s
from regions.kueue.explanation import Evidence
from regions.kueue.objects.event import Event
from regions.kueue.objects.meta import Condition, Conditions, find
from regions.kueue.words import DETAIL_CHARACTERS, cleaned

SCALE_UPS = frozenset({"TriggeredScaleUp", "NotTriggerScaleUp", "FailedScaleUp"})
AUTOSCALER, REQUEST = "cluster autoscaler", "ProvisioningRequest"
_STATES = ("CapacityRevoked", "BookingExpired", "Failed", "Provisioned", "Accepted")
"""The conditions of a request, the one that decides before those that it makes meaningless."""

Told = dict[tuple[str, str, str], KnownSeen]


def facts(
    shown: Iterable[tuple[PlacementSeen, Evidence | None]], now_s: float
) -> tuple[KnownSeen, ...]:
    """Return what is told of the flavors that gangs of ours are in. ``now_s``: Unix seconds."""
    found: Told = {}
    for seen, evidence in shown:
        if evidence is None:
            continue
        for event in evidence.events:
            if event.reason in SCALE_UPS and event.last_s is not None:
                _keep(found, _scale_up(seen, event, now_s))
        request = check_hearing.newest(evidence.requests)
        for said in _decisive(request.conditions if request is not None else ()):
            _keep(found, _request(seen, said, eta_s(evidence.requests, now_s), now_s))
    return tuple(found[key] for key in sorted(found))


def _keep(found: Told, told: KnownSeen) -> None:
    key = (told.queue, told.flavor, told.source)
    if key not in found or told.age_s < found[key].age_s:
        found[key] = told


def _scale_up(seen: PlacementSeen, event: Event, now_s: float) -> KnownSeen:
    return KnownSeen(
        queue=seen.queue,
        flavor=seen.flavor,
        what=event.reason,
        words=cleaned(event.message, DETAIL_CHARACTERS),
        source=AUTOSCALER,
        is_of_gang=True,
        age_s=max(0.0, now_s - (event.last_s or now_s)),
    )


def _request(seen: PlacementSeen, said: Condition, eta: float | None, now_s: float) -> KnownSeen:
    words = cleaned(said.message or said.reason, DETAIL_CHARACTERS)
    return KnownSeen(
        queue=seen.queue,
        flavor=seen.flavor,
        what=said.type if said.status else f"{said.type}: not yet",
        words=words if eta is None else f"{words} (in {eta:.0f} s)",
        source=REQUEST,
        is_of_gang=True,
        age_s=0.0 if said.since_s is None else max(0.0, now_s - said.since_s),
    )


def _decisive(conditions: Conditions) -> Iterable[Condition]:
    """Yield the one condition that decides: that it is so, or why there is nothing yet."""
    for name in _STATES:
        said = find(conditions, name)
        if said is not None and (said.status or name == "Provisioned"):
            yield said
            return
