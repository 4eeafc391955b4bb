"""What goes to the wire and back is the same, and nothing of the model is left untold."""

from __future__ import annotations

from dataclasses import fields
from decimal import Decimal
from typing import get_args

import pytest
from google.protobuf import text_format
from hypothesis import assume, example, given
from hypothesis import strategies as st

from broker.history.events import RunEvent
from broker.model.intent_rules import problems
from broker.model.moment import Moment
from broker.model.policy import Patience
from broker.service import fields as wire_fields
from broker.service import wire
from broker.service.convert_event import TOLD, UNTOLD
from broker.service.convert_intent import complete, intent_message, intent_of
from broker.service.errors import InvalidArgument
from broker.v1 import intent_pb2, region_pb2
from tests.service.hostile import damaged, messages
from tests.service.rig import make_request

RICH = text_format.Parse(
    """
    owner: "bob" labels { key: "goal" value: "7b" } labels { key: "a" value: "" }
    workload {
      command: "python" command: "${RANK}"
      hardware { accelerator: "h100" accelerators_per_node: 8 nodes: 2 topology: 3 }
      hardware { accelerator: "a100" accelerators_per_node: 8 nodes: 4 relative_speed: 0.5 }
      image: "registry/x@sha256:1" env { key: "B" value: "2" } env { key: "A" value: "1" }
      resources { cpu_millis: 4000 memory_bytes: 1000000 }
      secrets { name: "token" env: "TOKEN" } service_account: "trainer"
      inputs { uri: "gs://data/x" size_bytes: 5 regions: "alpha" remote_reads: true }
      checkpoint { format: 2 interval { seconds: 60 nanos: 7 } keep_every_steps: 1000 }
      progress { timeout { seconds: 900 nanos: 1500 } }
      internet: true service_account_token: true
    }
    terms {
      capacity_types: 3 capacity_types: 2 regions: "alpha" regions: "alpha-2" residency: "alpha"
      max_wait { seconds: 7200 nanos: 999999999 } after_max_wait: 3
      max_requeue_wait { seconds: 60 } deadline { seconds: 1900000000 nanos: 123456789 }
      expected_duration { seconds: 3600 } budget { units: 12 nanos: 345678901 }
      copies_budget { units: 3 nanos: 5 } priority: -3 limits { user_restarts: 0 }
    }
    """,
    intent_pb2.Intent(),
)


@given(messages(intent_pb2.Intent) | damaged(make_request().intent) | damaged(RICH))
@example(RICH)
@example(make_request().intent)
def test_an_accepted_intent_reads_the_same_from_the_wire_as_from_the_log(
    message: intent_pb2.Intent,
) -> None:
    try:
        intent = intent_of(message, team="vision", owner="ann", field="intent")
    except InvalidArgument as refusal:
        assert all(v.field.startswith("intent.") for v in refusal.violations)  # noqa: PT017
        return
    assume(not problems(intent))
    told = intent_message(intent)
    full = intent_pb2.Intent()
    complete(full, message, intent)
    assert full == told
    again = intent_of(told, team="vision", owner="", field="intent")
    assert intent_message(again) == told


@pytest.mark.parametrize("kind", get_args(RunEvent), ids=lambda kind: str(kind.__name__))
def test_each_field_of_an_event_is_told_or_left_out_on_purpose(kind: type) -> None:
    names = {field.name for field in fields(kind)}
    assert names - (TOLD | UNTOLD) == set()


def test_what_is_left_out_is_in_some_event() -> None:
    names = {field.name for kind in get_args(RunEvent) for field in fields(kind)}
    assert (TOLD | UNTOLD) - names == set()


def test_every_patience_can_be_set() -> None:
    wire_names = {field.name for field in region_pb2.Patience.DESCRIPTOR.fields}
    assert wire_names == {field.name.removesuffix("_s") for field in fields(Patience)}


@given(st.decimals(0, 10**9, places=9))
def test_money_keeps_its_last_digit(amount: Decimal) -> None:
    assert wire_fields.money(wire.money(amount), "x") == amount


@given(st.integers(0, 10**15))
def test_a_duration_keeps_its_microseconds(micros: int) -> None:
    seconds = wire_fields.duration_s(wire.duration(micros / 1e6), "x")
    assert round(seconds * 1e6) == micros


def test_a_point_of_broker_time_is_told_by_its_anchor() -> None:
    axis = wire.Axis(Moment(elapsed_s=100.0, wall_s=1_000.5))
    assert axis.time(40.25).ToNanoseconds() == 940_750_000_000
