"""``replace`` as in ``dataclasses``, some three times as fast: evolve lives on it.

The rule: a slotted dataclass without ``__post_init__`` is no more than its slots, so a copy is each
slot read and written, without the checks of ``__init__``. Type checkers see the standard function
and so check every field that is named.
"""

from dataclasses import fields, replace
from functools import cache
from operator import attrgetter
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

__all__ = ["replace"]

if not TYPE_CHECKING:

    def replace(value, /, **changes):
        """Return a copy of the value with some fields changed."""
        kind = type(value)
        read, writers, by_name = _plan(kind)
        copy = object.__new__(kind)
        for write, field_value in zip(writers, read(value), strict=True):
            write(copy, field_value)
        for name, field_value in changes.items():
            by_name[name](copy, field_value)
        return copy


@cache
def _plan(kind: type[Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return how to read all fields of a class at once, and how to write each one."""
    names = [field.name for field in fields(kind)]
    members = [kind.__dict__.get(name) for name in names]
    is_slots_alone = names and all(isinstance(m, MemberDescriptorType) for m in members)
    if hasattr(kind, "__post_init__") or not is_slots_alone:
        raise TypeError(f"{kind.__name__} is not made of slots alone")
    writers = {name: kind.__dict__[name].__set__ for name in names}
    # One name gives a bare value, so the first is read twice; writing it twice is harmless.
    return attrgetter(names[0], *names), (writers[names[0]], *writers.values()), writers
