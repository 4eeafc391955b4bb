"""A cache that knows its arguments by identity.

The rule: it is for immutable values of which a search keeps one object each; hashing those again
and again is what a search would otherwise spend its time on. Read ``by_identity`` first.
"""

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def by_identity(function: Callable[[*Ts], T]) -> Callable[[*Ts], T]:
    """Remember the function's answers by the identity of its arguments, which are kept alive."""
    answers: dict[tuple[int, ...], tuple[tuple[object, ...], T]] = {}

    def remembered(*arguments: *Ts) -> T:
        key = tuple(map(id, arguments))
        found = answers.get(key)
        if found is None:
            found = answers[key] = (arguments, function(*arguments))
        return found[1]

    return remembered
