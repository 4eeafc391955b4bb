"""All that time and bad news call for, for one run: the one function that the shell calls.

The rule: the commands of one judgement do not contradict each other. A close comes alone, for all
else depends on what it makes of the run; then what ends or stops, then what goes on. Read
``judge``, then ``next_look_s``.
"""

from collections.abc import Iterator

from broker.history.commands import FailRun, MarkPrepared, RunCommand, StopEpoch
from broker.model.moment import Moment
from broker.model.run import Run
from broker.placement.backoff import ready_at_s
from broker.placement.hedge import waiting_legs
from broker.placement.succession import leaves_at_s
from broker.placement.view import View
from broker.policy.content import give_up_lost, prepare
from broker.policy.facts import EpochFacts
from broker.policy.failing import judge_gang, progress_at_s, start_report_at_s
from broker.policy.gates import judge_gates
from broker.policy.grants import grant
from broker.policy.limits import judge_limits, limits_at_s
from broker.policy.regions import goes_on_at_s, judge_regions, silent_since_s
from broker.policy.silence import say_silence, say_unread
from broker.policy.verdict import close, say_verdict, verdict_at_s
from broker.policy.waits import judge_waits, judged_at_s

LOOK_AT_LEAST_S = 30.0  # the longest a run that does something goes unlooked-at


def judge(
    view: View, run: Run, facts: EpochFacts | None, now: Moment, nonces: Iterator[str]
) -> tuple[RunCommand, ...]:
    """Return what is to be commanded of a run now.

    ``facts`` are those of its open epoch, None when it has none or nothing was seen yet;
    ``nonces`` yields fresh grant nonces.
    """
    if run.is_ended:
        return ()
    closed = close(view, run, facts, now) if facts is not None else ()
    if closed:
        return closed
    if facts is not None and facts.unread_until_s is not None:
        return say_unread(run, facts.unread_until_s)
    ended = give_up_lost(run) or judge_limits(view, run, now)
    if any(isinstance(command, FailRun) for command in ended):
        return ended
    told: list[RunCommand] = [*ended, *judge_regions(view, run, now)]
    told += judge_gang(view, run, facts, now)
    told += judge_gates(view, run, now)
    told += prepare(view, run, now)
    if not any(isinstance(command, StopEpoch) for command in told):
        judging = None if facts is None else say_verdict(view, run, facts, now)
        told += say_silence(view, run, facts, now) if judging is None else (judging,)
        prepared = [one.placement for one in told if isinstance(one, MarkPrepared)]
        told += grant(view, run, now, nonces, prepared=prepared)
        told += judge_waits(view, run, now)
    return tuple(_without_repeats(told))


def next_look_s(view: View, run: Run, facts: EpochFacts | None, now: Moment) -> float | None:
    """Return when time alone next calls for something (broker seconds), None for never.

    News comes sooner: a change of the run, of its facts, its clusters or its regions.
    """
    if run.is_ended:
        return None
    times = [
        *limits_at_s(view, run, now),
        *(judged_at_s(view, run, leg) for leg in waiting_legs(run)),
    ]
    times += _some(ready_at_s(run), leaves_at_s(view, run))
    epoch = run.open_epoch
    if epoch is not None:
        times += _some(start_report_at_s(view, epoch), progress_at_s(run, epoch))
        times += _some(None if epoch.drain is None else epoch.drain.deadline_s)
        times += _some(None if facts is None else verdict_at_s(view, epoch, facts))
        times += _some(None if facts is None else facts.unread_until_s)
        if silent_since_s(view, epoch.cluster) is not None:
            times.append(now.elapsed_s + LOOK_AT_LEAST_S)
            times += _some(goes_on_at_s(view, epoch))
        if epoch.stop is not None:
            # Said anew when that time has passed unheard.
            times.append(now.elapsed_s + LOOK_AT_LEAST_S)
    if run.live_placements:
        times.append(now.elapsed_s + LOOK_AT_LEAST_S)
    ahead = [at_s for at_s in times if at_s > now.elapsed_s]
    return min(ahead, default=None)


def _some(*times: float | None) -> list[float]:
    return [at_s for at_s in times if at_s is not None]


def _without_repeats(told: list[RunCommand]) -> list[RunCommand]:
    """Keep the first order to stop: its reason is the one that is remembered."""
    kept: list[RunCommand] = []
    for command in told:
        is_second = isinstance(command, StopEpoch) and any(
            isinstance(one, StopEpoch) for one in kept
        )
        if command not in kept and not is_second:
            kept.append(command)
    return kept
