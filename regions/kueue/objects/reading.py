"""The one way into a dict of JSON that somebody else wrote.

The rule: a field that is absent, or null, is its default; one of the wrong type or an absurd size
raises UnreadableError, which names it. Only words for people are cut instead of refused: nothing is
decided by them, but a list that was cut short would be counted. Read ``Fields`` first.
"""

import sys
from collections.abc import Mapping
from datetime import UTC, datetime

from regions.kueue.objects.quantity import MOST, amount

LONGEST_TEXT = 4096
"""Characters of a name, a label, a reason: no valid one has more than 253 and a prefix."""
LONGEST_MESSAGE = 2048
"""Characters that are kept of a sentence."""
MOST_ITEMS = 4096
"""Items of a list or a map: a gang's pods and a queue's flavors are far below."""


class UnreadableError(Exception):
    """A field is not what it has to be; the message names it."""


class Fields:
    """A JSON object that is read field by field. ``at`` is where it stands, for the reasons."""

    __slots__ = ("_at", "_raw")

    def __init__(self, raw: object, at: str = "") -> None:
        """Raises UnreadableError when it is no object."""
        if raw is not None and not isinstance(raw, dict):
            raise UnreadableError(f"{at or 'it'} is {_kind(raw)}, no object")
        self._raw: dict[object, object] = raw or {}
        self._at = at

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self._raw.get(name) is not None

    def inner(self, name: str) -> "Fields":
        """Return the object in a field, an empty one when it is absent."""
        return Fields(self._raw.get(name), self._path(name))

    def each(self, name: str) -> list["Fields"]:
        """Return the objects in a list."""
        return [Fields(item, f"{self._path(name)}[{at}]") for at, item in self._list(name)]

    def text(self, name: str, default: str = "") -> str:
        """Return a word; equal ones are one object in memory."""
        raw = self._raw.get(name)
        return default if raw is None else self._word(raw, name)

    def message(self, name: str) -> str:
        """Return words for people, cut to a length."""
        raw = self._raw.get(name)
        if raw is None:
            return ""
        if not isinstance(raw, str):
            raise self._wrong(name, raw, "text")
        return sys.intern(raw[:LONGEST_MESSAGE])

    def ending(self, name: str) -> str:
        """Return the end of words for people, cut to a length: of a log the last lines tell."""
        raw = self._raw.get(name)
        if raw is None:
            return ""
        if not isinstance(raw, str):
            raise self._wrong(name, raw, "text")
        return sys.intern(raw[-LONGEST_MESSAGE:])

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of words."""
        return tuple(self._word(item, name) for _, item in self._list(name))

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a truth value."""
        raw = self._raw.get(name)
        if raw is None:
            return default
        if not isinstance(raw, bool):
            raise self._wrong(name, raw, "truth value")
        return raw

    def integer(self, name: str) -> int | None:
        """Return a whole number, None when it is absent."""
        raw = self._raw.get(name)
        if raw is None:
            return None
        if isinstance(raw, bool) or not isinstance(raw, int) or abs(raw) > MOST:
            raise self._wrong(name, raw, "whole number")
        return raw

    def count(self, name: str, default: int = 0) -> int:
        """Return a whole number that is not negative."""
        found = self.integer(name)
        if found is not None and found < 0:
            raise UnreadableError(f"{self._path(name)} is {found}, less than nothing")
        return default if found is None else found

    def amount(self, name: str, resource: str) -> int | None:
        """Return a quantity of a resource, None when it is absent."""
        raw = self._raw.get(name)
        return None if raw is None else self._amount(raw, name, resource)

    def amounts(self, name: str) -> dict[str, int]:
        """Return a map of resources to quantities."""
        return {
            resource: self._amount(raw, f"{name}.{resource}", resource)
            for resource, raw in self._map(name)
        }

    def pairs(self, name: str) -> Mapping[str, str]:
        """Return a map of words to words."""
        return {key: self._word(raw, f"{name}.{key}") for key, raw in self._map(name)}

    def notes(self, name: str, prefixes: tuple[str, ...]) -> Mapping[str, str]:
        """Return a map of words to words, of keys that begin so.

        One that is longer than a word is left out: a whole manifest is nothing that we read, and
        what it stands on can be read without it.
        """
        return {
            key: self._word(raw, f"{name}.{key}")
            for key, raw in self._map(name)
            if key.startswith(prefixes) and not (isinstance(raw, str) and len(raw) > LONGEST_TEXT)
        }

    def time_s(self, name: str) -> float | None:
        """Return a time as Unix seconds, None when it is absent."""
        raw = self._raw.get(name)
        if raw is None:
            return None
        if not isinstance(raw, str):
            raise self._wrong(name, raw, "time")
        found = unix_s(raw)
        if found is None:
            raise UnreadableError(f"{self._path(name)} is no time")
        return found

    # ---- types and sizes ----

    def _word(self, raw: object, name: str) -> str:
        if not isinstance(raw, str):
            raise self._wrong(name, raw, "text")
        if len(raw) > LONGEST_TEXT:
            raise UnreadableError(f"{self._path(name)} has {len(raw)} characters")
        return sys.intern(raw)

    def _amount(self, raw: object, name: str, resource: str) -> int:
        try:
            return amount(resource, raw)
        except ValueError as error:
            raise UnreadableError(f"{self._path(name)}: {error}") from error

    def _list(self, name: str) -> list[tuple[int, object]]:
        raw = self._raw.get(name)
        if raw is None:
            return []
        if not isinstance(raw, list):
            raise self._wrong(name, raw, "list")
        if len(raw) > MOST_ITEMS:
            raise UnreadableError(f"{self._path(name)} has {len(raw)} items")
        return list(enumerate(raw))

    def _map(self, name: str) -> list[tuple[str, object]]:
        raw = self._raw.get(name)
        if raw is None:
            return []
        if not isinstance(raw, dict):
            raise self._wrong(name, raw, "map")
        if len(raw) > MOST_ITEMS:
            raise UnreadableError(f"{self._path(name)} has {len(raw)} items")
        return [(self._word(key, name), value) for key, value in raw.items()]

    def _wrong(self, name: str, raw: object, wanted: str) -> UnreadableError:
        return UnreadableError(f"{self._path(name)} is {_kind(raw)}, no {wanted}")

    def _path(self, name: str) -> str:
        return f"{self._at}.{name}" if self._at else name


def unix_s(text: str) -> float | None:
    """Return an RFC 3339 time as Unix seconds, None when it is none."""
    try:
        found = datetime.fromisoformat(text[:64])
        # A time without a zone is the server's, and servers write UTC.
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _kind(raw: object) -> str:
    match raw:
        case bool():
            return "a truth value"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return "null" if raw is None else f"a {type(raw).__name__}"
