"""Forecasts beside their outcomes: whether what was promised came true as often as was said.

The rule: a forecast is judged only by legs whose outcome the broker did not decide. A leg that
started is an outcome; one that was taken out because another was faster says only that it took
longer than it was given.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from broker.model.run import Placement, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One forecast and what became of it; seconds from the leg's adding to its start or end."""

    p50_s: float
    p90_s: float
    chance: float
    waited_s: float
    has_started: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Over ``count`` outcomes: the shares that started within p50 and p90, and the Brier score.

    Well calibrated is 0.5 and 0.9. The Brier score is the mean of (chance - started) squared, as in
    G. W. Brier, Monthly Weather Review 78 (1950); 0 is best, 0.25 is what a coin would get.
    """

    count: int
    within_p50: float
    within_p90: float
    brier: float


def outcome_of(run: Run, leg: Placement) -> Outcome | None:
    """Return what became of a leg's forecast, None while that is not known."""
    site = leg.site
    if site.forecast_p50_s is None or site.forecast_p90_s is None:
        return None
    started_s = next((epoch.started_s for epoch in run.epochs if epoch.placement == leg.id), None)
    if started_s is None and leg.is_live:
        return None
    until_s = leg.entered_s if started_s is None else started_s
    return Outcome(
        p50_s=site.forecast_p50_s,
        p90_s=site.forecast_p90_s,
        chance=site.forecast_chance,
        waited_s=max(0.0, until_s - leg.added_s),
        has_started=started_s is not None,
    )


def calibrate(outcomes: Iterable[Outcome]) -> Calibration | None:
    """Return how forecasts did, None when no outcome tells anything.

    A leg that was taken out before its p90 was not given the time that it was promised, and is
    left out.
    """
    known = [one for one in outcomes if one.has_started or one.waited_s >= one.p90_s]
    if not known:
        return None
    count = len(known)
    return Calibration(
        count=count,
        within_p50=sum(one.has_started and one.waited_s <= one.p50_s for one in known) / count,
        within_p90=sum(one.has_started and one.waited_s <= one.p90_s for one in known) / count,
        brier=sum((one.chance - one.has_started) ** 2 for one in known) / count,
    )
