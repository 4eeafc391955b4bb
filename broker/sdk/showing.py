"""A message as the lists, maps and values of JSON and of YAML.

The rule: for programs (``as_json``) field names are the proto's, whole numbers are numbers,
durations are seconds, times are RFC 3339, money is a text of US dollars, an enum is its value
without prefix, and what the proto calls optional is left out when it is unset. For people
(``as_yaml``) it is what ``reading.fill`` reads. Read ``as_json`` first.
"""

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from broker.sdk import quantities
from broker.sdk.naming import short_name

_Field = Any  # a descriptor: the stubs know the pure one, at run time it is the C one
_Special = dict[str, Callable[[Any], Any]]


def as_json(message: Message) -> dict[str, Any]:
    """Return a message for programs."""
    return {
        field.name: _json_value(field, getattr(message, field.name))
        for field in message.DESCRIPTOR.fields
        if not field.has_presence or message.HasField(field.name)
    }


def as_yaml(message: Message) -> dict[str, Any]:
    """Return a message for people to read and to write back: what is set, and no more."""
    return {field.name: _yaml_value(field, value) for field, value in message.ListFields()}


def _json_value(field: _Field, value: Any) -> Any:
    return _value(field, value, _JSON, as_json, str)


def _yaml_value(field: _Field, value: Any) -> Any:
    return _value(field, value, _YAML, as_yaml, lambda name: name.lower().replace("_", "-"))


def _value(
    field: _Field,
    value: Any,
    special: _Special,
    whole: Callable[[Message], dict[str, Any]],
    called: Callable[[str], str],
) -> Any:
    kind: Any = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        return {name: value[name] for name in sorted(value)}

    def one(item: Any) -> Any:
        if field.enum_type is not None:
            return called(short_name(field.enum_type, item))
        if kind is None:
            return item
        show: Callable[[Any], Any] = special.get(kind.full_name, whole)
        return show(item)

    return [one(item) for item in value] if field.is_repeated else one(value)


def seconds_of(duration: Any) -> float:
    """Return a protobuf duration in seconds."""
    return float(duration.seconds + duration.nanos / 1e9)


def dollars_of(money: Any) -> str:
    """Return a google.type.Money as US dollars."""
    return quantities.money_text(money.units, money.nanos)


def _time(timestamp: Any) -> str:
    return str(timestamp.ToJsonString())


_JSON: _Special = {
    "google.protobuf.Duration": seconds_of,
    "google.protobuf.Timestamp": _time,
    "google.type.Money": dollars_of,
}
_YAML: _Special = {
    "google.protobuf.Duration": lambda value: quantities.duration_text(seconds_of(value)),
    "google.protobuf.Timestamp": _time,
    "google.type.Money": dollars_of,
}
