"""Values as people read them, and what a run's status says."""

from __future__ import annotations

import pytest
from google.protobuf import text_format
from google.type import money_pb2

from broker.cli import words
from broker.cli.amend import differences
from broker.cli.following import event_line
from broker.cli.ls import query_of
from broker.cli.places import variants
from broker.cli.status import ahead, headline, lines_of, rendered, step_of
from broker.v1 import errors_pb2, event_pb2, intent_pb2, placement_pb2, run_pb2

NOW_S = 2_000.0
WAITING = """
name: "teams/vision/runs/digits"
state: RUN_STATE_QUEUED
intent { owner: "ann" }
why {
  reason: REASON_WAITING_FOR_QUOTA
  message: "waiting for quota in us-east4"
  since_time { seconds: 1400 }
  next_action: "a leg in another region is added"
  next_time { seconds: 2090 }
}
create_time { seconds: 1390 }
placements {
  state: PLACEMENT_STATE_QUEUED
  place { region: "us-east4" cluster: "c" queue: "q" capacity_type: CAPACITY_TYPE_SPOT }
  state_time { seconds: 1400 }
  why { reason: REASON_WAITING_FOR_QUOTA message: "its quota is held by others" }
  arrival { ahead: 3 ahead_gpus: 24 }
  gpus: 8
  price_per_gpu_hour { units: 1 nanos: 860000000 }
}
placements { state: PLACEMENT_STATE_ENDED place { region: "gone" } }
restarts { user_restarts_left: 3 infrastructure_losses_left: 99 infrastructure_losses: 1 }
spending { cost { units: 1 nanos: 230000000 } budget_left { units: 23 nanos: 770000000 } }
advice: "More regions would give it more places."
"""


def test_a_run_that_waits_says_why_where_what_is_ahead_and_what_is_next() -> None:
    run = text_format.Parse(WAITING, run_pb2.Run())
    where = (
        "us-east4: queued for 10m00s, 8 GPUs spot at $1.86 a GPU-hour;"
        " its quota is held by others (3 gangs ahead asking for 24 GPUs)"
    )
    left = "3 (0 used); after lost machines: 99 (1 used)"
    assert rendered(run, NOW_S).splitlines() == [
        "teams/vision/runs/digits  QUEUED",
        "  stage       QUEUED",
        "  why         waiting for quota in us-east4 (WAITING_FOR_QUOTA)",
        "  since       10m00s ago",
        f"  where       {where}",
        "  next        a leg in another region is added, in 1m30s",
        f"  restarts    left after failures of the command: {left}",
        "  price       $1.23 so far, $23.77 of the budget left",
        "  submitted   10m10s ago by ann",
        "  advice      More regions would give it more places.",
    ]
    assert headline(run, NOW_S) == "QUEUED in us-east4 for 10m00s"


LOST = """
placements {
  state: PLACEMENT_STATE_ENDED
  end: PLACEMENT_END_PREEMPTED
  failure_class: FAILURE_CLASS_RESOURCE
  place { region: "us-east4" }
  state_time { seconds: 1940 }
  why { reason: REASON_EVICTED message: "us-east4: a run of higher priority took its place" }
}
"""


def test_a_run_that_waits_again_says_how_it_lost_its_place() -> None:
    run = text_format.Parse(WAITING + LOST, run_pb2.Run())
    told = "us-east4, 1m00s ago: a run of higher priority took its place (EVICTED)"
    assert ("before", told) in lines_of(run, NOW_S)
    beaten = run.placements.add(end=placement_pb2.PLACEMENT_END_WITHDRAWN)
    beaten.state_time.seconds = 1950
    beaten.why.reason = errors_pb2.REASON_OTHER_LEG_STARTED
    assert ("before", told) in lines_of(run, NOW_S)
    for state in (run_pb2.RUN_STATE_RUNNING, run_pb2.RUN_STATE_FAILED):
        run.state = state
        assert "before" not in [label for label, _ in lines_of(run, NOW_S)]


def test_how_much_of_a_leg_has_come_is_not_said_twice() -> None:
    run = text_format.Parse(WAITING, run_pb2.Run())
    leg = run.placements[0]
    leg.arrival.CopyFrom(placement_pb2.Arrival(ahead=0, nodes_here=5, nodes_wanted=8))
    assert ahead(leg, "it waits for quota, first in line") == ""
    leg.state = placement_pb2.PLACEMENT_STATE_PROVISIONING
    assert ahead(leg, "its quota is held by others") == " (5 of 8 machines are there)"
    assert ahead(leg, "5 of 8 machines are here in us-east4, the rest are out of stock") == ""


def test_a_step_that_was_saved_counts_though_its_gang_was_lost_before_it_said_so() -> None:
    run = text_format.Parse(WAITING, run_pb2.Run())
    assert step_of(run) is None
    run.progress.CopyFrom(run_pb2.Progress(epoch=1, step=7, loss=5.0))
    assert step_of(run) == 7
    run.last_checkpoint.epoch, run.last_checkpoint.step = 1, 60
    assert step_of(run) == 60
    assert "at step 60" in headline(run, NOW_S)
    labels = [label for label, _ in lines_of(run, NOW_S)]
    assert "saved" in labels
    assert "step" not in labels
    run.progress.epoch = 2  # it trains again, from the beginning
    assert step_of(run) == 7
    assert "step" in [label for label, _ in lines_of(run, NOW_S)]


def test_the_price_of_a_run_that_is_over_is_its_last() -> None:
    run = text_format.Parse(WAITING, run_pb2.Run())
    run.state = run_pb2.RUN_STATE_FAILED
    assert ("price", "$1.23, $23.77 of the budget left") in lines_of(run, NOW_S)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (0.4, "0s"),
        (59.4, "59s"),
        (59.6, "1m00s"),
        (3599, "59m59s"),
        (7500, "2h05m"),
        (90_000, "1d01h"),
    ],
)
def test_a_span_is_two_units_at_most(seconds: float, text: str) -> None:
    assert words.span(seconds) == text


@pytest.mark.parametrize(
    ("units", "nanos", "text"),
    [
        (0, 0, "$0.00"),
        (0, 1_400_000, "$0.0014"),
        (12, 345_678_901, "$12.35"),
        (5, 500_000_000, "$5.50"),
    ],
)
def test_money_shows_cents_or_what_there_is_below_them(units: int, nanos: int, text: str) -> None:
    assert words.dollars(money_pb2.Money(units=units, nanos=nanos)) == text


def test_columns_stand_under_their_headers_and_fit_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [("a", "short"), ("long-name", "x" * 50)]
    assert words.table(("RUN", "WHY"), rows).splitlines() == [
        "RUN        WHY",
        "a          short",
        "long-name  " + "x" * 50,
    ]
    monkeypatch.setattr(words, "width", lambda: 30)
    assert [len(line) for line in words.table(("RUN", "WHY"), rows).splitlines()] == [14, 16, 30]


def test_a_filter_quotes_what_was_typed() -> None:
    assert query_of(states=("running", "queued"), owner='a"b', labels=("goal=7 b",)) == (
        '(state = "RUNNING" OR state = "QUEUED") AND owner = "a\\"b" AND labels.goal = "7 b"'
    )
    assert query_of() == ""


def test_changed_terms_are_told_one_by_one() -> None:
    before = intent_pb2.Terms(priority=1, regions=["a"])
    after = intent_pb2.Terms(priority=2, regions=["a", "b"])
    after.max_wait.seconds = 5400
    assert differences(before, after) == [
        "regions: a -> a, b",
        "priority: 1 -> 2",
        "max_wait: none -> 1h30m",
    ]
    assert differences(after, after) == ["the terms are as they were"]


def test_an_intent_is_tried_narrowed_and_widened() -> None:
    intent = intent_pb2.Intent()
    intent.terms.capacity_types.extend(
        [intent_pb2.CAPACITY_TYPE_SPOT, intent_pb2.CAPACITY_TYPE_ON_DEMAND]
    )
    intent.terms.regions.append("us-east4")
    intent.workload.hardware.add(accelerator="H100", accelerators_per_node=8, nodes=1)
    intent.workload.hardware.add(accelerator="A100", accelerators_per_node=8, nodes=2)
    tried = list(variants(intent, ["europe-west1", "us-east4"]))
    assert [one.title for one in tried] == [
        "as it is",
        "only spot",
        "only on-demand",
        "only 1x8xH100",
        "only 2x8xA100",
        "every region",
        "every capacity type",
    ]
    assert list(tried[2].intent.terms.capacity_types) == [intent_pb2.CAPACITY_TYPE_ON_DEMAND]
    assert [h.accelerator for h in tried[4].intent.workload.hardware] == ["A100"]
    assert not tried[5].intent.terms.regions
    assert intent.terms.regions == ["us-east4"]


def test_an_intent_that_names_no_region_is_tried_in_each_alone() -> None:
    tried = list(variants(intent_pb2.Intent(), ["europe-west1", "us-east4"]))
    assert [one.title for one in tried] == [
        "as it is, every region",
        "only europe-west1",
        "only us-east4",
        "every capacity type",
    ]
    assert tried[2].intent.terms.regions == ["us-east4"]


def test_an_event_is_one_line() -> None:
    event = event_pb2.Event(
        type=event_pb2.EVENT_TYPE_ENDED, run_state=run_pb2.RUN_STATE_FAILED, message="no luck"
    )
    event.place.region = "us-east4"
    assert event_line(event)[8:] == "  ended in us-east4 [FAILED]: no luck"
