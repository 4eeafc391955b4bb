"""A run on the wire: what is said of it now, where the log keeps a sentence of a while ago."""

from __future__ import annotations

from dataclasses import replace

from broker.model.reasons import Reason
from broker.model.run import Why
from broker.service.convert_run import run_message
from tests.builders import Story

SAID = "0 of 4 machines are here in us-east4, the rest are out of stock"
NOW = "2 of 4 machines are here in us-east4, the rest are out of stock"


def partial(message: str, reason: Reason = Reason.PARTIAL_ARRIVAL) -> Why:
    return Why(reason=reason, message=message, since_s=0.0)


def test_a_run_waits_for_what_its_leg_waits_for_now() -> None:
    story = Story().accepted().placed("alpha")
    legs = [replace(leg, why=partial(NOW)) for leg in story.run.live_placements]
    run = replace(story.run, placements={leg.id: leg for leg in legs})
    cases = [
        (partial(SAID), NOW),
        (partial(SAID + ", and 1 more leg elsewhere"), NOW + ", and 1 more leg elsewhere"),
        (partial(SAID.replace("east4", "east1")), SAID.replace("east4", "east1")),
        (partial(SAID, Reason.STOCKOUT), SAID),
    ]
    for why, told in cases:
        message = run_message(replace(run, why=why), story.now)
        assert message.why.message == told
