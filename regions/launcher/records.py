"""What the launcher needs of ``dataclasses``, which it takes the place of in the packed program.

To import that module, with ``inspect`` and all that it needs, and to have it write the methods of
some forty classes as source and compile them, is half of what a process does before it stands at
its gate, in every pod of a gang. Here the methods are written once, for all classes.

The rule: whoever is not packed uses the real one, and a test holds this one against it; what the
launcher does not use is not here. Read ``dataclass``.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Tuple, TypeVar

T = TypeVar("T")


class _Made:
    """A default that is made for each value."""

    def __init__(self, factory: Callable[[], Any]) -> None:
        self.factory = factory


def field(*, default_factory: Callable[[], Any]) -> Any:
    """Return what stands for a default that is made for each value."""
    return _Made(default_factory)


def replace(value: T, **changes: Any) -> T:
    """Return a value with some of its fields changed."""
    return type(value)(**{**value.__dict__, **changes})


def dataclass(cls: Any = None, *, frozen: bool = False) -> Any:
    """Make a class one of values: what it is made from, equal, shown and, frozen, hashed by."""
    if cls is None:
        return lambda found: dataclass(found, frozen=frozen)
    names: Tuple[str, ...] = tuple(cls.__annotations__)
    defaults: Dict[str, Any] = {name: vars(cls)[name] for name in names if name in vars(cls)}
    for name, default in defaults.items():
        if isinstance(default, _Made):
            delattr(cls, name)
    complete = getattr(cls, "__post_init__", None)

    def made(self: Any, *values: Any, **named: Any) -> None:
        given = dict(zip(names, values))
        if len(values) > len(names) or given.keys() & named.keys() or named.keys() - set(names):
            raise TypeError(f"{cls.__name__} takes {', '.join(names)}, each once")
        given.update(named)
        for name in names:
            if name not in given and name not in defaults:
                raise TypeError(f"{cls.__name__} needs {name}")
            found = given[name] if name in given else defaults[name]
            self.__dict__[name] = found.factory() if isinstance(found, _Made) else found
        if complete is not None:
            complete(self)

    cls.__init__ = made
    cls.__eq__ = _is_equal
    cls.__repr__ = _shown
    cls.__hash__ = _hashed if frozen else None
    if frozen:
        cls.__setattr__ = cls.__delattr__ = _refuse
    return cls


def _is_equal(self: Any, other: object) -> Any:
    return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented


def _hashed(self: Any) -> int:
    return hash(tuple(self.__dict__.values()))


def _shown(self: Any) -> str:
    told = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
    return f"{type(self).__qualname__}({told})"


def _refuse(self: Any, name: str, *_: Any) -> None:
    raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")
