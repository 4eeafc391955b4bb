"""When something happened: one persisted monotonic axis and the wall clock beside it.

Waits and patience are differences of ``elapsed_s``, which counts the seconds of the broker's life
and never jumps with the wall clock; the wall clock serves deadlines and people.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A point in the broker's life.

    ``elapsed_s`` is broker time: seconds since the log was created, a sum of persisted monotonic
    deltas plus downtime. ``wall_s`` is Unix time in seconds, UTC.
    """

    elapsed_s: float
    wall_s: float

    def since(self, earlier_elapsed_s: float) -> float:
        """Return the broker seconds since a point on the elapsed axis; never negative."""
        return max(0.0, self.elapsed_s - earlier_elapsed_s)
