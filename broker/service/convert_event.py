"""Events of a run, for the wire.

The rule: an event's fields are told by their names, each name by one row of a table; a name in
neither table is an omission, which a test finds. Read ``event_message`` first.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields as dataclass_fields
from decimal import Decimal
from typing import Any, get_args

from broker.history import events as e
from broker.model.bill import Bill
from broker.model.checkpoint import CheckpointRef, EpochId
from broker.model.names import placement_name
from broker.model.run import Site
from broker.model.states import RunState
from broker.service import enums, wire
from broker.service.convert_run import arrival_message, place_message, rank_end_message
from broker.service.sentences import sentence_for
from broker.service.wire import Axis
from broker.v1 import event_pb2, offer_pb2

EVENT_TYPES: Mapping[type[object], event_pb2.EventType.ValueType] = {
    kind: event_pb2.EventType.Value(
        "EVENT_TYPE" + "".join(f"_{c}" if c.isupper() else c.upper() for c in kind.__name__)
    )
    for kind in get_args(e.RunEvent)
}


def event_message(recorded: e.Recorded) -> event_pb2.Event:
    """Return one event of a run's stream."""
    event = recorded.event
    message = event_pb2.Event(
        sequence=recorded.stream_version,
        time=wire.timestamp(recorded.at.wall_s),
        actor=event_pb2.Actor(kind=enums.ACTOR_KIND[recorded.actor.kind], name=recorded.actor.name),
        type=EVENT_TYPES[type(event)],
        message=sentence_for(event),  # type: ignore[arg-type]  # a run's stream holds run events
    )
    for name in _NAMES[type(event)]:
        value = getattr(event, name)
        if value is not None:
            _TOLD[name](message, value, recorded)
    return message


_Tell = Callable[[event_pb2.Event, Any, e.Recorded], None]

# What is told in another way, or is of no use to a client.
UNTOLD = frozenset(
    {
        "body_digest", "by", "cluster_uid", "evidence", "expected_s", "field",
        "fork_checkpoint", "forked_from", "from_start", "generation", "gone_s", "grace_s",
        "held_for", "image", "intent", "is_bad", "is_charged", "is_owed", "is_pinned", "label",
        "machines_end_s",
        "message", "name", "next_epoch", "nodes", "nonces", "patience_s", "request_id", "rule",
        "seals", "sent_bytes", "size_bytes", "source", "terms", "uid",
        "why", "word", "written_wall_s",
    }
)  # fmt: skip


_NAMES: Mapping[type[object], tuple[str, ...]] = {
    kind: tuple(f.name for f in dataclass_fields(kind) if f.name not in UNTOLD)
    for kind in get_args(e.RunEvent)
}


def _placement(message: event_pb2.Event, value: str, recorded: e.Recorded) -> None:
    message.placement = placement_name(recorded.stream, value)


def _site(message: event_pb2.Event, value: Site, _: e.Recorded) -> None:
    message.place.CopyFrom(place_message(value))


def _region(message: event_pb2.Event, value: str, _: e.Recorded) -> None:
    message.place.CopyFrom(offer_pb2.Place(region=value))


def _epoch(message: event_pb2.Event, value: EpochId, _: e.Recorded) -> None:
    message.epoch = value.number


def _state(message: event_pb2.Event, value: Any, _: e.Recorded) -> None:
    if isinstance(value, RunState):
        message.run_state = enums.RUN_STATE[value]
    else:
        message.placement_state = enums.PLACEMENT_STATE[value]


def _ref(message: event_pb2.Event, value: CheckpointRef, _: e.Recorded) -> None:
    message.step = value.step
    message.epoch = message.epoch or value.epoch.number


def _resume_from(message: event_pb2.Event, value: CheckpointRef, _: e.Recorded) -> None:
    message.step = value.step


def _checkpoints(message: event_pb2.Event, value: tuple[CheckpointRef, ...], _: e.Recorded) -> None:
    message.sealed_steps.extend(ref.step for ref in value)


def _time(message: event_pb2.Event, value: float, recorded: e.Recorded) -> None:
    message.next_time.CopyFrom(Axis(recorded.at).time(value))


def _bill(message: event_pb2.Event, value: Bill, _: e.Recorded) -> None:
    message.cost.CopyFrom(wire.money(value.cost.total))


def _usd(message: event_pb2.Event, value: Decimal, _: e.Recorded) -> None:
    if value:
        message.cost.CopyFrom(wire.money(value))


def _plain(name: str) -> _Tell:
    def tell(message: event_pb2.Event, value: object, _: e.Recorded) -> None:
        setattr(message, name, value)

    return tell


def _enum(name: str, numbers: Mapping[Any, int]) -> _Tell:
    def tell(message: event_pb2.Event, value: object, _: e.Recorded) -> None:
        setattr(message, name, numbers[value])

    return tell


_TOLD: Mapping[str, _Tell] = {
    "action": _plain("next_action"),
    "arrival": lambda message, value, _: message.arrival.CopyFrom(arrival_message(value)),
    "bill": _bill,
    "cause": _enum("reason", enums.REASON),
    "checkpoints": _checkpoints,
    "deadline_s": _time,
    "end": _enum("placement_end", enums.PLACEMENT_END),
    "ends": lambda message, value, _: message.ends.extend(rank_end_message(x) for x in value),
    "epoch": _epoch,
    "failure": _enum("failure_class", enums.FAILURE_CLASS),
    "loss": _plain("loss"),
    "next_action": _plain("next_action"),
    "next_at_s": _time,
    "placement": _placement,
    "purpose": _enum("purpose", enums.PURPOSE),
    "reason": _enum("reason", enums.REASON),
    "ref": _ref,
    "region": _region,
    "report_by_s": _time,
    "resume_from": _resume_from,
    "site": _site,
    "state": _state,
    "step": _plain("step"),
    "usd": _usd,
}
TOLD = frozenset(_TOLD)
