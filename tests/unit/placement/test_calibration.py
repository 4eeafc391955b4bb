"""Forecasts beside their outcomes."""

from broker.placement.calibration import Calibration, Outcome, calibrate


def outcome(waited_s: float, *, has_started: bool = True, chance: float = 0.5) -> Outcome:
    return Outcome(
        p50_s=60.0, p90_s=200.0, chance=chance, waited_s=waited_s, has_started=has_started
    )


def test_nothing_known_is_no_calibration() -> None:
    assert calibrate([]) is None
    # It was taken out before the time that it was promised in: that tells nothing.
    assert calibrate([outcome(30.0, has_started=False)]) is None


def test_shares_and_brier_score() -> None:
    outcomes = [
        outcome(10.0, chance=1.0),
        outcome(100.0, chance=1.0),
        outcome(500.0, chance=0.5),
        outcome(300.0, has_started=False, chance=0.5),
    ]
    assert calibrate(outcomes) == Calibration(count=4, within_p50=0.25, within_p90=0.5, brier=0.125)
