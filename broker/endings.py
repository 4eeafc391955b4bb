"""What brokerd's exit codes mean. They are stable: scripts and service managers may rely on them.

The rule: a code says whether it helps to start brokerd again, and if not, who has to do what. What
is no fault of ours is told in one sentence; a fault of ours with its trace. Read ``CODES`` first.
"""

from broker.config import ConfigError
from broker.options import StartError
from broker.service.address import AddressRefusedError

OK = 0
FAULT = 1
USAGE = 2
DIFFERENT = 3
IN_THE_WAY = 4
UNAVAILABLE = 5
DAMAGED = 6
SUPERSEDED = 7

CODES: dict[int, str] = {
    OK: "it was told to stop and did, or the tool is done",
    FAULT: "a fault of this program, with its trace; start it again, and report it",
    USAGE: "the command line, the configuration or the address does not do; mend it",
    DIFFERENT: "rebuild --check found views that do not follow from the events",
    IN_THE_WAY: "another brokerd has the data, or something stands where a restore would go",
    UNAVAILABLE: "the disk or an embedded region fails now; try again",
    DAMAGED: "the log or a backup is damaged, or needs newer code; restore a backup, or upgrade",
    SUPERSEDED: "a newer life of this log is at work; do not start this one again",
}
SIGNALS = "128+N  a second signal N ended it before it had stopped in order"


def code_of(error: BaseException) -> int:
    """Return the exit code of what ended brokerd; FAULT for what is a fault of ours."""
    if isinstance(error, ConfigError | AddressRefusedError | StartError):
        return USAGE
    # What is only needed to serve is imported by whoever got so far that it could fail.
    from broker.loops.desk import NewerIncarnationError
    from broker.store import errors
    from regions.local.config import ConfigError as WorldError
    from regions.local.spawn import ClusterDidNotStartError

    match error:
        case WorldError():
            return USAGE
        case NewerIncarnationError():
            return SUPERSEDED
        case errors.LogInUseError() | errors.LogExistsError() | errors.LogConflictError():
            return IN_THE_WAY
        case errors.LogDamagedError() | errors.LogIncompatibleError():
            return DAMAGED
        case errors.LogError() | ClusterDidNotStartError():
            return UNAVAILABLE
        case _:
            return FAULT
