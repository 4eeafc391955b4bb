"""What the signals of one flavor say about capacity: will nodes come, how fast does quota drain.

The rule: quota is not capacity. Where nodes must be bought first, only nodes that came prove that
they come. Signals are shared by all runs and fade with a half-life; one observation is worth
hours, and only for gangs of its size: one node that came says little of eight. An outage's own age
tells when to look again: what has lasted long will last as long again (Lindy's law), so the looks
grow rarer, within bounds.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from broker.model.capacity import Signal, SignalKind
from broker.model.intent import CapacityType

LOOK_AGAIN_MIN_S = 30.0
LOOK_AGAIN_MAX_S = 3600.0
DRAIN_WINDOW_S = 7200.0  # two hours of admissions: less is noise, more is another day's load
FORGET_AFTER_S = 86_400.0  # a day's news of a pool says nothing of the next

# Beliefs before any signal: (times that nodes came, times that they did not). On-demand is not
# certain either. A signal counts EVIDENCE_WEIGHT, so that one of today outweighs the prior.
PRIOR: dict[CapacityType, tuple[float, float]] = {
    CapacityType.RESERVED: (9.0, 0.3),
    CapacityType.ON_DEMAND: (4.0, 0.5),
    CapacityType.SPOT: (2.0, 0.7),
    CapacityType.FLEX: (3.0, 0.7),
}
EVIDENCE_WEIGHT = 4.0
BURST_S = 60.0  # what a reclaim does to eight nodes within a minute is one observation, not eight
SKEW_S = 1.0  # ages are told with the clusters' clocks: asked and refused may seem to change places

# What the cloud advises is a guess of somebody who sells: zones that were empty have been advised
# at 0.9. New, it counts as half of one thing that was seen; the older, the less.
ADVICE_WEIGHT = 2.0
ADVICE_HALF_LIFE_S = 3600.0

_GOOD: dict[SignalKind, float] = {SignalKind.NODES_CAME: 1.0, SignalKind.STARTED: 1.0}
_BAD: dict[SignalKind, float] = {
    SignalKind.STOCKOUT: 1.0,
    SignalKind.CLOUD_QUOTA: 2.0,  # no zone has more, and only an end or a person gives it back
    SignalKind.PARTIAL: 0.8,  # some came: the pool is not empty, but a gang needs all
    SignalKind.PREEMPTED: 1.0,  # a pool that takes machines back has none to give
    SignalKind.NODE_LOST: 0.1,
    SignalKind.REFUSED: 0.5,
}
_OUTAGE = frozenset({SignalKind.STOCKOUT, SignalKind.PARTIAL, SignalKind.CLOUD_QUOTA})


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What is believed of one flavor now.

    ``chance`` that nodes come when asked, 0 to 1; ``outage_s`` the age of the outage that lasts,
    None when none does; ``look_again_s`` how long to leave it alone; ``drain_gpus_per_s`` the
    observed rate of admissions, None when none was seen; ``takes_s`` how long nodes took to
    come of late.
    """

    chance: float
    outage_s: float | None
    look_again_s: float
    drain_gpus_per_s: float | None
    takes_s: float | None


def outlook(
    signals: Iterable[Signal],
    capacity_type: CapacityType,
    now_s: float,
    *,
    gpus: int,
    half_life_s: float,
) -> Outlook:
    """Weigh the signals of one flavor, oldest first, at broker time ``now_s``.

    ``gpus`` is the size of the gang that asks: nodes that came for less count for their share, and
    end an outage once as many came after it. ``half_life_s`` is how fast news fades.
    """
    came, failed = PRIOR[capacity_type]
    outage_began_s: float | None = None
    outage_seen_s = 0.0
    admitted_gpus, oldest_s = 0, now_s
    takes_s: float | None = None
    bursts: dict[SignalKind, float] = {}
    in_burst: Counter[SignalKind] = Counter()
    advice: Signal | None = None
    since_outage: Counter[SignalKind] = Counter()
    for signal in signals:
        age_s = max(0.0, now_s - signal.elapsed_s)
        weight = EVIDENCE_WEIGHT * 0.5 ** (age_s / half_life_s)
        began_s = bursts.get(signal.kind)
        is_same_burst = began_s is not None and signal.elapsed_s - began_s < BURST_S
        if not is_same_burst:
            bursts[signal.kind] = signal.elapsed_s
            in_burst[signal.kind] = 0
        if signal.kind in _GOOD:
            takes_s = signal.wait_s if signal.wait_s is not None else takes_s
            if outage_began_s is not None and not _asked_after(signal, outage_seen_s):
                continue  # the five of eight that came before the pool ran dry
            before = in_burst[signal.kind]
            in_burst[signal.kind] = min(gpus, before + (signal.gpus or gpus))
            came += weight * _GOOD[signal.kind] * (in_burst[signal.kind] - before) / gpus
            since_outage[signal.kind] += signal.gpus or gpus
            if since_outage[signal.kind] >= gpus:
                outage_began_s = None
        elif signal.kind in _BAD:
            failed += 0.0 if is_same_burst else weight * _BAD[signal.kind]
            if signal.kind in _OUTAGE:
                outage_began_s = outage_began_s or signal.elapsed_s
                outage_seen_s = signal.elapsed_s
                since_outage.clear()
        elif signal.kind is SignalKind.ADMITTED and age_s <= DRAIN_WINDOW_S:
            admitted_gpus += signal.gpus
            oldest_s = min(oldest_s, signal.elapsed_s)
        elif signal.kind is SignalKind.ADVISED:
            advice = signal
    said_to_come, said_to_fail = _advised(advice, now_s)
    came, failed = came + said_to_come, failed + said_to_fail
    outage_s = _outage_age(outage_began_s, outage_seen_s, now_s, half_life_s)
    span_s = max(now_s - oldest_s, 60.0)
    return Outlook(
        chance=came / (came + failed),
        outage_s=outage_s,
        look_again_s=min(LOOK_AGAIN_MAX_S, max(LOOK_AGAIN_MIN_S, 0.5 * (outage_s or 0.0))),
        drain_gpus_per_s=admitted_gpus / span_s if admitted_gpus else None,
        takes_s=takes_s,
    )


def _advised(advice: Signal | None, now_s: float) -> tuple[float, float]:
    """Return what an advice counts for, as times that nodes came and times that they did not."""
    if advice is None or advice.chance is None:
        return 0.0, 0.0
    age_s = max(0.0, now_s - advice.elapsed_s)
    weight = ADVICE_WEIGHT * 0.5 ** (age_s / ADVICE_HALF_LIFE_S)
    return weight * advice.chance, weight * (1.0 - advice.chance)


def came_since(signals: Iterable[Signal], since_s: float, gpus: int) -> bool:
    """Return whether nodes for a gang of ``gpus`` came that were asked for after ``since_s``."""
    came: Counter[SignalKind] = Counter()
    for signal in signals:
        if signal.kind in _GOOD and _asked_after(signal, since_s):
            came[signal.kind] += signal.gpus or gpus
    return any(total >= gpus for total in came.values())


def _asked_after(signal: Signal, seen_s: float) -> bool:
    """Return whether nodes that came were asked for after something was last seen."""
    asked_s = signal.elapsed_s - (signal.wait_s or 0.0)
    return asked_s > seen_s + SKEW_S


def _outage_age(
    began_s: float | None, seen_s: float, now_s: float, half_life_s: float
) -> float | None:
    """Return the outage's age, None when there is none or it is believed over.

    An outage last confirmed long ago, against how long it was known to last, is over or not: the
    way to know is to look, so it stops to deter.
    """
    if began_s is None:
        return None
    lasted_s = max(seen_s - began_s, LOOK_AGAIN_MIN_S)
    quiet_s = now_s - seen_s
    if quiet_s > max(2.0 * lasted_s, half_life_s):
        return None
    return now_s - began_s
