"""A message from the lists, maps and texts that people write.

The rule: the proto says what is known; a key that it does not have is refused by its path, and so
is a value that its field cannot hold. Durations are written ``1h30m``, money ``25.50``, sizes
``16GiB``, the values of an enum in lower case without their prefix. An empty value leaves its field
unset. Read ``fill`` first.
"""

import difflib
import math
import re
import shlex
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from broker.sdk import quantities
from broker.sdk.errors import IntentError
from broker.sdk.gathering import Gathering
from broker.sdk.naming import enum_prefix
from broker.sdk.yamltext import Tree

_WHOLE = re.compile(r"[+-]?\d{1,18}")
_TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_HARDWARE = re.compile(r"(?:(\d{1,6})\s*x\s*)?(\d{1,4})\s*x\s*([A-Za-z][\w.-]{0,62})", re.I)
_Kind = FieldDescriptor
_Field = Any  # a descriptor: the stubs know the pure one, at run time it is the C one


def fill(message: Message, tree: Tree, path: str) -> None:
    """Fill an empty message from a map, as far as it can be read.

    Raises IntentError with the path of each thing that is wrong.
    """
    if tree == "":
        return
    if not isinstance(tree, dict):
        raise IntentError(path, "must be a map of fields")
    fields, found = message.DESCRIPTOR.fields_by_name, Gathering()
    for name, value in tree.items():
        if found.is_full:
            break
        at = f"{path}.{name}" if path else name
        with found.going_on():
            if name not in fields:
                raise IntentError(at, f"is not known{_meant(name, list(fields))}")
            if value != "":
                _set(message, fields[name], value, at)
    found.check()


def _meant(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name[:60], known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; these are: {', '.join(known)}"


def _set(message: Message, field: _Field, value: Tree, path: str) -> None:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        _set_map(message, field, value, path)
    elif field.is_repeated:
        _set_list(message, field, value, path)
    elif field.message_type is not None:
        part = getattr(message, field.name)
        part.SetInParent()
        _fill_part(part, value, path)
    else:
        setattr(message, field.name, _scalar(field, value, path))


def _set_map(message: Message, field: _Field, value: Tree, path: str) -> None:
    if not isinstance(value, dict):
        raise IntentError(path, "must be a map of names to texts")
    entry = field.message_type.fields_by_name["value"]
    entries, found = getattr(message, field.name), Gathering()
    for name, text in value.items():
        if found.is_full:
            break
        with found.going_on():
            entries[name] = _scalar(entry, text, f'{path}["{name[:63]}"]')
    found.check()


def _set_list(message: Message, field: _Field, value: Tree, path: str) -> None:
    entries = getattr(message, field.name)
    if isinstance(value, str):
        # `command: python train.py` and `regions: eu-west4` say what they mean.
        value = [*_words(value, path)] if field.name == "command" else [value]
    if isinstance(value, dict):
        raise IntentError(path, "must be a list")
    found = Gathering()
    for number, one in enumerate(value):
        at = f"{path}[{number}]"
        if found.is_full:
            break
        with found.going_on():
            if field.message_type is not None:
                _fill_part(entries.add(), one, at)
            else:
                entries.append(_scalar(field, one, at))
    found.check()


def _words(text: str, path: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise IntentError(path, f"cannot be split into words: {error}") from error


def _fill_part(part: Any, value: Tree, path: str) -> None:
    name = part.DESCRIPTOR.full_name
    reader = _READERS.get(name)
    if reader is None or (name == _HARDWARE_OPTION and not isinstance(value, str)):
        fill(part, value, path)
        return
    if not isinstance(value, str):
        raise IntentError(path, "must be a single value")
    try:
        reader(part, value)
    except (ValueError, OverflowError) as error:
        raise IntentError(path, str(error)) from error


def _scalar(field: _Field, value: Tree, path: str) -> Any:
    if not isinstance(value, str):
        raise IntentError(path, "must be a single value")
    try:
        return _read(field, value)
    except (ValueError, OverflowError) as error:
        raise IntentError(path, str(error)) from error


def _read(field: _Field, text: str) -> Any:
    match field.type:
        case _Kind.TYPE_STRING:
            text.encode()  # a lone surrogate is no text
            return text
        case _Kind.TYPE_ENUM:
            return _enum_value(field, text)
        case _Kind.TYPE_BOOL:
            if text.lower() not in _TRUTHS:
                raise ValueError(f"{text[:40]!r} is neither true nor false")
            return _TRUTHS[text.lower()]
        case _Kind.TYPE_DOUBLE | _Kind.TYPE_FLOAT:
            return _number(text)
        case _ if field.name.endswith("_bytes"):
            return _within(field, quantities.size_bytes_of(text))
        case _:
            if not _WHOLE.fullmatch(text.strip()):
                raise ValueError(f"{text[:40]!r} is not a whole number")
            return _within(field, int(text))


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is not a number") from None
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]!r} is not a finite number")
    return number


def _within(field: _Field, number: int) -> int:
    bits = 31 if field.type == _Kind.TYPE_INT32 else 63
    if not -(2**bits) <= number < 2**bits:
        raise ValueError(f"{number} is too large")
    return number


def _enum_value(field: _Field, text: str) -> int:
    values = field.enum_type.values_by_name
    prefix = enum_prefix(field.enum_type)
    said = text.strip().upper().replace("-", "_")
    number = values.get(prefix + said.removeprefix(prefix))
    if number is None or number.number == 0:
        known = [name.removeprefix(prefix).lower().replace("_", "-") for name in values]
        raise ValueError(f"{text[:40]!r} is none of: {', '.join(known[1:])}")
    return int(number.number)


# ---- Messages that people write as one text ---------------------------------------------------


def _duration(part: Any, text: str) -> None:
    part.FromNanoseconds(round(quantities.duration_s_of(text) * 1e9))


def _timestamp(part: Any, text: str) -> None:
    part.FromDatetime(quantities.time_of(text))


def _money(part: Any, text: str) -> None:
    amount = quantities.money_of(text)
    part.currency_code = "USD"
    part.units = int(amount)
    part.nanos = int((amount - part.units) * 10**9)


def _hardware(part: Any, text: str) -> None:
    """Read ``8xH100``, one node of eight, or ``2x8xH100``, two such nodes."""
    match = _HARDWARE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text[:40]!r} is not hardware such as 8xH100 or 2x8xH100")
    nodes, per_node, accelerator = match.groups()
    part.nodes = int(nodes or 1)
    part.accelerators_per_node = int(per_node)
    part.accelerator = accelerator


_HARDWARE_OPTION = "broker.v1.HardwareOption"
_READERS = {
    "google.protobuf.Duration": _duration,
    "google.protobuf.Timestamp": _timestamp,
    "google.type.Money": _money,
    _HARDWARE_OPTION: _hardware,
}
