"""What others than the cluster tell of its capacity: the cloud that it stands in.

The rule: who tells is asked nothing here but what it knows already, and keeps itself up to date
elsewhere; what it tells narrows a figure that nobody else gives, and overrides none. Read
``Scout`` first.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from regions.capacity import FlavorSeen, KnownSeen, ProfileSeen, QueueSeen
from regions.cluster import PlacementSeen, Stage
from regions.kueue import profile_parts, profiles
from regions.kueue.objects.resource_flavor import ResourceFlavor
from regions.kueue.profiles import Profiles

_WAITS = (Stage.QUEUED, Stage.PROVISIONING)


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Spot:
    """Where machines of one kind come from: a flavor of a queue."""

    queue: str
    flavor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A flavor of which is asked what is known. ``nodes`` are the machines that the largest gang
    of ours waits for here at once, 0 for none."""

    spot: Spot
    capacity_type: str
    accelerator: str
    node_labels: Mapping[str, str]
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """One thing that was learned of a flavor, ``age_s`` ago; see ``SignalSeen``."""

    spot: Spot
    kind: str
    age_s: float
    source: str
    detail: str
    chance: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The most machines that there can be, and how long one stays; None: nobody tells.

    ``window_s``: how long one that is taken back leaves to its pods. ``gpus``: how many of its kind
    the cloud lets the project have at once.
    """

    max_nodes: int | None = None
    max_run_s: float | None = None
    window_s: float | None = None
    gpus: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is known now. Each of ``news`` is told once; ``notes`` are sentences for ops."""

    news: tuple[News, ...] = ()
    known: tuple[KnownSeen, ...] = ()
    bounds: Mapping[Spot, Bounds] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def and_(self, other: "Report") -> "Report":
        """Return what both tell; of one flavor's bounds the other's count."""
        return Report(
            news=(*self.news, *other.news),
            known=(*self.known, *other.known),
            bounds={**self.bounds, **other.bounds},
            notes=(*self.notes, *other.notes),
        )


class Scout(Protocol):
    """Who tells of one cluster's capacity from outside of it."""

    def report(self, asked: tuple[Asked, ...]) -> Report:
        """Return what is known of flavors; asks nobody."""
        ...


def asked_of(
    queues: Iterable[QueueSeen],
    flavors: Mapping[str, ResourceFlavor],
    placements: Iterable[PlacementSeen],
) -> tuple[Asked, ...]:
    """Return the flavors of our queues, with what our gangs wait for there."""
    waits: dict[Spot, int] = {}
    for seen in placements:
        if seen.stage in _WAITS and seen.nodes_wanted:
            spot = Spot(queue=seen.queue, flavor=seen.flavor)
            waits[spot] = max(waits.get(spot, 0), seen.nodes_wanted)
    found = []
    for queue in queues:
        for flavor in queue.flavors:
            spot = Spot(queue=queue.queue, flavor=flavor.flavor)
            there = flavors.get(flavor.flavor)
            found.append(
                Asked(
                    spot=spot,
                    capacity_type=flavor.capacity_type,
                    accelerator=flavor.accelerator,
                    node_labels=there.node_labels if there is not None else {},
                    nodes=waits.get(spot, 0),
                )
            )
    return tuple(found)


def dressed(queues: Iterable[QueueSeen], laid: Profiles) -> tuple[QueueSeen, ...]:
    """Return the queues with each flavor's profile."""
    return tuple(
        replace(
            queue,
            flavors=tuple(
                replace(each, profile=profile_seen(each.flavor, laid)) for each in queue.flavors
            ),
        )
        for queue in queues
    )


def bounded(queues: tuple[QueueSeen, ...], bounds: Mapping[Spot, Bounds]) -> tuple[QueueSeen, ...]:
    """Return the queues with what is told of their flavors' bounds from outside of the cluster."""
    if not bounds:
        return queues
    return tuple(
        replace(
            queue,
            flavors=tuple(
                _bounded(each, bounds.get(Spot(queue=queue.queue, flavor=each.flavor)))
                for each in queue.flavors
            ),
        )
        for queue in queues
    )


def _bounded(flavor: FlavorSeen, told: Bounds | None) -> FlavorSeen:
    if told is None:
        return flavor
    return replace(
        flavor,
        max_nodes=flavor.max_nodes if flavor.max_nodes is not None else told.max_nodes,
        max_run_s=flavor.max_run_s if flavor.max_run_s is not None else told.max_run_s,
        preemption_notice_s=flavor.preemption_notice_s
        if flavor.preemption_notice_s is not None
        else told.window_s,
        cloud_gpus=told.gpus,
    )


def profile_seen(flavor: str, laid: Profiles) -> ProfileSeen:
    """Return what is laid over every gang of a flavor."""
    profile = laid.of(flavor)
    return ProfileSeen(
        name=flavor if flavor in laid.flavors else "default",
        widens=profiles.widenings(profile),
        is_restricted=profiles.is_restricted(profile),
        parts=tuple(profile_parts.parts(profile)),
    )
