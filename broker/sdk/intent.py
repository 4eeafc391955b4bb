"""An intent as a small YAML file.

    name: digits                      # the run's id; left out: the broker draws one
    team: vision
    workload:
      command: python train.py --lr ${LR}
      hardware: [8xH100]
    terms:
      capacity_types: [spot, flex]
      max_wait: 2h

The rule: beside ``name`` and ``team`` the keys are those of the proto's Intent; whatever is not
known is refused by its path. Read ``load_intent`` first.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.message import Message

from broker.sdk.errors import IntentError
from broker.sdk.gathering import Gathering
from broker.sdk.reading import fill
from broker.sdk.substitution import fill_in
from broker.sdk.yamltext import TEXT_MAX_BYTES, Tree, parse
from broker.v1 import intent_pb2

STANDARD_INPUT = "-"
_OWN = ("name", "team")
_RUN = ("workload.command", "workload.env")


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentFile:
    """What a file says: the intent, and perhaps the run's id and its team; "" when it does not."""

    message: intent_pb2.Intent
    run_id: str
    team: str


def load_intent(path: str | Path, variables: Mapping[str, str] | None = None) -> IntentFile:
    """Read an intent from a file. Raises IntentError, which names the field.

    ``variables`` fill in ``${VAR}``; None: the environment.
    """
    return parse_intent(read_file(path), str(path), variables)


def parse_intent(
    data: bytes, source: str, variables: Mapping[str, str] | None = None
) -> IntentFile:
    """Read an intent from the bytes of a file; ``source`` is what errors call it."""
    found = Gathering()
    read = read_intent(data, source, variables, found)
    found.check()
    return read


def read_intent(
    data: bytes, source: str, variables: Mapping[str, str] | None, found: Gathering
) -> IntentFile:
    """Read as much of an intent as can be read; what cannot is gathered in ``found``.

    Raises IntentError when the bytes hold no fields at all.
    """
    document, message = parse(data, source), intent_pb2.Intent()
    tree, own = document.tree, dict.fromkeys(_OWN, "")
    if not isinstance(tree, dict):
        raise IntentError(source, "must be a map with workload and terms")
    with found.going_on(), document.naming_lines():
        every = Gathering()
        values = os.environ if variables is None else variables
        filled = {name: _filled_in(one, values, every, name) for name, one in tree.items()}
        for name in _OWN:
            with every.going_on():
                own[name] = _text(filled.pop(name, ""), name)
        with every.going_on():
            fill(message, filled, "")
        every.check()
    return IntentFile(message=message, run_id=own["name"], team=own["team"])


def _text(value: Tree, field: str) -> str:
    if not isinstance(value, str):
        raise IntentError(field, "must be a text")
    return value


def parse_message(
    data: bytes, source: str, message: Message, variables: Mapping[str, str] | None = None
) -> None:
    """Fill any message, such as a policy, from the bytes of a YAML file."""
    document = parse(data, source)
    with document.naming_lines():
        found = Gathering()
        tree = _filled_in(document.tree, os.environ if variables is None else variables, found)
        with found.going_on():
            fill(message, tree, "")
        found.check()


def read_file(path: str | Path) -> bytes:
    """Return the bytes of a file, as far as they can be an intent; ``-`` is standard input.

    Raises IntentError.
    """
    if str(path) == STANDARD_INPUT:
        return sys.stdin.buffer.read(TEXT_MAX_BYTES + 1)
    try:
        with Path(path).open("rb") as file:
            return file.read(TEXT_MAX_BYTES + 1)
    except OSError as error:
        raise IntentError(str(path), f"cannot be read: {error.strerror}") from error


def _filled_in(tree: Tree, variables: Mapping[str, str], found: Gathering, path: str = "") -> Tree:
    """Return the tree with its variables filled in; a text where one lacks is left empty."""
    if isinstance(tree, str):
        filled = ""
        with found.going_on():
            try:
                filled = fill_in(tree, variables, is_run=path.startswith(_RUN))
            except ValueError as error:
                raise IntentError(path, str(error)) from error
        return filled
    if isinstance(tree, list):
        return [_filled_in(one, variables, found, f"{path}[{i}]") for i, one in enumerate(tree)]
    return {
        name: _filled_in(one, variables, found, f"{path}.{name}" if path else name)
        for name, one in tree.items()
    }
