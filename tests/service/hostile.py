"""Any message of a type, hostile on purpose, drawn from its descriptor alone.

The rule it keeps: a field added to a proto is attacked from that day on. Read ``messages`` first.
"""

from __future__ import annotations

from typing import Any, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

M = TypeVar("M", bound=Message)
DEPTH_MAX = 5
_INT32, _INT64 = 2**31, 2**63
_TEXTS = (
    "", "x", "a\x00b", "a\nb", "é" * 70, "x" * 5_000, "-", "teams/vision", "teams/-", "teams/",
    "teams/vision/runs/digits", "teams/vision/runs/", "teams/../runs/x", "regions/alpha",
    "regions/alpha/policy", "alpha", "gamma", "${HOME}", "${", "BROKER_RUN", "PATH", "/etc/passwd",
    "../../x", "gs://bucket/x", "h100", "spot", "USD", "EUR", "0" * 64, "1", "e000001-abcdefghijkl",
    "\u202e", "\U0001f600", "state = RUNNING", "create_time",
)  # fmt: skip
_WHOLE = (0, 1, -1, 2, 3, 8, 100, 999_999_999, 1_000_000_000)


@st.composite
def messages(draw: st.DrawFn, kind: type[M], depth: int = 0) -> M:
    """Draw a message whose every field is absent, plausible or absurd."""
    message = kind()
    for field in fields_of(message):
        if draw(st.integers(0, 2)) and (depth < DEPTH_MAX or field.message_type is None):
            _set(draw, message, field, depth)
    return message


@st.composite
def damaged(draw: st.DrawFn, sound: M) -> M:
    """Draw a copy of a sound message, one to three of its fields, however deep, made hostile."""
    message = type(sound)()
    message.CopyFrom(sound)
    for _ in range(draw(st.integers(1, 3))):
        at: Message = message
        for depth in range(DEPTH_MAX):
            field = draw(st.sampled_from(fields_of(at)))
            inner = _inner(at, field)
            if inner is None or draw(st.booleans()):
                at.ClearField(field.name)
                _set(draw, at, field, depth)
                break
            at = inner
    return message


def fields_of(message: Message) -> list[FieldDescriptor]:
    """Return the fields of a message's type."""
    fields: Any = message.DESCRIPTOR.fields
    return list(fields)


def _inner(message: Message, field: FieldDescriptor) -> Message | None:
    """Return the message in a field, the first where it is repeated, or None."""
    if field.message_type is None or field.message_type.GetOptions().map_entry:
        return None
    value: Any = getattr(message, field.name)
    if not field.is_repeated:
        return value if isinstance(value, Message) else None
    return value[0] if len(value) else None


def _set(draw: st.DrawFn, message: Message, field: FieldDescriptor, depth: int) -> None:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        _set_map(draw, message, field)
    elif field.is_repeated:
        count = draw(st.sampled_from((0, 1, 2, 5)))
        values = [draw(_value(field, depth)) for _ in range(count)]
        getattr(message, field.name).extend(values)
    elif field.message_type is not None:
        getattr(message, field.name).CopyFrom(draw(_value(field, depth)))
    else:
        setattr(message, field.name, draw(_value(field, depth)))


def _set_map(draw: st.DrawFn, message: Message, field: FieldDescriptor) -> None:
    keys = draw(st.lists(st.sampled_from(_TEXTS), max_size=3, unique=True))
    for key in keys:
        getattr(message, field.name)[key] = draw(st.sampled_from(_TEXTS))


def _value(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_INT32:
            return st.sampled_from((*_WHOLE, _INT32 - 1, -_INT32))
        case FieldDescriptor.CPPTYPE_INT64:
            return st.sampled_from((*_WHOLE, _INT64 - 1, -_INT64, 315_576_000_001))
        case FieldDescriptor.CPPTYPE_DOUBLE:
            return st.sampled_from((0.0, 1.0, -1.0, 1e308, float("nan"), float("inf"), 1e-320))
        case FieldDescriptor.CPPTYPE_BOOL:
            return st.booleans()
        case FieldDescriptor.CPPTYPE_ENUM:
            return st.sampled_from((0, 1, 2, 3, 4, 99, -1))
        case FieldDescriptor.CPPTYPE_STRING:
            if field.type == FieldDescriptor.TYPE_BYTES:
                return st.binary(max_size=50)
            return st.sampled_from(_TEXTS) | st.text(max_size=20)
        case FieldDescriptor.CPPTYPE_MESSAGE:
            assert isinstance(field.message_type, Descriptor)
            return messages(GetMessageClass(field.message_type), depth + 1)
        case _:
            raise AssertionError(f"{field.full_name} is of a kind that is not drawn yet")
