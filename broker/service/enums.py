"""The enums of the model beside those of the wire; both have the same members.

The rule: a name is the same on both sides but for the wire's prefix, which a test holds.
"""

from broker.model.actor import ActorKind
from broker.model.capacity import Certainty, Comparison
from broker.model.intent import AfterMaxWait, CapacityType, CheckpointFormat, TopologyWish
from broker.model.preparing import ResumeFrom
from broker.model.reasons import FailureClass, Reason
from broker.model.run import CloseRule, Purpose
from broker.model.states import EpochState, PlacementEnd, PlacementState, RunState
from broker.service.wire import members, numbers
from broker.v1 import errors_pb2, event_pb2, intent_pb2, offer_pb2, placement_pb2, run_pb2

REASON = numbers(Reason, errors_pb2.Reason, "REASON")
CAPACITY_TYPE = numbers(CapacityType, intent_pb2.CapacityType, "CAPACITY_TYPE")
AFTER_MAX_WAIT = numbers(AfterMaxWait, intent_pb2.AfterMaxWait, "AFTER_MAX_WAIT")
TOPOLOGY_WISH = numbers(TopologyWish, intent_pb2.TopologyWish, "TOPOLOGY_WISH")
CHECKPOINT_FORMAT = numbers(CheckpointFormat, intent_pb2.CheckpointFormat, "CHECKPOINT_FORMAT")
CERTAINTY = numbers(Certainty, offer_pb2.Certainty, "CERTAINTY")
COMPARISON = numbers(Comparison, offer_pb2.Comparison, "COMPARISON")
RESUME_FROM = numbers(ResumeFrom, offer_pb2.ResumeFrom, "RESUME_FROM")
PURPOSE = numbers(Purpose, placement_pb2.Purpose, "PURPOSE")
PLACEMENT_STATE = numbers(PlacementState, placement_pb2.PlacementState, "PLACEMENT_STATE")
PLACEMENT_END = numbers(PlacementEnd, placement_pb2.PlacementEnd, "PLACEMENT_END")
FAILURE_CLASS = numbers(FailureClass, placement_pb2.FailureClass, "FAILURE_CLASS")
RUN_STATE = numbers(RunState, run_pb2.RunState, "RUN_STATE")
EPOCH_STATE = numbers(EpochState, run_pb2.EpochState, "EPOCH_STATE")
CLOSE_RULE = numbers(CloseRule, run_pb2.CloseRule, "CLOSE_RULE")
ACTOR_KIND = numbers(ActorKind, event_pb2.ActorKind, "ACTOR_KIND")

# The other way round, for the enums that requests hold.
CAPACITY_TYPE_OF = members(CAPACITY_TYPE)
AFTER_MAX_WAIT_OF = members(AFTER_MAX_WAIT)
TOPOLOGY_WISH_OF = members(TOPOLOGY_WISH)
CHECKPOINT_FORMAT_OF = members(CHECKPOINT_FORMAT)
