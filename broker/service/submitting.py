"""Runs that begin: submitted, forked, or only estimated.

The rule: the request's own bytes, without its request id, are what a repeated request id is
compared by. What the message says is turned into one command; the ledger decides. Read
``submit`` first.
"""

import hashlib
from dataclasses import replace
from functools import partial

from broker.history.commands import MarkCheckpoint, SubmitRun
from broker.history.events import Recorded, Submitted
from broker.history.evolve import evolve
from broker.history.lineage import nameable, nameable_in_words, resumable
from broker.history.refusals import Refused
from broker.model import names
from broker.model.actor import Actor
from broker.model.checkpoint import Checkpoint
from broker.model.intent import Intent
from broker.model.reasons import Reason
from broker.model.run import Run
from broker.service import fields
from broker.service.convert_intent import complete, intent_message, intent_of
from broker.service.convert_offer import estimate_message
from broker.service.convert_run import run_message, tell_run
from broker.service.errors import InvalidArgument, Violation, invalid, not_found
from broker.service.gathering import whole_refusal
from broker.service.judging import intent_violations
from broker.service.manifests import foreseen
from broker.service.ports import Ports
from broker.v1 import run_pb2, run_service_pb2

UID_LENGTH = 20
DRAWN_ID_LENGTH = 8
UNNAMED = "unnamed"  # the id in the answer of validate_only, which names no run


async def submit(
    ports: Ports, request: run_service_pb2.SubmitRunRequest, actor: Actor
) -> run_service_pb2.SubmitRunResponse:
    """Create a run, or say where it would go."""
    try:
        team = fields.team_id(request.parent)
        request_id = fields.request_id(request.request_id)
        run_id = _run_id(request)
        _check_manifest(request)
        if not request.HasField("intent"):
            raise invalid("intent", "is required")
        intent = intent_of(request.intent, team=team, owner=actor.name, field="intent")
    except InvalidArgument as first:
        raise _whole_refusal(ports, request, request.parent, actor) from first
    command = SubmitRun(
        name=_name(ports, team, run_id, is_real=not request.validate_only),
        uid=_asked_uid(request) if request.validate_only else ports.draw(UID_LENGTH),
        intent=intent,
        request_id=request_id,
        body_digest=_body_digest(request),
    )
    if request.validate_only:
        await _judge(ports, command, intent_violations(ports, intent))
        return _estimate(ports, command, actor, with_manifest=request.manifest)
    await _judge(ports, command, _violations(ports, intent))
    run = await _create(ports, command, actor)
    response = run_service_pb2.SubmitRunResponse()
    if run.intent == intent:
        complete(response.run.intent, request.intent, intent)
    else:
        # The same request made it, perhaps long ago and with other terms by now.
        response.run.intent.CopyFrom(intent_message(run.intent))
    tell_run(response.run, run, ports.clock.now())
    return response


async def fork(ports: Ports, request: run_service_pb2.ForkRunRequest, actor: Actor) -> run_pb2.Run:
    """Create a run that begins with a checkpoint of another."""
    parent_name = fields.run_name(request.name)
    request_id = fields.request_id(request.request_id)
    parent = ports.log.run(parent_name)
    if parent is None:
        raise not_found(parent_name)
    team, intent = parent.intent.team, _as_it_ran(parent)
    try:
        run_id = _run_id(request)
        if request.HasField("intent"):
            intent = intent_of(request.intent, team=team, owner=actor.name, field="intent")
    except InvalidArgument as first:
        if not request.HasField("intent"):
            raise
        raise _whole_refusal(ports, request, f"teams/{team}", actor) from first
    command = SubmitRun(
        name=_name(ports, team, run_id, is_real=True),
        uid=ports.draw(UID_LENGTH),
        intent=intent,
        request_id=request_id,
        body_digest=_body_digest(request),
        forked_from=parent_name,
    )
    if request.HasField("intent"):
        await _judge(ports, command, _violations(ports, intent))
    if not await _was_made(ports, command):
        command = await _with_seed(ports, parent, request, command, actor)
    return run_message(await _create(ports, command, actor), ports.clock.now())


def _whole_refusal(
    ports: Ports,
    request: run_service_pb2.SubmitRunRequest | run_service_pb2.ForkRunRequest,
    parent: str,
    actor: Actor,
) -> InvalidArgument:
    """Return all that is wrong with a request that was refused for the first of it."""

    def has_intent() -> None:
        if isinstance(request, run_service_pb2.SubmitRunRequest) and not request.HasField("intent"):
            raise invalid("intent", "is required")

    beside = (
        lambda: fields.team_id(parent),
        lambda: fields.request_id(request.request_id),
        lambda: _run_id(request),
        lambda: _check_manifest(request),
        has_intent,
    )
    team = parent.removeprefix("teams/")
    convert = partial(intent_of, team=team, owner=actor.name, field="intent")
    return whole_refusal(
        request.intent,
        "intent",
        convert=convert,
        judge=partial(intent_violations, ports),
        beside=beside,
    )


def _violations(ports: Ports, intent: Intent) -> tuple[Violation, ...]:
    """Return the rules that an intent breaks, and whether any place could ever take it."""
    broken = intent_violations(ports, intent)
    misfit = None if broken else ports.explainer.never_fits(intent)
    if misfit is None:
        return broken
    field = "intent.workload.hardware"
    return (Violation(field=field, message=misfit.message, reason=Reason.NEVER_FITS),)


async def _judge(ports: Ports, command: SubmitRun, violations: tuple[Violation, ...]) -> None:
    """Refuse an intent that breaks a rule, unless this very request made a run before.

    A deadline that has passed since, or a region that was taken away, must not turn the repetition
    of a request into a refusal (law 2).
    """
    if violations and not await _was_made(ports, command):
        raise InvalidArgument(violations)


async def _was_made(ports: Ports, command: SubmitRun) -> bool:
    if not command.request_id:
        return False
    known = await ports.log.run_by_request(command.intent.team, command.request_id)
    return known is not None and known[1] == command.body_digest


async def _create(ports: Ports, command: SubmitRun, actor: Actor) -> Run:
    name = await ports.log.submit(command, actor)
    run = ports.log.run(name)
    if run is None:
        raise not_found(name)  # retention took it between the two
    return run


async def _with_seed(
    ports: Ports,
    parent: Run,
    request: run_service_pb2.ForkRunRequest,
    command: SubmitRun,
    actor: Actor,
) -> SubmitRun:
    """Return the command with the checkpoint to begin with, held where it was written first."""
    seed = _seed(parent, request)
    if seed is None:
        return command
    owner = _owner(ports, parent, seed)
    if owner is not None:
        hold = MarkCheckpoint(step=seed.ref.step, hold_for=command.name)
        await ports.log.handle(owner.name, hold, actor)
    ref = replace(seed.ref, run_uid=seed.ref.run_uid or parent.uid)
    return replace(command, fork_checkpoint=replace(seed, ref=ref, holds=()))


def _as_it_ran(parent: Run) -> Intent:
    """Return the intent of a run with what its image was found to be: a fork runs the same."""
    intent = parent.intent
    if parent.image is None:
        return intent
    return replace(intent, workload=replace(intent.workload, image=parent.image.name))


def _owner(ports: Ports, parent: Run, seed: Checkpoint) -> Run | None:
    """Return the run that wrote a checkpoint: the parent, or one that it descends from."""
    run: Run | None = parent
    while run is not None and seed.ref.run_uid not in ("", run.uid):
        run = ports.log.run(run.forked_from) if run.forked_from else None
    return run


def _seed(parent: Run, request: run_service_pb2.ForkRunRequest) -> Checkpoint | None:
    match request.WhichOneof("from"):
        case "beginning":
            if not request.beginning:
                raise invalid("beginning", "must be true when it is given")
            return None
        case "step":
            step = fields.not_negative(request.step, "step")
            seed = next((c for c in nameable(parent) if c.ref.step == step), None)
            if seed is None:
                raise no_checkpoint(parent, step)
            return seed
        case _:
            # What the parent was told to go back from is not what its fork begins with.
            is_going_back = parent.resume_wish is not None
            return next(iter(resumable(parent) if is_going_back else nameable(parent)), None)


def no_checkpoint(run: Run, step: int) -> Refused:
    """Return the refusal of a step without a checkpoint that counts."""
    return Refused(
        reason=Reason.CHECKPOINT_NOT_AVAILABLE,
        message=f"step {step} has no complete checkpoint that counts and is not bad;"
        f" {nameable_in_words(run)}",
        field="step",
    )


def _estimate(
    ports: Ports, command: SubmitRun, actor: Actor, *, with_manifest: bool
) -> run_service_pb2.SubmitRunResponse:
    """Answer as if the run had been submitted, without telling anyone."""
    now = ports.clock.now()
    submitted = Submitted(
        name=command.name,
        uid=command.uid,
        intent=command.intent,
        request_id=command.request_id,
        body_digest=command.body_digest,
    )
    recorded = Recorded(
        position=1, stream=command.name, stream_version=1, at=now, actor=actor, event=submitted
    )
    run = evolve(None, recorded)
    message = run_message(run, now)
    if command.name.endswith(f"/{UNNAMED}"):
        message.ClearField("name")
    message.ClearField("uid")
    explanation = ports.explainer.explain(run, now)
    estimate = estimate_message(run, explanation)
    manifest = foreseen(ports, run, explanation) if with_manifest else None
    return run_service_pb2.SubmitRunResponse(run=message, estimate=estimate, manifest=manifest)


def _run_id(request: run_service_pb2.SubmitRunRequest | run_service_pb2.ForkRunRequest) -> str:
    """Return the id that a request wants, "" for one to be drawn."""
    if request.run_id and not names.is_id(request.run_id):
        raise invalid("run_id", f"is not an id; {names.ID_RULE}")
    return request.run_id


def _check_manifest(
    request: run_service_pb2.SubmitRunRequest | run_service_pb2.ForkRunRequest,
) -> None:
    if not isinstance(request, run_service_pb2.SubmitRunRequest):
        return
    if request.manifest and not request.validate_only:
        raise invalid("manifest", "is told with validate_only alone; GetManifest tells it of a run")


def _name(ports: Ports, team: str, run_id: str, *, is_real: bool) -> str:
    if not run_id:
        run_id = f"run-{ports.draw(DRAWN_ID_LENGTH)}" if is_real else UNNAMED
    return names.run_name(team, run_id)


def _asked_uid(request: run_service_pb2.SubmitRunRequest) -> str:
    """Return the uid of what is only asked about: asked again, its lots are the same."""
    return hashlib.sha256(request.intent.SerializeToString(deterministic=True)).hexdigest()[
        :UID_LENGTH
    ]


def _body_digest(
    request: run_service_pb2.SubmitRunRequest | run_service_pb2.ForkRunRequest,
) -> str:
    return hashlib.sha256(request.SerializeToString(deterministic=True)).hexdigest()
