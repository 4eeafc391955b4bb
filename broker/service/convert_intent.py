"""An intent, from the wire and back.

The rule: what the wire leaves unset takes the default that the proto documents, and nothing is
judged here; ``model.intent_rules`` judges. Read ``intent_of`` first.
"""

from collections.abc import Callable, Mapping, Sequence, Sized
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from google.protobuf.message import Message

from broker.model.intent import (
    CheckpointSpec,
    HardwareOption,
    Input,
    Intent,
    Limits,
    ProgressSpec,
    Resources,
    SecretRef,
    Terms,
    Workload,
)
from broker.service import enums, fields, wire
from broker.service.errors import invalid
from broker.service.wire import member
from broker.v1 import intent_pb2

_REPEATED_MAX = 1_000  # entries of any repeated field; the rules ask for less
# What carries its unit in the model's name alone.
_NAMES = {
    "max_wait": "max_wait_s",
    "max_requeue_wait": "max_requeue_wait_s",
    "deadline": "deadline_wall_s",
    "expected_duration": "expected_duration_s",
    "interval": "interval_s",
    "timeout": "timeout_s",
}

Reader = Callable[[Any, str], Any]  # of a field's value, and of its path for a refusal


def intent_of(message: intent_pb2.Intent, *, team: str, owner: str, field: str) -> Intent:
    """Return the intent of a request; ``owner`` is who asks, for one that names nobody.

    Raises InvalidArgument for what no intent could hold.
    """
    found: dict[str, Any] = _READ_INTENT(message, field)
    return Intent(team=team, **{"owner": owner, **found})


def terms_of(message: intent_pb2.Terms, field: str) -> Terms:
    """Return the terms of a request. Raises InvalidArgument."""
    terms: Terms = _READ_TERMS(message, field)
    return terms


def _message(
    make: Callable[..., Any],
    *plain: str,
    read: Mapping[str, Reader] = MappingProxyType({}),
    unset: Mapping[str, Any] = MappingProxyType({}),
) -> Reader:
    """Return the reader of a message: it calls ``make`` with the fields that are set.

    Those that are not set are not looked at, for every submit comes through here. ``plain`` are
    taken as they are, ``unset`` is what the model has no default for.
    """
    table = {name: (_NAMES.get(name, name), one) for name, one in read.items()}
    table |= {name: (name, _as_it_is) for name in plain}

    def read_message(message: Message, field: str) -> Any:
        found = dict(unset)
        for descriptor, value in message.ListFields():
            name, read_field = table[descriptor.name]
            found[name] = read_field(value, f"{field}.{descriptor.name}")
        return make(**found)

    return read_message


def _each(read: Reader) -> Reader:
    """Return the reader of a repeated field, made of the reader of one entry."""

    def read_all(values: Sequence[Any], field: str) -> tuple[Any, ...]:
        _bound(values, field)
        return tuple([read(value, f"{field}[{i}]") for i, value in enumerate(values)])

    return read_all


def _member(known: Mapping[int, StrEnum]) -> Reader:
    return lambda number, field: member(known, number, field)


def _as_it_is(value: Any, _: str) -> Any:
    return value


def _texts(values: Sequence[str], field: str) -> tuple[str, ...]:
    _bound(values, field)
    return tuple(values)


def _pairs(values: Mapping[str, str], field: str) -> tuple[tuple[str, str], ...]:
    _bound(values, field)
    return tuple(sorted(values.items()))


def _bound(values: Sized, field: str) -> None:
    if len(values) > _REPEATED_MAX:
        raise invalid(field, f"has {len(values)} entries; the most is {_REPEATED_MAX}")


_READ_TERMS = _message(
    Terms,
    "priority",
    read={
        "capacity_types": _each(_member(enums.CAPACITY_TYPE_OF)),
        "regions": _texts,
        "residency": _texts,
        "max_wait": fields.duration_s,
        "after_max_wait": _member(enums.AFTER_MAX_WAIT_OF),
        "max_requeue_wait": fields.duration_s,
        "deadline": fields.wall_s,
        "expected_duration": fields.duration_s,
        "budget": fields.money,
        "copies_budget": fields.money,
        "limits": _message(Limits, "user_restarts", "infrastructure_losses"),
    },
    unset={"capacity_types": ()},
)
_READ_HARDWARE = _message(
    HardwareOption,
    "accelerator",
    "accelerators_per_node",
    "nodes",
    read={"relative_speed": fields.finite, "topology": _member(enums.TOPOLOGY_WISH_OF)},
    unset={"accelerator": "", "accelerators_per_node": 0, "nodes": 0},
)
_READ_INPUT = _message(
    Input,
    "uri",
    "size_bytes",
    "remote_reads",
    read={"regions": _texts},
    unset={"uri": "", "size_bytes": 0, "regions": (), "remote_reads": False},
)
_READ_CHECKPOINT = _message(
    CheckpointSpec,
    "keep_last",
    "keep_every_steps",
    read={"format": _member(enums.CHECKPOINT_FORMAT_OF), "interval": fields.duration_s},
)
_READ_WORKLOAD = _message(
    Workload,
    "image",
    "bundle_digest",
    "service_account",
    "internet",
    "service_account_token",
    read={
        "command": _texts,
        "hardware": _each(_READ_HARDWARE),
        "env": _pairs,
        "resources": _message(Resources, "cpu_millis", "memory_bytes"),
        "secrets": _each(_message(SecretRef, "name", "env", "mount_path", unset={"name": ""})),
        "inputs": _each(_READ_INPUT),
        "checkpoint": _READ_CHECKPOINT,
        "progress": _message(ProgressSpec, "loss_field", read={"timeout": fields.duration_s}),
    },
    unset={"command": (), "hardware": ()},
)
_READ_INTENT = _message(
    dict,
    "owner",
    read={"workload": _READ_WORKLOAD, "terms": _READ_TERMS, "labels": _pairs},
    unset={
        "workload": Workload(command=(), hardware=()),
        "terms": Terms(capacity_types=()),
    },
)


def intent_message(intent: Intent) -> intent_pb2.Intent:
    """Return an intent for the wire, its defaults filled in."""
    return intent_pb2.Intent(
        workload=_workload_message(intent.workload),
        terms=terms_message(intent.terms),
        owner=intent.owner,
        labels=dict(intent.labels),
    )


def terms_message(terms: Terms) -> intent_pb2.Terms:
    """Return terms for the wire, their defaults filled in."""
    message = intent_pb2.Terms(
        capacity_types=[enums.CAPACITY_TYPE[one] for one in terms.capacity_types],
        regions=terms.regions,
        residency=terms.residency,
        after_max_wait=enums.AFTER_MAX_WAIT[terms.after_max_wait],
        priority=terms.priority,
        limits=intent_pb2.Limits(
            user_restarts=terms.limits.user_restarts,
            infrastructure_losses=terms.limits.infrastructure_losses,
        ),
    )
    _tell_times(message, terms)
    if terms.budget is not None:
        message.budget.CopyFrom(wire.money(terms.budget))
    if terms.copies_budget is not None:
        message.copies_budget.CopyFrom(wire.money(terms.copies_budget))
    return message


def _tell_times(message: intent_pb2.Terms, terms: Terms) -> None:
    if terms.max_wait_s is not None:
        message.max_wait.CopyFrom(wire.duration(terms.max_wait_s))
    if terms.max_requeue_wait_s is not None:
        message.max_requeue_wait.CopyFrom(wire.duration(terms.max_requeue_wait_s))
    if terms.deadline_wall_s is not None:
        message.deadline.CopyFrom(wire.timestamp(terms.deadline_wall_s))
    if terms.expected_duration_s is not None:
        message.expected_duration.CopyFrom(wire.duration(terms.expected_duration_s))


def _workload_message(workload: Workload) -> intent_pb2.Workload:
    return intent_pb2.Workload(
        command=workload.command,
        hardware=[
            intent_pb2.HardwareOption(
                accelerator=option.accelerator,
                accelerators_per_node=option.accelerators_per_node,
                nodes=option.nodes,
                relative_speed=option.relative_speed,
                topology=enums.TOPOLOGY_WISH[option.topology],
            )
            for option in workload.hardware
        ],
        image=workload.image,
        env=dict(workload.env),
        bundle_digest=workload.bundle_digest,
        resources=intent_pb2.Resources(
            cpu_millis=workload.resources.cpu_millis,
            memory_bytes=workload.resources.memory_bytes,
        ),
        secrets=[
            intent_pb2.SecretRef(name=one.name, env=one.env, mount_path=one.mount_path)
            for one in workload.secrets
        ],
        service_account=workload.service_account,
        inputs=[
            intent_pb2.Input(
                uri=one.uri,
                size_bytes=one.size_bytes,
                regions=one.regions,
                remote_reads=one.remote_reads,
            )
            for one in workload.inputs
        ],
        checkpoint=_checkpoint_message(workload.checkpoint),
        progress=_progress_message(workload.progress),
        internet=workload.internet,
        service_account_token=workload.service_account_token,
    )


def _checkpoint_message(spec: CheckpointSpec) -> intent_pb2.CheckpointSpec:
    message = intent_pb2.CheckpointSpec(
        format=enums.CHECKPOINT_FORMAT[spec.format], keep_last=spec.keep_last
    )
    if spec.interval_s is not None:
        message.interval.CopyFrom(wire.duration(spec.interval_s))
    if spec.keep_every_steps is not None:
        message.keep_every_steps = spec.keep_every_steps
    return message


def _progress_message(spec: ProgressSpec) -> intent_pb2.ProgressSpec:
    message = intent_pb2.ProgressSpec(loss_field=spec.loss_field)
    if spec.timeout_s is not None:
        message.timeout.CopyFrom(wire.duration(spec.timeout_s))
    return message


def complete(full: intent_pb2.Intent, message: intent_pb2.Intent, intent: Intent) -> None:
    """Make ``full`` what ``intent_message(intent)`` would be, from what ``intent`` came from.

    It copies and fills in, which is several times as fast; a property test holds that the two
    are equal. ``submit`` answers with it.
    """
    full.CopyFrom(message)
    full.DiscardUnknownFields()
    full.owner = intent.owner
    workload = full.workload
    for option in workload.hardware:
        if not option.HasField("relative_speed"):
            option.relative_speed = 1.0
        option.topology = option.topology or intent_pb2.TOPOLOGY_WISH_NONE
    workload.resources.SetInParent()
    _complete_saving(workload.checkpoint, intent.workload.checkpoint)
    progress = intent.workload.progress
    workload.progress.loss_field = progress.loss_field
    if progress.timeout_s is not None:
        workload.progress.timeout.CopyFrom(wire.duration(progress.timeout_s))
    _complete_terms(full.terms, intent.terms)


def _complete_saving(message: intent_pb2.CheckpointSpec, saving: CheckpointSpec) -> None:
    message.format = message.format or intent_pb2.CHECKPOINT_FORMAT_FILES
    message.keep_last = saving.keep_last
    if saving.interval_s is not None:
        message.interval.CopyFrom(wire.duration(saving.interval_s))


def _complete_terms(message: intent_pb2.Terms, terms: Terms) -> None:
    message.after_max_wait = message.after_max_wait or intent_pb2.AFTER_MAX_WAIT_KEEP_WAITING
    limits = message.limits
    limits.user_restarts = terms.limits.user_restarts
    limits.infrastructure_losses = terms.limits.infrastructure_losses
    _tell_times(message, terms)
    if terms.budget is not None:
        message.budget.currency_code = "USD"
    if terms.copies_budget is not None:
        message.copies_budget.currency_code = "USD"
