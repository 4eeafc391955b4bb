"""What a plan says: the choices made, in this room's own words.

The rule: a choice names a run and holds everything its command needs. ``policy.placing`` turns
choices into the commands of the log, for placement and history do not know each other.
"""

from dataclasses import dataclass

from broker.model.reasons import Reason
from broker.model.run import Purpose, Site
from broker.placement.group import Group


@dataclass(frozen=True, slots=True, kw_only=True)
class AddLeg:
    """Try to start at a site. ``message`` says in words why there."""

    placement: str
    purpose: Purpose
    site: Site
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Climb:
    """The wait is running out: every accepted rung is tried from here on."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SayWait:
    """What the run waits for, what happens next, and when (broker seconds)."""

    reason: Reason
    message: str
    next_action: str
    next_at_s: float


Choice = AddLeg | Climb | SayWait


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The choices of one tick, in the order they were made, each with the run's name.

    ``looked`` and ``met`` are the groups and the runs that were looked at to the end, ``looks``
    when a run wants to be looked at again (broker seconds); ``View.settle`` takes all three.
    ``is_whole`` False: the tick reached its limit, and the next should come at once.
    """

    choices: tuple[tuple[str, Choice], ...]
    looked: tuple[Group, ...]
    met: tuple[str, ...]
    looks: tuple[tuple[str, float], ...]
    is_whole: bool
