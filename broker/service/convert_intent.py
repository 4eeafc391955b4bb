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


def intent_of(message: intent_pb2.Intent, *, team: str, owner: str, field: str) -> Intent:
    """Return the intent of a request; ``owner`` is who asks, for one that names nobody.

    Raises InvalidArgument for what no intent could hold.
    """
    _bound(len(message.labels), f"{field}.labels")
    return Intent(
        team=team,
        owner=message.owner or owner,
        workload=_workload(message.workload, f"{field}.workload"),
        terms=terms_of(message.terms, f"{field}.terms"),
        labels=tuple(sorted(message.labels.items())),
    )


def terms_of(message: intent_pb2.Terms, field: str) -> Terms:
    """Return the terms of a request. Raises InvalidArgument."""
    for name in ("capacity_types", "regions", "residency"):
        _bound(len(getattr(message, name)), f"{field}.{name}")
    has, limits = message.HasField, message.limits
    return Terms(
        capacity_types=tuple(
            member(enums.CAPACITY_TYPE, number, f"{field}.capacity_types[{i}]")
            for i, number in enumerate(message.capacity_types)
        ),
        regions=tuple(message.regions),
        residency=tuple(message.residency),
        max_wait_s=fields.duration_s(message.max_wait, f"{field}.max_wait")
        if has("max_wait")
        else None,
        after_max_wait=member(
            enums.AFTER_MAX_WAIT, message.after_max_wait, f"{field}.after_max_wait"
        )
        if message.after_max_wait
        else AfterMaxWait.KEEP_WAITING,
        max_requeue_wait_s=fields.duration_s(message.max_requeue_wait, f"{field}.max_requeue_wait")
        if has("max_requeue_wait")
        else None,
        deadline_wall_s=fields.wall_s(message.deadline, f"{field}.deadline")
        if has("deadline")
        else None,
        expected_duration_s=fields.duration_s(
            message.expected_duration, f"{field}.expected_duration"
        )
        if has("expected_duration")
        else None,
        budget=fields.money(message.budget, f"{field}.budget") if has("budget") else None,
        priority=message.priority,
        limits=_limits(limits) if has("limits") else Limits(),
    )


def _limits(message: intent_pb2.Limits) -> Limits:
    default = Limits()
    return Limits(
        user_restarts=message.user_restarts
        if message.HasField("user_restarts")
        else default.user_restarts,
        infrastructure_losses=message.infrastructure_losses
        if message.HasField("infrastructure_losses")
        else default.infrastructure_losses,
    )


def _workload(message: intent_pb2.Workload, field: str) -> Workload:
    for name in ("command", "hardware", "env", "secrets", "inputs"):
        _bound(len(getattr(message, name)), f"{field}.{name}")
    return Workload(
        command=tuple(message.command),
        hardware=tuple(
            _hardware(option, f"{field}.hardware[{i}]") for i, option in enumerate(message.hardware)
        ),
        image=message.image,
        env=tuple(sorted(message.env.items())),
        bundle_digest=message.bundle_digest,
        resources=Resources(
            cpu_millis=message.resources.cpu_millis,
            memory_bytes=message.resources.memory_bytes,
        ),
        secrets=tuple(
            SecretRef(name=secret.name, env=secret.env, mount_path=secret.mount_path)
            for secret in message.secrets
        ),
        service_account=message.service_account,
        inputs=tuple(
            Input(
                uri=one.uri,
                size_bytes=one.size_bytes,
                regions=tuple(one.regions),
                remote_reads=one.remote_reads,
            )
            for one in message.inputs
        ),
        checkpoint=_checkpoint(message.checkpoint, f"{field}.checkpoint"),
        progress=ProgressSpec(
            timeout_s=fields.duration_s(message.progress.timeout, f"{field}.progress.timeout")
            if message.progress.HasField("timeout")
            else None,
            loss_field=message.progress.loss_field or ProgressSpec().loss_field,
        ),
    )


def _hardware(message: intent_pb2.HardwareOption, field: str) -> HardwareOption:
    return HardwareOption(
        accelerator=message.accelerator,
        accelerators_per_node=message.accelerators_per_node,
        nodes=message.nodes,
        relative_speed=fields.finite(message.relative_speed, f"{field}.relative_speed")
        if message.HasField("relative_speed")
        else 1.0,
        topology=member(enums.TOPOLOGY_WISH, message.topology, f"{field}.topology")
        if message.topology
        else TopologyWish.NONE,
    )


def _checkpoint(message: intent_pb2.CheckpointSpec, field: str) -> CheckpointSpec:
    return CheckpointSpec(
        format=member(enums.CHECKPOINT_FORMAT, message.format, f"{field}.format")
        if message.format
        else CheckpointFormat.FILES,
        interval_s=fields.duration_s(message.interval, f"{field}.interval")
        if message.HasField("interval")
        else None,
        keep_last=message.keep_last
        if message.HasField("keep_last")
        else CheckpointSpec().keep_last,
        keep_every_steps=message.keep_every_steps if message.HasField("keep_every_steps") else None,
    )


def _bound(count: int, field: str) -> None:
    if count > _REPEATED_MAX:
        raise invalid(field, f"has {count} entries; the most is {_REPEATED_MAX}")


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
    if terms.max_wait_s is not None:
        message.max_wait.CopyFrom(wire.duration(terms.max_wait_s))
    if terms.max_requeue_wait_s is not None:
        message.max_requeue_wait.CopyFrom(wire.duration(terms.max_requeue_wait_s))
    if terms.deadline_wall_s is not None:
        message.deadline.CopyFrom(wire.timestamp(terms.deadline_wall_s))
    if terms.expected_duration_s is not None:
        message.expected_duration.CopyFrom(wire.duration(terms.expected_duration_s))
    if terms.budget is not None:
        message.budget.CopyFrom(wire.money(terms.budget))
    return message


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
