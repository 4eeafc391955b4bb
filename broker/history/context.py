"""What a decision needs beside the state: now, and what spans runs.

The rule: it is read in the transaction that appends the events, so that a limit over several
runs is checked where it is spent (law 7).
"""

from dataclasses import dataclass

from broker.model.moment import Moment
from broker.model.policy import TeamStanding


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The outside of one run, as of its transaction.

    ``unseen_regions`` are those that a restored broker has not read whole and nobody waived; while
    there is one, nothing is granted (R1). Empty in a log that was never restored.
    """

    now: Moment
    team: TeamStanding
    unseen_regions: frozenset[str]
