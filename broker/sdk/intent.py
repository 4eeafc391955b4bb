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
    document, message = parse(data, source), intent_pb2.Intent()
    with document.naming_lines():
        tree = _filled_in(document.tree, os.environ if variables is None else variables)
        if not isinstance(tree, dict):
            raise IntentError(source, "must be a map with workload and terms")
        own = {name: tree.pop(name, "") for name in _OWN}
        for name, value in own.items():
            if not isinstance(value, str):
                raise IntentError(name, "must be a text")
        fill(message, tree, "")
    return IntentFile(message=message, run_id=str(own["name"]), team=str(own["team"]))


def parse_message(
    data: bytes, source: str, message: Message, variables: Mapping[str, str] | None = None
) -> None:
    """Fill any message, such as a policy, from the bytes of a YAML file."""
    document = parse(data, source)
    with document.naming_lines():
        tree = _filled_in(document.tree, os.environ if variables is None else variables)
        fill(message, tree, "")


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


def _filled_in(tree: Tree, variables: Mapping[str, str], path: str = "") -> Tree:
    if isinstance(tree, str):
        try:
            return fill_in(tree, variables, is_run=path.startswith(_RUN))
        except ValueError as error:
            raise IntentError(path, str(error)) from error
    if isinstance(tree, list):
        return [_filled_in(one, variables, f"{path}[{i}]") for i, one in enumerate(tree)]
    return {
        name: _filled_in(one, variables, f"{path}.{name}" if path else name)
        for name, one in tree.items()
    }
