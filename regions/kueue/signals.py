"""What is learned of capacity from what becomes of our gangs: each thing once, with its time. Pure.

The rule: a signal is what was seen to happen, not what is so; whoever looks for the first time has
seen nothing happen that was over before. Read ``Signals.look`` first.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from regions.capacity import SignalSeen
from regions.cluster import Cause, Stage
from regions.kueue import ahead
from regions.kueue.explanation import Evidence
from regions.kueue.objects.meta import find
from regions.kueue.scout import News
from regions.kueue.views import Shown
from regions.kueue.vocabulary import Word
from regions.kueue.words import cleaned

MAX_SIGNALS = 1_000
MAX_TOLD = 20_000
"""What was told already, so that it is not told again: some for each gang of the last days."""
AGED_S = 1.0
"""How long an age that was told before is told again: of a thousand signals each look would write
all anew, and what happened is told with its true age when it is news."""

_OF_CAUSE = {
    Cause.STOCKOUT: "STOCKOUT",
    Cause.FLEX_FAILED: "STOCKOUT",
    Cause.CAPACITY_REVOKED: "PREEMPTED",
    Cause.PARTIAL_ARRIVAL: "PARTIAL",
    Cause.NODE_PREEMPTED: "PREEMPTED",
    Cause.NODE_LOST: "NODE_LOST",
    Cause.QUOTA_NEVER_FITS: "QUOTA_REFUSED",
    Cause.REFUSED: "REFUSED",
}
_OF_WORD = {
    Word.CLOUD_QUOTA_EXCEEDED.value: "CLOUD_QUOTA",
    Word.PREEMPTED_BY_PRIORITY.value: "PREEMPTED",
    Word.QUOTA_RECLAIMED.value: "PREEMPTED",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Happened:
    """One thing: ``at_s`` in Unix seconds, ``wait_s`` what was waited for it."""

    kind: str
    at_s: float
    detail: str
    wait_s: float | None = None


class Signals:
    """The signals of one cluster since ``began_s``, on our monotonic clock.

    What the cluster tells is by its own clock, and that is known only once it has answered: so what
    counts is how long ago something was, against how long the cluster is watched.
    """

    def __init__(self, began_s: float) -> None:
        self._began_s = began_s
        self._serial = 0
        self._kept: list[tuple[float, SignalSeen]] = []
        self._aged: list[SignalSeen] = []
        self._aged_s = -AGED_S
        self._told: dict[tuple[str, str], None] = {}
        self._last: dict[str, str] = {}

    def look(
        self, shown: Iterable[Shown], now_s: float, monotonic_s: float, news: Iterable[News] = ()
    ) -> tuple[SignalSeen, ...]:
        """Take in what became of all gangs, and return the latest signals with their ages.

        ``now_s`` is in Unix seconds by the cluster's clock, ``monotonic_s`` by ours. ``news`` is
        what others than the cluster told since the last look.
        """
        for each in shown:
            for happened in self._new(each, now_s, monotonic_s - self._began_s):
                self._keep(each, happened)
        for told in news:
            self._hear(told, now_s)
        too_many = max(0, len(self._kept) - MAX_SIGNALS)
        del self._kept[:too_many], self._aged[:too_many]
        while len(self._told) > MAX_TOLD:
            del self._told[next(iter(self._told))]
        if monotonic_s - self._aged_s >= AGED_S:
            self._aged, self._aged_s = [], monotonic_s
        self._aged += (
            replace(signal, age_s=max(0.0, now_s - at_s))
            for at_s, signal in self._kept[len(self._aged) :]
        )
        return tuple(self._aged)

    def _new(self, shown: Shown, now_s: float, watched_s: float) -> Iterable[_Happened]:
        uid = shown.seen.uid
        for happened in _steps(shown):
            key = (uid, f"{happened.kind} {happened.at_s}")
            if key in self._told:
                continue
            self._told[key] = None  # also what is too old: it stays so when clocks are set
            if now_s - happened.at_s <= watched_s:
                yield happened
        said = shown.said
        kind = _OF_WORD.get(said.word) or _OF_CAUSE.get(said.hindrance, "")
        kind = kind or _OF_CAUSE.get(said.cause, "")
        is_news = kind != self._last.get(uid, "")
        is_old = uid not in self._last and shown.seen.stage is Stage.ENDED
        self._last[uid] = kind
        while len(self._last) > MAX_TOLD:
            del self._last[next(iter(self._last))]
        if kind and is_news and not is_old:
            yield _Happened(kind=kind, at_s=now_s, detail=cleaned(said.raw or said.sentence, 300))

    def _hear(self, told: News, now_s: float) -> None:
        self._serial += 1
        signal = SignalSeen(
            queue=told.spot.queue,
            flavor=told.spot.flavor,
            kind=told.kind,
            age_s=0.0,
            source=told.source,
            detail=cleaned(told.detail, 300),
            gpus=0,
            wait_s=None,
            serial=self._serial,
            chance=told.chance,
        )
        self._kept.append((now_s - told.age_s, signal))

    def _keep(self, shown: Shown, happened: _Happened) -> None:
        self._serial += 1
        signal = SignalSeen(
            queue=shown.seen.queue,
            flavor=shown.seen.flavor,
            kind=happened.kind,
            age_s=0.0,
            source=shown.seen.placement,
            detail=happened.detail,
            gpus=_gpus(shown.evidence),
            wait_s=happened.wait_s,
            serial=self._serial,
        )
        self._kept.append((happened.at_s, signal))


def _steps(shown: Shown) -> Iterable[_Happened]:
    """What the cluster itself gives a time to: let in, machines bound, all processes up."""
    evidence = shown.evidence
    workload = evidence.workload if evidence is not None else None
    if evidence is None or workload is None:
        return
    queued_s = evidence.job_set.meta.created_s
    admitted = find(workload.conditions, "Admitted")
    if admitted is None or not admitted.status or admitted.since_s is None:
        return
    yield _Happened(
        kind="ADMITTED",
        at_s=admitted.since_s,
        detail="the queue let it in",
        wait_s=None if queued_s is None else max(0.0, admitted.since_s - queued_s),
    )
    bound = [find(pod.conditions, "PodScheduled") for pod in evidence.pods if pod.node]
    times = [each.since_s for each in bound if each is not None and each.since_s is not None]
    if len(times) < evidence.job_set.members:
        return
    came_s = max(times)
    waited_s = max(0.0, came_s - admitted.since_s)
    yield _Happened(kind="NODES_CAME", at_s=came_s, detail="all machines came", wait_s=waited_s)
    began = [one.started_s for pod in evidence.pods for one in pod.containers if not one.is_init]
    up = [at_s for at_s in began if at_s is not None]
    if shown.seen.stage is Stage.STANDING and len(up) >= evidence.job_set.members:
        total_s = None if queued_s is None else max(0.0, max(up) - queued_s)
        yield _Happened(
            kind="STARTED", at_s=max(up), detail="all of its processes are up", wait_s=total_s
        )


def _gpus(evidence: Evidence | None) -> int:
    if evidence is None or evidence.workload is None:
        return 0
    return ahead.gpus(evidence.workload)
