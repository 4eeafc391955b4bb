"""An intent, from the wire and back.

The rule: what the wire leaves unset takes the default that the proto documents, and nothing is
judged here; ``model.intent_rules`` judges. Read ``intent_of`` first.
"""

from broker.model.intent import (
    AfterMaxWait,
    CheckpointFormat,
    CheckpointSpec,
    HardwareOption,
    Input,
    Intent,
    Limits,
    ProgressSpec,
    Resources,
    SecretRef,
    Terms,
    TopologyWish,
    Workload,
)
from broker.service import enums, fields, wire
from broker.service.errors import invalid
from broker.service.wire import member
from broker.v1 import intent_pb2

_REPEATED_MAX = 1_000  # entries of any repeated field; the rules ask for less
_LIMITS, _SAVING, _TELLING, _RESOURCES = Limits(), CheckpointSpec(), ProgressSpec(), Resources()


def intent_of(message: intent_pb2.Intent, *, team: str, owner: str, field: str) -> Intent:
    """Return the intent of a request; ``owner`` is who asks, for one that names nobody.

    Raises InvalidArgument for what no intent could hold. Sub-messages that are absent are not
    looked into, for every submit comes through here.
    """
    _bound(message, ("labels",), field)
    return Intent(
        team=team,
        owner=message.owner or owner,
        workload=_workload(message.workload, f"{field}.workload"),
        terms=terms_of(message.terms, f"{field}.terms"),
        labels=tuple(sorted(message.labels.items())),
    )


def terms_of(message: intent_pb2.Terms, field: str) -> Terms:
    """Return the terms of a request. Raises InvalidArgument."""
    _bound(message, ("capacity_types", "regions", "residency"), field)
    has = message.HasField
    after = message.after_max_wait
    return Terms(
        capacity_types=tuple(
            [
                member(enums.CAPACITY_TYPE_OF, number, field, f"capacity_types[{i}]")
                for i, number in enumerate(message.capacity_types)
            ]
        ),
        regions=tuple(message.regions),
        residency=tuple(message.residency),
        max_wait_s=_seconds(message, "max_wait", field),
        after_max_wait=member(enums.AFTER_MAX_WAIT_OF, after, field, "after_max_wait")
        if after
        else AfterMaxWait.KEEP_WAITING,
        max_requeue_wait_s=_seconds(message, "max_requeue_wait", field),
        deadline_wall_s=fields.wall_s(message.deadline, f"{field}.deadline")
        if has("deadline")
        else None,
        expected_duration_s=_seconds(message, "expected_duration", field),
        budget=fields.money(message.budget, f"{field}.budget") if has("budget") else None,
        priority=message.priority,
        limits=_limits(message.limits) if has("limits") else _LIMITS,
    )


def _seconds(
    message: intent_pb2.Terms | intent_pb2.CheckpointSpec | intent_pb2.ProgressSpec,
    name: str,
    within: str,
) -> float | None:
    if not message.HasField(name):  # type: ignore[arg-type]  # a duration of each caller's own
        return None
    return fields.duration_s(getattr(message, name), f"{within}.{name}")


def _limits(message: intent_pb2.Limits) -> Limits:
    has = message.HasField
    return Limits(
        user_restarts=message.user_restarts if has("user_restarts") else _LIMITS.user_restarts,
        infrastructure_losses=message.infrastructure_losses
        if has("infrastructure_losses")
        else _LIMITS.infrastructure_losses,
    )


def _workload(message: intent_pb2.Workload, field: str) -> Workload:
    _bound(message, ("command", "hardware", "env", "secrets", "inputs"), field)
    has = message.HasField
    return Workload(
        command=tuple(message.command),
        hardware=tuple(
            [_hardware(one, f"{field}.hardware[{i}]") for i, one in enumerate(message.hardware)]
        ),
        image=message.image,
        env=tuple(sorted(message.env.items())),
        bundle_digest=message.bundle_digest,
        resources=_resources(message.resources) if has("resources") else _RESOURCES,
        secrets=tuple(
            [
                SecretRef(name=one.name, env=one.env, mount_path=one.mount_path)
                for one in message.secrets
            ]
        ),
        service_account=message.service_account,
        inputs=tuple([_input(one) for one in message.inputs]),
        checkpoint=_checkpoint(message.checkpoint, f"{field}.checkpoint")
        if has("checkpoint")
        else _SAVING,
        progress=_progress(message.progress, f"{field}.progress") if has("progress") else _TELLING,
    )


def _resources(message: intent_pb2.Resources) -> Resources:
    return Resources(cpu_millis=message.cpu_millis, memory_bytes=message.memory_bytes)


def _input(message: intent_pb2.Input) -> Input:
    return Input(
        uri=message.uri,
        size_bytes=message.size_bytes,
        regions=tuple(message.regions),
        remote_reads=message.remote_reads,
    )


def _hardware(message: intent_pb2.HardwareOption, field: str) -> HardwareOption:
    return HardwareOption(
        accelerator=message.accelerator,
        accelerators_per_node=message.accelerators_per_node,
        nodes=message.nodes,
        relative_speed=fields.finite(message.relative_speed, f"{field}.relative_speed")
        if message.HasField("relative_speed")
        else 1.0,
        topology=member(enums.TOPOLOGY_WISH_OF, message.topology, field, "topology")
        if message.topology
        else TopologyWish.NONE,
    )


def _checkpoint(message: intent_pb2.CheckpointSpec, field: str) -> CheckpointSpec:
    has = message.HasField
    return CheckpointSpec(
        format=member(enums.CHECKPOINT_FORMAT_OF, message.format, field, "format")
        if message.format
        else CheckpointFormat.FILES,
        interval_s=_seconds(message, "interval", field),
        keep_last=message.keep_last if has("keep_last") else _SAVING.keep_last,
        keep_every_steps=message.keep_every_steps if has("keep_every_steps") else None,
    )


def _progress(message: intent_pb2.ProgressSpec, field: str) -> ProgressSpec:
    return ProgressSpec(
        timeout_s=_seconds(message, "timeout", field),
        loss_field=message.loss_field or _TELLING.loss_field,
    )


def _bound(
    message: intent_pb2.Intent | intent_pb2.Terms | intent_pb2.Workload,
    names: tuple[str, ...],
    within: str,
) -> None:
    for name in names:
        count = len(getattr(message, name))
        if count > _REPEATED_MAX:
            problem = f"has {count} entries; the most is {_REPEATED_MAX}"
            raise invalid(f"{within}.{name}", problem)


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


def completed(message: intent_pb2.Intent, intent: Intent) -> intent_pb2.Intent:
    """Return what ``intent_message(intent)`` would, from the message that ``intent`` came from.

    It copies and fills in, which is several times as fast; a property test holds that the two
    are equal. ``submit`` answers with it.
    """
    full = intent_pb2.Intent()
    full.CopyFrom(message)
    full.DiscardUnknownFields()
    full.owner = intent.owner
    for option in full.workload.hardware:
        if not option.HasField("relative_speed"):
            option.relative_speed = 1.0
        option.topology = option.topology or intent_pb2.TOPOLOGY_WISH_NONE
    full.workload.resources.SetInParent()
    _complete_saving(full.workload.checkpoint, intent.workload.checkpoint)
    progress = intent.workload.progress
    full.workload.progress.loss_field = progress.loss_field
    if progress.timeout_s is not None:
        full.workload.progress.timeout.CopyFrom(wire.duration(progress.timeout_s))
    _complete_terms(full.terms, intent.terms)
    return full


def _complete_saving(message: intent_pb2.CheckpointSpec, saving: CheckpointSpec) -> None:
    message.format = message.format or intent_pb2.CHECKPOINT_FORMAT_FILES
    message.keep_last = saving.keep_last
    if saving.interval_s is not None:
        message.interval.CopyFrom(wire.duration(saving.interval_s))


def _complete_terms(message: intent_pb2.Terms, terms: Terms) -> None:
    message.after_max_wait = message.after_max_wait or intent_pb2.AFTER_MAX_WAIT_KEEP_WAITING
    message.limits.user_restarts = terms.limits.user_restarts
    message.limits.infrastructure_losses = terms.limits.infrastructure_losses
    _tell_times(message, terms)
    if terms.budget is not None:
        message.budget.currency_code = "USD"
