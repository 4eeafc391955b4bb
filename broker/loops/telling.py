"""What clusters say beside figures, for people: signals, what is known, profiles, words. Pure.

The rule: what a cluster says is cut and cleaned here, and what nobody knows is told as it came and
marked as unknown. Read ``capacity_of`` first.
"""

import math
from collections.abc import Iterable, Mapping

from broker.loops.sight import ClusterSight
from broker.loops.translate import SENTENCE_MAX
from broker.model.capacity import FlavorKey, SignalKind
from broker.model.capacity_seen import (
    CapacitySeen,
    ClusterWord,
    FlavorSaid,
    HeardSignal,
    KnownThing,
    PodProfile,
)
from broker.model.reasons import FailureClass
from broker.model.run import Placement
from regions.capacity import KnownSeen, ProfileSeen, SignalSeen
from regions.cluster import ClusterObservation, PlacementSeen
from regions.launcher.words import told

OF_A_GANG = "what became of a gang"
"""The source of what a cluster learned by a placement: whose it was is not everybody's to know."""
TOLD_MAX = 200  # things of one kind
NAME_MAX = 100
LINE_MAX, LINES_MAX, LINES_BYTES_MAX = 500, 20, 4096  # of what a process printed last
COUNT_MAX = 2**31 - 1
_KINDS = frozenset(kind.value for kind in SignalKind)
_CLASSES: Mapping[str, FailureClass] = {one.value: one for one in FailureClass}


def capacity_of(sight: ClusterSight) -> CapacitySeen:
    """Return what is known of a cluster's capacity, as of its last answer."""
    seen, seen_s = sight.observation, sight.seen_s
    if seen is None or seen_s is None:
        return CapacitySeen()
    return CapacitySeen(
        flavors={
            FlavorKey(cluster=seen.cluster, queue=queue.queue, flavor=flavor.flavor): FlavorSaid(
                profile=_profile(flavor.profile), parked=flavor.parked
            )
            for queue in seen.queues
            for flavor in queue.flavors
        },
        signals=_signals(seen, seen_s),
        known=tuple(_known(seen.cluster, one, seen_s) for one in seen.known[:TOLD_MAX]),
        notes=_sentences(seen.notes),
    )


def word_of(seen: PlacementSeen | None) -> ClusterWord | None:
    """Return the word behind what a cluster says of a placement, None where it says none."""
    if seen is None or seen.said is None:
        return None
    said = seen.said
    return ClusterWord(
        word=told(said.word, NAME_MAX),
        failure=_CLASSES.get(said.fault),
        deed=told(said.deed, SENTENCE_MAX),
        advice=told(said.advice, SENTENCE_MAX),
        look_at=told(said.look_at, SENTENCE_MAX),
        raw=told(said.raw, SENTENCE_MAX),
        is_unknown=bool(said.unknown),
        last_lines=last_lines(said.last_lines),
    )


def last_lines(text: str) -> str:
    """Return the end of what a process printed, as much as the log keeps of it, cleaned."""
    lines = [told(line, LINE_MAX).rstrip() for line in text.splitlines()]
    kept = "\n".join(lines[-LINES_MAX:]).encode()[-LINES_BYTES_MAX:]
    return kept.decode(errors="ignore").strip("\n")


def kept_of(placement: Placement) -> bytes:
    """Return what the log holds of a failed placement's output, for who can have no other."""
    word = placement.word
    if word is None or not word.last_lines:
        return b""
    head = "(the last lines of the rank that failed first; its cluster keeps no more)"
    return f"{head}\n{word.last_lines}\n".encode()


def wrong_word_of(seen: PlacementSeen | None) -> ClusterWord | None:
    """Return the word for what is wrong with a placement, None where nothing is said to be."""
    word = word_of(seen)
    return word if word is not None and (word.failure is not None or word.is_unknown) else None


def unknown_words(seen: ClusterObservation) -> Iterable[tuple[str, str]]:
    """Yield what no word is known for: what it is about, and where and how it was said."""
    for placement in seen.placements.values():
        if placement.said is not None and placement.said.unknown:
            yield placement.uid, told(placement.said.unknown, NAME_MAX)
    for signal in seen.signals:
        if signal.kind not in _KINDS:
            yield f"signal {signal.serial}", told(f"Signal:{signal.kind}", NAME_MAX)


def _signals(seen: ClusterObservation, seen_s: float) -> tuple[HeardSignal, ...]:
    """Return the last signal of each kind of each flavor, the newest first."""
    last: dict[tuple[str, str, str], tuple[SignalSeen, int]] = {}
    for one in seen.signals:
        at = (one.queue, one.flavor, one.kind)
        former, count = last.get(at, (one, 0))
        is_later = _age(one.age_s) <= _age(former.age_s)
        last[at] = (one if is_later else former, count + 1)
    newest = sorted(last.values(), key=lambda pair: _age(pair[0].age_s))
    return tuple(_signal(seen, one, count, seen_s) for one, count in newest[:TOLD_MAX])


def _signal(seen: ClusterObservation, one: SignalSeen, count: int, seen_s: float) -> HeardSignal:
    return HeardSignal(
        key=FlavorKey(cluster=seen.cluster, queue=one.queue, flavor=one.flavor),
        kind=told(one.kind, NAME_MAX),
        count=count,
        elapsed_s=seen_s - _age(one.age_s),
        source=OF_A_GANG if _is_id(one.source) else told(one.source, NAME_MAX),
        detail=told(one.detail, SENTENCE_MAX),
        gpus=min(COUNT_MAX, max(0, one.gpus)),
        wait_s=None if one.wait_s is None else _age(one.wait_s),
        is_unknown=one.kind not in _KINDS,
    )


def _is_id(source: str) -> bool:
    """Whether a source is a placement: an id holds no blank, and what else tells is in words."""
    return bool(source) and source.isalnum() and source == source.lower()


def _known(cluster: str, one: KnownSeen, seen_s: float) -> KnownThing:
    return KnownThing(
        key=FlavorKey(
            cluster=cluster, queue=told(one.queue, NAME_MAX), flavor=told(one.flavor, NAME_MAX)
        ),
        what=told(one.what, NAME_MAX),
        words=told(one.words, SENTENCE_MAX),
        source=told(one.source, NAME_MAX),
        elapsed_s=seen_s - _age(one.age_s),
        is_of_gang=one.is_of_gang,
    )


def _profile(seen: ProfileSeen | None) -> PodProfile | None:
    if seen is None:
        return None
    return PodProfile(
        name=told(seen.name, NAME_MAX),
        widens=_sentences(seen.widens),
        is_restricted=seen.is_restricted,
        parts=tuple(
            (told(kind, NAME_MAX), told(words, SENTENCE_MAX))
            for kind, words in seen.parts[:TOLD_MAX]
        ),
    )


def _sentences(said: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(told(one, SENTENCE_MAX) for one in said[:TOLD_MAX])


def _age(age_s: float) -> float:
    return min(1e9, max(0.0, age_s)) if math.isfinite(age_s) else 0.0
