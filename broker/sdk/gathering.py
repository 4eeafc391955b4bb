"""All that is wrong with what somebody wrote, told at once.

The rule: one thing that cannot be read does not hide the next. Read ``Gathering`` first.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

from broker.sdk.errors import IntentError, Violation

FOUND_MAX = 50  # nobody mends as many at once


class Gathering:
    """The violations of several readings, in their order, the first of each field."""

    def __init__(self) -> None:
        self._found: dict[str, Violation] = {}

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Keep what an IntentError of the block says, and go on after it."""
        try:
            yield
        except IntentError as error:
            for one in error.violations:
                self._found.setdefault(one.field, one)

    @property
    def is_full(self) -> bool:
        """Whether there is more to mend already than anybody is told."""
        return len(self._found) >= FOUND_MAX

    def is_about(self, field: str) -> bool:
        """Whether something is known to be wrong with a field, or with what it is in or holds."""
        return any(
            field == one
            or one.startswith((f"{field}.", f"{field}["))
            or field.startswith((f"{one}.", f"{one}["))
            for one in self._found
        )

    def check(self) -> None:
        """Raise IntentError with all that was found, if anything was."""
        if self._found:
            raise IntentError.of(islice(self._found.values(), FOUND_MAX))
