"""How often a gang's steps are written down: often at first, and ever more rarely as it grows old.

The rule: the stream of steps is not the log, or a month of training would be a million events. A
hang is judged by what is written, so a short timeout is written for more often. Live progress is
shown from what was last seen, whatever the log holds.
"""

from broker.model.moment import Moment
from broker.model.run import Run

OFTEN_S = 10.0
SELDOM_S = 300.0
SHARE = 1 / 360  # of the gang's age: once it is an hour old, it is more than every 10 s
LEAST_S = 0.2


def progress_every_s(run: Run, now: Moment) -> float:
    """Return the least time between two logged steps of the open epoch, in seconds."""
    epoch = run.open_epoch
    began_s = None if epoch is None else epoch.started_s
    age_s = 0.0 if began_s is None else now.since(began_s)
    every_s = min(SELDOM_S, max(OFTEN_S, age_s * SHARE))
    timeout_s = run.intent.workload.progress.timeout_s
    return every_s if timeout_s is None else min(every_s, max(LEAST_S, timeout_s / 4))
