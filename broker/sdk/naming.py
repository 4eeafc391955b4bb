"""How the values of an enum are called without the prefix that the wire gives them.

Read ``short_name`` first.
"""

import re
from functools import cache

from google.protobuf.descriptor import EnumDescriptor


@cache
def enum_prefix(enum: EnumDescriptor) -> str:
    """Return what all values of an enum begin with: ``RUN_STATE_`` for RunState."""
    words: list[str] = re.findall(r"[A-Z][a-z0-9]*", enum.name)
    return "_".join(word.upper() for word in words) + "_"


def short_name(enum: EnumDescriptor, number: int) -> str:
    """Return ``RUNNING`` for RUN_STATE_RUNNING; a number that is not known as it is."""
    value = enum.values_by_number.get(number)
    return str(number) if value is None else value.name.removeprefix(enum_prefix(enum))
