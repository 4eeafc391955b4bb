"""The wire and the model name the same things, and each RPC says how it can end."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, get_args

import pytest
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from grpc import StatusCode

from broker.history.events import RunEvent
from broker.model.actor import ActorKind
from broker.model.capacity import Certainty, Comparison
from broker.model.intent import AfterMaxWait, CapacityType, CheckpointFormat, TopologyWish
from broker.model.preparing import ResumeFrom
from broker.model.reasons import FailureClass, Reason
from broker.model.run import CloseRule, Purpose
from broker.model.states import EpochState, PlacementEnd, PlacementState, RunState
from broker.v1 import errors_pb2, event_pb2, intent_pb2, offer_pb2, placement_pb2, run_pb2
from tests.house.tree import ROOT

PROTOS = ROOT / "proto" / "broker" / "v1"
MIRRORS: list[tuple[type[StrEnum], Any, str]] = [
    (Reason, errors_pb2.Reason, "REASON"),
    (RunState, run_pb2.RunState, "RUN_STATE"),
    (EpochState, run_pb2.EpochState, "EPOCH_STATE"),
    (CloseRule, run_pb2.CloseRule, "CLOSE_RULE"),
    (PlacementState, placement_pb2.PlacementState, "PLACEMENT_STATE"),
    (PlacementEnd, placement_pb2.PlacementEnd, "PLACEMENT_END"),
    (Purpose, placement_pb2.Purpose, "PURPOSE"),
    (FailureClass, placement_pb2.FailureClass, "FAILURE_CLASS"),
    (CapacityType, intent_pb2.CapacityType, "CAPACITY_TYPE"),
    (AfterMaxWait, intent_pb2.AfterMaxWait, "AFTER_MAX_WAIT"),
    (TopologyWish, intent_pb2.TopologyWish, "TOPOLOGY_WISH"),
    (CheckpointFormat, intent_pb2.CheckpointFormat, "CHECKPOINT_FORMAT"),
    (Certainty, offer_pb2.Certainty, "CERTAINTY"),
    (Comparison, offer_pb2.Comparison, "COMPARISON"),
    (ResumeFrom, offer_pb2.ResumeFrom, "RESUME_FROM"),
    (ActorKind, event_pb2.ActorKind, "ACTOR_KIND"),
]
RPC = re.compile(r"((?:^  //.*\n)+)  rpc (\w+)\(", re.MULTILINE)


@pytest.mark.parametrize(
    ("model", "wire", "prefix"), MIRRORS, ids=lambda x: getattr(x, "__name__", "")
)
def test_an_enum_of_the_wire_has_the_members_of_the_model(
    model: type[StrEnum], wire: EnumTypeWrapper, prefix: str
) -> None:
    assert set(wire.keys()) == {f"{prefix}_UNSPECIFIED"} | {f"{prefix}_{m.name}" for m in model}


def test_each_event_of_a_run_has_a_type_on_the_wire() -> None:
    events = {
        re.sub(r"(?<!^)([A-Z])", r"_\1", kind.__name__).upper() for kind in get_args(RunEvent)
    }
    wire = {name.removeprefix("EVENT_TYPE_") for name in event_pb2.EventType.keys()}  # noqa: SIM118
    assert wire - {"UNSPECIFIED"} == events


def test_each_rpc_says_with_which_codes_it_can_end() -> None:
    codes = {code.name for code in StatusCode}
    silent, unknown = [], []
    for path in sorted(PROTOS.glob("*_service.proto")):
        found = RPC.findall(path.read_text())
        assert found, path
        for comment, rpc in found:
            _, errors, listed = comment.partition("// Errors:")
            named = re.findall(r"\* `([A-Z_]+)`: \w", listed)
            if not errors or not (named or "only those" in listed):
                silent.append(rpc)
            unknown += [name for name in named if name not in codes]
    assert (silent, unknown) == ([], [])


# Files that only judge or explain a reason that another one gave.
READERS = ("broker/history/causes.py", "broker/service/advice.py", "broker/service/enums.py")


def test_each_reason_that_is_declared_is_given_somewhere() -> None:
    given = {
        name
        for path in sorted((ROOT / "broker").rglob("*.py"))
        if not str(path.relative_to(ROOT)).startswith((*READERS, "broker/v1/"))
        for name in re.findall(r"\bReason\.([A-Z_]+)\b", path.read_text())
    }
    assert sorted(set(Reason.__members__) - given) == []
    assert sorted(given - set(Reason.__members__)) == []
