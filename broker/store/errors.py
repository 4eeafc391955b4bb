"""What can go wrong at the log.

LogError
├── LogConflictError      somebody else appended first; nothing was written
├── LogUnwritableError    the disk is full, read-only or failing; nothing was written
├── LogUnreadableError    the disk fails when it is read
├── LogBusyError          more commands wait for the disk than are kept; nothing was written
├── LogClosedError        brokerd is stopping; nothing was written
├── LogIncompatibleError  the log was written by a release this code cannot read
├── LogInUseError         another brokerd has this data directory
├── LogExistsError        a restore would replace something and was not told to
└── LogDamagedError       the log or a backup does not hold together
"""


class LogError(Exception):
    """The log could not do what was asked; the sentence says what an operator can do."""


class LogConflictError(LogError):
    """The stream is not at the expected version."""


class LogUnwritableError(LogError):
    """Nothing was written, and nothing will be until the disk takes writes again."""


class LogUnreadableError(LogError):
    """A question could not be answered from the disk."""


class LogBusyError(LogError):
    """More commands wait for the disk than the broker keeps in memory; try again soon."""


class LogClosedError(LogError):
    """The ledger was closed."""


class LogIncompatibleError(LogError):
    """The log's schema is newer than this code understands."""


class LogInUseError(LogError):
    """Another process holds the data directory's lock."""


class LogExistsError(LogError):
    """There is something where a restore was to go."""


class LogDamagedError(LogError):
    """What was read cannot be true."""
