"""Every field of a request that no intent could hold, told at once.

The rule: a conversion stops at the first field that it cannot take, which is all that a good
request ever pays for. A refused one is looked at again, on a copy, with what was refused left out,
until the rest converts; then the model's rules judge that rest. Read ``whole_refusal`` first.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from google.protobuf.message import Message

from broker.service.errors import InvalidArgument, Violation

LOOKS_MAX = 50  # each finds one field more; nobody mends as many at once
_STEP = re.compile(r"(?P<name>[a-z_]+)(?:\[(?P<index>\d+)\])?\.?")
_M = TypeVar("_M", bound=Message)
_T = TypeVar("_T")


def whole_refusal(
    message: _M,
    field: str,
    *,
    convert: Callable[[_M], _T],
    judge: Callable[[_T], Iterable[Violation]] = lambda _: (),
    beside: Iterable[Callable[[], object]] = (),
) -> InvalidArgument:
    """Return the refusal of a request that was refused, with all that is wrong with it.

    ``field`` is where the message stands in the request, ``convert`` what reads it, ``judge`` what
    says which rules it breaks then, and ``beside`` what reads the request's other fields. The
    message is left as it is.
    """
    rest = type(message)()
    rest.CopyFrom(message)
    found: list[Violation] = []
    for read in beside:
        try:
            read()
        except InvalidArgument as refusal:
            found += refusal.violations
    for _ in range(LOOKS_MAX):
        try:
            converted = convert(rest)
        except InvalidArgument as refusal:
            known = {one.field for one in found}
            fresh = [one for one in refusal.violations if one.field not in known]
            found += fresh
            # What is refused though it was left out hides what comes after it.
            if not fresh or not all(_leave_out(rest, one.field, field) for one in fresh):
                break
        else:
            paths = [one.field for one in found]
            found += [
                one
                for one in judge(converted)
                if not any(_is_about(one.field, path) for path in paths)
            ]
            break
    return InvalidArgument(found)


def _is_about(path: str, left_out: str) -> bool:
    """Return whether a rule speaks of what was left out, or of what held it or was in it.

    The intent as a whole holds everything, and no rule speaks of it.
    """
    return path.startswith(left_out) or left_out.startswith((f"{path}.", f"{path}["))


def _leave_out(message: Message, path: str, root: str) -> bool:
    """Take the field at a path out of a message; False when the path leads nowhere in it."""
    holder: Any = message
    steps = list(_STEP.finditer(path.removeprefix(f"{root}.")))
    for number, step in enumerate(steps, 1):
        known = holder.DESCRIPTOR.fields_by_name.get(step["name"])
        if known is None:
            return False
        is_last = number == len(steps)
        if step["index"] is None:
            if is_last:
                holder.ClearField(step["name"])
                return True
            holder = getattr(holder, step["name"])
            continue
        entries, index = getattr(holder, step["name"]), int(step["index"])
        if is_last:
            entries[index] = known.enum_type.values[1].number  # its place is kept for the others
            return True
        holder = entries[index]
    return False
