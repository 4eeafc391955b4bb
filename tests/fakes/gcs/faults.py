"""What befalls the calls of a fake, by script: refused, cut off, done and not answered.

An operation is named as the API's discovery names it (``objects.rewrite``), an upload's steps
``objects.insert``, ``uploads.start``, ``uploads.send``, and reading bytes ``objects.media``. Each
call takes the next fault of its operation's script; when none is left, nothing befalls it.
"""

import threading
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto


class Befalls(Enum):
    """What is no status to answer with."""

    CUT = auto()  # the connection ends before anything was done
    LOST = auto()  # it is done, and the connection ends instead of the answer
    HALF = auto()  # media: the connection ends half-way; an upload: half of the bytes are kept
    WRONG = auto()  # media: one byte is another


CUT, LOST, HALF, WRONG = Befalls.CUT, Befalls.LOST, Befalls.HALF, Befalls.WRONG

# A status to refuse with, one of the above, None for a call that goes well, or what happens in the
# world just before the call is looked at.
Fault = int | Befalls | Callable[[], object] | None


@dataclass
class Faults:
    """The scripts, and the calls that came: ``asked`` has each one's operation and query, and
    as ``range`` what an upload says of its piece.

    ``always`` befalls every call, before any script.
    """

    scripts: dict[str, deque[Fault]] = field(default_factory=lambda: defaultdict(deque))
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    always: Fault = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def plan(self, operation: str, *faults: Fault) -> None:
        """Have the next calls of an operation befallen by these, in this order."""
        self.scripts[operation].extend(faults)

    def befalls(self, operation: str, query: dict[str, str]) -> int | Befalls | None:
        """Note a call, let happen what is to happen before it, and return what befalls it."""
        with self._lock:
            self.asked.append((operation, query))
            script = self.scripts[operation]
            fault = self.always or (script.popleft() if script else None)
        if callable(fault):
            fault()
            return None
        return fault

    def calls(self, operation: str) -> int:
        """Return how many calls of an operation came."""
        return len([one for one, _ in self.asked if one == operation])

    def queries(self, operation: str) -> list[dict[str, str]]:
        """Return the queries of an operation's calls, in their order."""
        return [query for one, query in self.asked if one == operation]
