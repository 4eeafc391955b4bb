"""The program ``broker``: every way it can end is one sentence and one exit code.

The rule: no stack trace reaches a user (BROKER_DEBUG=1 shows it), errors go to standard error, and
with ``--output json`` they are JSON too. Read ``main`` first.
"""

import os
import re
import sys
from collections.abc import Sequence

import click

from broker.cli import exits
from broker.cli.saying import say
from broker.cli.verbs import BROKER, wants_json
from broker.sdk.errors import (
    BrokerError,
    Busy,
    Conflict,
    HungUp,
    NotAllowed,
    NotLoggedIn,
    NotTrusted,
    TooLate,
    Unreachable,
    Violation,
)

_FIELD_OF_INTENT = re.compile(r"^intent\.(?=(?:workload|terms|owner|labels)\b)")
USAGE = "USAGE"  # the reason of what cannot be understood; no broker was asked

_NEXT: dict[type[BrokerError], str] = {
    Unreachable: "Start it with `brokerd`, or name another by --server; `broker doctor` says more.",
    HungUp: "See that this is a broker's port; `broker doctor` says more.",
    NotTrusted: "Name its CA: `broker login --server HOST:PORT --ca FILE`.",
    NotLoggedIn: "Log in with a token of its ops: `broker login --server HOST:PORT`.",
    NotAllowed: "Ask its ops for a token that allows it.",
    TooLate: "See whether it was done before you repeat it.",
    Busy: "Try again in a moment.",
    Conflict: "Read it again, then decide.",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if os.environ.get("NO_COLOR"):
        BROKER.context_settings["color"] = False
    try:
        result = BROKER.main(given, prog_name="broker", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else exits.OK
    except click.ClickException as error:
        if wants_json(given):
            _tell_json(USAGE, error.format_message(), (), exits.USAGE)
        else:
            error.show()
        return exits.USAGE
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return exits.INTERRUPTED
    except BrokenPipeError:
        # Nobody reads on. What is left in the buffer must not be tried again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.PIPE_CLOSED
    except BrokerError as error:
        if os.environ.get("BROKER_DEBUG"):
            raise
        _tell(error, given)
        return exits.code_of(error)
    except Exception as error:  # The edge: a user is told, in a sentence.
        if os.environ.get("BROKER_DEBUG"):
            raise
        no_text = [one for one in given if not _is_text(one)]
        if isinstance(error, UnicodeEncodeError) and no_text:
            # The name of a file may be any bytes; what goes to the broker may not.
            say(f"broker: {no_text[0]!a} is not text in UTF-8", is_error=True)
            return exits.USAGE
        say(
            f"broker: a fault of this program: {type(error).__name__}: {error}\n"
            "BROKER_DEBUG=1 shows where.",
            is_error=True,
        )
        return exits.FAULT


def _is_text(argument: str) -> bool:
    """Return whether an argument was text: Python puts lone surrogates for any other bytes."""
    return not any("\ud800" <= letter <= "\udfff" for letter in argument)


def _tell(error: BrokerError, given: Sequence[str]) -> None:
    if wants_json(given):
        _tell_json(error.reason, error.message, error.violations, exits.code_of(error))
        return
    if len(error.violations) > 1:
        click.echo("broker: some fields are not as they must be:", err=True)
        for violation in error.violations:
            say(f"  {_as_typed(violation.field)}: {violation.message}", is_error=True)
    else:
        say(f"broker: {_as_typed(error.message)}", is_error=True)
    hint = _NEXT.get(type(error))
    if hint is not None:
        click.echo(hint, err=True)


def _as_typed(text: str) -> str:
    """Return a field, or a sentence that begins with one, as it stands in an intent's file."""
    if text.startswith("run_id: ") or text == "run_id":
        return text.replace("run_id", "name", 1)
    return _FIELD_OF_INTENT.sub("", text)  # a file may be called intent.yaml


def _tell_json(
    reason: str, message: str, violations: tuple[Violation, ...], exit_code: int
) -> None:
    import json

    said = {
        "reason": reason,
        "message": message,
        "violations": [{"field": one.field, "message": one.message} for one in violations],
        "exit_code": exit_code,
    }
    click.echo(json.dumps({"error": said}), err=True)
