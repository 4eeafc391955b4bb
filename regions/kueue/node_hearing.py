"""What is told of machines themselves, whoever runs on them: taken back, or not to be had. Pure.

The rule: a machine that was emptied on purpose, or whose time was over as planned, was not taken
back; what says nothing of capacity is not even kept. A machine is soon gone and its event stays,
so whose flavor it was is learned when the event is new. Read ``Notices.take_in`` first.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from regions.capacity import KnownSeen, QueueSeen
from regions.kueue.end_hearing import TAKEN_BACK
from regions.kueue.facts import SCALE_UPS
from regions.kueue.flavors import MAX_RUN, is_of
from regions.kueue.objects.event import Event
from regions.kueue.objects.node import Node
from regions.kueue.objects.resource_flavor import ResourceFlavor
from regions.kueue.scout import News, Report, Spot
from regions.kueue.snapshot import Seen, Snapshot
from regions.kueue.start_hearing import scale_up_word
from regions.kueue.vocabulary import Word
from regions.kueue.words import DETAIL_CHARACTERS, cleaned

SOURCE = "the events of a machine"
MOST_NEWS = 1_000
"""Of what nobody asked for yet: as many as there are signals of a cluster."""
PLANNED_S = 300.0
"""A machine that ends so shortly before its planned end, or after it, ends as planned."""

_SHUT_DOWN = "Shutdown"
"""The kubelet's word when its machine goes down, for whatever cause."""
_TAKEN = frozenset({"PreemptScheduled", "SpotInterruption", "SpotInterrupted"})
"""Words for nothing else than that a cloud takes a machine back, by whoever listens to it."""
_EMPTIED = "ScaleDown"
"""The autoscaler's word for a machine that it takes away itself, before it goes down."""
_HEARD = frozenset({_SHUT_DOWN, _EMPTIED}) | _TAKEN | SCALE_UPS
_KINDS = {Word.STOCKOUT: "STOCKOUT", Word.CLOUD_QUOTA_EXCEEDED: "CLOUD_QUOTA"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Notice:
    """One event of a machine, for one flavor of one queue; ``kind`` empty: it is no signal."""

    spot: Spot
    kind: str
    what: str
    words: str
    at_s: float


def says_of_capacity(event: Event, _: str) -> bool:
    """Whether an event of a machine is one that is listened to."""
    return event.about_kind == "Node" and event.reason in _HEARD


class Notices:
    """What was told of machines since ``began_s``, on our monotonic clock."""

    def __init__(self, began_s: float) -> None:
        self._began_s = began_s
        self._told: set[tuple[str, float]] = set()
        self._news: list[_Notice] = []
        self._newest: dict[Spot, _Notice] = {}

    def take_in(
        self,
        events: Seen[Event],
        snapshot: Snapshot,
        queues: Iterable[QueueSeen],
        *,
        now_s: float,
        monotonic_s: float,
    ) -> None:
        """Hear what is new. ``now_s`` is in Unix seconds, as the events' times are.

        What is told of a machine that is not seen, or is of no flavor that is offered yet, waits
        until it is, or nobody tells it any more.
        """
        if not events.is_known:
            return
        known = {(e.meta.uid, e.last_s): e for e in events.objects.values() if e.last_s is not None}
        self._told &= known.keys()
        emptied = {event.about_name for event in known.values() if event.reason == _EMPTIED}
        places = tuple(_places(queues, snapshot))
        for (uid, at_s), event in known.items():
            node = snapshot.nodes.objects.get(event.about_name)
            if node is None or (uid, at_s) in self._told:
                continue
            own = [(spot, type_) for spot, type_, flavor in places if is_of(node, flavor)]
            if own:
                self._told.add((uid, at_s))
            is_news = now_s - at_s <= monotonic_s - self._began_s
            for spot, capacity_type in own if node.meta.name not in emptied else ():
                kind = _kind(event, node, capacity_type, at_s)
                if kind is not None:
                    self._hear(spot, kind, event, at_s, is_news=is_news)
        del self._news[: max(0, len(self._news) - MOST_NEWS)]

    def _hear(self, spot: Spot, kind: str, event: Event, at_s: float, *, is_news: bool) -> None:
        words = cleaned(event.message, DETAIL_CHARACTERS)
        notice = _Notice(spot=spot, kind=kind, what=event.reason, words=words, at_s=at_s)
        former = self._newest.get(spot)
        if former is None or former.at_s <= at_s:
            self._newest[spot] = notice
        if kind and is_news:
            self._news.append(notice)

    def report(self, now_s: float) -> Report:
        """Return what is known at ``now_s``, in Unix seconds; what is news is told once."""
        news, self._news = self._news, []
        return Report(
            news=tuple(
                News(
                    spot=one.spot,
                    kind=one.kind,
                    age_s=max(0.0, now_s - one.at_s),
                    source=SOURCE,
                    detail=f"{one.what}: {one.words}",
                )
                for one in news
            ),
            known=tuple(
                KnownSeen(
                    queue=spot.queue,
                    flavor=spot.flavor,
                    what=one.what,
                    words=one.words,
                    source=SOURCE,
                    age_s=max(0.0, now_s - one.at_s),
                    is_of_gang=True,  # whoever writes it may name who runs there
                )
                for spot, one in sorted(self._newest.items())
            ),
        )


def _places(
    queues: Iterable[QueueSeen], snapshot: Snapshot
) -> Iterable[tuple[Spot, str, ResourceFlavor]]:
    """Yield each flavor that is offered, with its capacity type and what makes a machine its."""
    for queue in queues:
        for flavor in queue.flavors:
            there = snapshot.flavors.objects.get(flavor.flavor)
            if there is not None:
                spot = Spot(queue=queue.queue, flavor=flavor.flavor)
                yield spot, flavor.capacity_type, there


def _kind(event: Event, node: Node, capacity_type: str, at_s: float) -> str | None:
    """Return which signal an event is of, empty for one that is only known, None for nothing."""
    if event.reason in _TAKEN:
        return "PREEMPTED"
    if event.reason == _SHUT_DOWN:
        ends_s = _planned_end_s(node)
        is_planned = ends_s is not None and at_s > ends_s - PLANNED_S
        return "PREEMPTED" if capacity_type in TAKEN_BACK and not is_planned else None
    word = scale_up_word(event)
    return _KINDS.get(word, "") if word is not None else None


def _planned_end_s(node: Node) -> float | None:
    """Return when a machine is to end, by its own word or by how long its kind stays."""
    span, created_s = node.meta.labels.get(MAX_RUN, ""), node.meta.created_s
    if node.planned_end_s is not None or created_s is None:
        return node.planned_end_s
    return created_s + float(span) if span.isascii() and span.isdigit() else None
