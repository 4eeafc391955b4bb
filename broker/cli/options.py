"""An intent from a file, from flags, or from both: flags have the last word.

The rule: what a flag says is put where the file would have said it, so that an error names the same
field. Read ``intent_of`` first.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from broker.cli.arguments import FILE, REGION, one_of, source_of
from broker.sdk.errors import IntentError
from broker.sdk.gathering import Gathering
from broker.sdk.intent import IntentFile, read_file, read_intent
from broker.sdk.reading import fill
from broker.sdk.yamltext import Tree
from broker.v1 import intent_pb2

F = Callable[..., Any]
NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One flag of the terms: the field that it sets, and how its value is written there."""

    flag: str
    field: str
    help: str
    is_many: bool = False
    metavar: str = "TEXT"
    kind: click.ParamType[str] = click.STRING


TERMS = (
    Flag(
        flag="--capacity",
        field="capacity_types",
        is_many=True,
        metavar="TYPE",
        help="An accepted type: spot, flex, on-demand, reserved.",
        kind=one_of("type", "spot", "flex", "on-demand", "reserved"),
    ),
    Flag(
        flag="--region",
        field="regions",
        is_many=True,
        metavar="REGION",
        help="An accepted region; none: every one.",
        kind=REGION,
    ),
    Flag(
        flag="--residency",
        field="residency",
        is_many=True,
        metavar="WORDS",
        help="What the data may not leave: europe, or europe-west1.",
    ),
    Flag(flag="--max-wait", field="max_wait", metavar="TIME", help="For the first start: 2h."),
    Flag(
        flag="--after-max-wait",
        field="after_max_wait",
        metavar="WHAT",
        help="fail, keep-waiting or last-rung.",
        kind=one_of("what", "fail", "keep-waiting", "last-rung"),
    ),
    Flag(
        flag="--max-requeue-wait",
        field="max_requeue_wait",
        metavar="TIME",
        help="For each start after that.",
    ),
    Flag(flag="--deadline", field="deadline", metavar="TIME", help="2026-03-01T18:00:00Z."),
    Flag(
        flag="--expected",
        field="expected_duration",
        metavar="TIME",
        help="How long the training takes.",
    ),
    Flag(flag="--budget", field="budget", metavar="USD", help="The most that all of it may cost."),
    Flag(
        flag="--copies-budget",
        field="copies_budget",
        metavar="USD",
        help="The most that copies of its checkpoints may cost.",
    ),
    Flag(flag="--priority", field="priority", metavar="N", help="Higher is served first."),
    Flag(
        flag="--user-restarts",
        field="limits.user_restarts",
        metavar="N",
        help="After failures of the command.",
    ),
    Flag(
        flag="--losses",
        field="limits.infrastructure_losses",
        metavar="N",
        help="After preemptions and lost machines.",
    ),
)


def with_terms(function: F) -> F:
    """Give a verb the flags of the terms; they come as keyword arguments, see ``key_of``."""
    for one in reversed(TERMS):
        function = click.option(
            one.flag,
            key_of(one),
            type=one.kind,
            multiple=one.is_many,
            metavar=one.metavar,
            help=one.help,
        )(function)
    return function


def with_intent(function: F) -> F:
    """Give a ``VerbWithCommand`` the flags of a whole intent, and the file's name."""
    workload = (
        click.option("--hardware", multiple=True, metavar="SHAPE", help="8xH100, or 2x8xH100."),
        click.option("--image", metavar="IMAGE", help="Embedded clusters need none."),
        click.option("--env", multiple=True, metavar="NAME=VALUE", help="For the command."),
        click.option("--label", multiple=True, metavar="KEY=VALUE", help="To find the run by."),
        click.option("--var", multiple=True, metavar="NAME=VALUE", help="Fills in ${NAME}."),
    )
    function = with_terms(function)
    for option in reversed(workload):
        function = option(function)
    return click.argument("file", type=FILE, required=False)(function)


def key_of(flag: Flag) -> str:
    """Return the name under which click hands a flag over."""
    return "terms_" + flag.field.replace(".", "_")


def intent_of(said: dict[str, Any]) -> IntentFile:
    """Return the intent of a command line. Raises IntentError, which names the field."""
    variables = {**os.environ, **pairs(said["var"], "--var")}
    file, wrong = said["file"], Gathering()
    if file is None:
        found = IntentFile(message=intent_pb2.Intent(), run_id="", team="")
    else:
        found = read_intent(read_file(file), source_of(file), variables, wrong)
    _put_workload(found.message.workload, said, wrong)
    for key, value in pairs(said["label"], "--label").items():
        found.message.labels[key] = value
    with wrong.going_on():
        put_terms(found.message.terms, said)
    _check_whole(found.message, wrong, has_file=file is not None)
    wrong.check()
    return found


def _check_whole(intent: intent_pb2.Intent, wrong: Gathering, *, has_file: bool) -> None:
    """Say what is missing before anything is packed; the broker judges the rest."""
    or_file = "" if has_file else "name an intent file, or "
    for field, is_there, message in (
        (
            "workload.command",
            intent.workload.command,
            f"is missing: {or_file}give the command after --",
        ),
        ("workload.hardware", intent.workload.hardware, "is missing; such as --hardware 8xH100"),
        (
            "terms.capacity_types",
            intent.terms.capacity_types,
            "is missing; such as --capacity spot",
        ),
    ):
        if not is_there and not wrong.is_about(field):
            with wrong.going_on():
                raise IntentError(field, message)


def _put_workload(workload: intent_pb2.Workload, said: dict[str, Any], wrong: Gathering) -> None:
    if said["command"]:
        workload.command[:] = said["command"]
    if said["hardware"]:
        del workload.hardware[:]
        with wrong.going_on():
            fill(workload, {"hardware": list(said["hardware"])}, "workload")
    if said["image"]:
        workload.image = said["image"]
    for name, value in pairs(said["env"], "--env").items():
        workload.env[name] = value


def put_terms(terms: intent_pb2.Terms, said: dict[str, Any]) -> bool:
    """Put what the flags say into terms; return whether they said anything.

    ``none`` clears what may be unset.
    """
    has_said, wrong = False, Gathering()
    for flag in TERMS:
        value = said.get(key_of(flag))
        if value is None or value == ():
            continue
        has_said = True
        with wrong.going_on():
            _put(terms, flag, list(value) if flag.is_many else value)
    wrong.check()
    return has_said


def _put(terms: intent_pb2.Terms, flag: Flag, value: Tree) -> None:
    first, _, rest = flag.field.partition(".")
    holder: Any = getattr(terms, first) if rest else terms
    holder.ClearField(rest or first)
    if value not in (NONE, [NONE]):
        fill(holder, {rest or first: value}, f"terms.{first}" if rest else "terms")


def pairs(said: tuple[str, ...], flag: str) -> dict[str, str]:
    """Return NAME=VALUE, given any number of times, as a map."""
    found = {}
    for one in said:
        name, is_pair, value = one.partition("=")
        if not (name and is_pair):
            raise click.BadParameter(f"{one!r} is not NAME=VALUE", param_hint=flag)
        found[name] = value
    return found
