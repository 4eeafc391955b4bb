"""The training side of the broker: resume, save, report, and hear the word to leave.

    from broker.sdk import training

    with training.Job.from_env() as job:
        start = load(job.resume_dir())                 # None: begin from nothing
        for step in range(start + 1, steps + 1):
            job.report(step, loss=train_one_step())
            drain = agreed_by_all_ranks(job.drain())   # ranks hear it at different moments
            if drain or step % 100 == 0:
                with job.saving(step) as part:         # every rank calls this, at the same step
                    write_files_into(part)
            if drain:
                job.acknowledge(step)
                job.stand_by()                         # no more steps; the broker ends us

The rule it keeps: **training is never stopped by something that cannot be reached.** A save
goes to the local disk, and a background thread carries it to the store, files first and the
marker last. One that the disk does not take is given up aloud, and the next tries again.
Outside the broker the same script runs against a local directory.

Standard library only, Python 3.8 and later; it knows neither torch nor numpy. Read `Job` first.
"""

from broker.sdk.training.checkpoint import (
    CheckpointError,
    FileEntry,
    is_complete,
    newest_complete,
    step_of,
)
from broker.sdk.training.grant import Grant, GrantError
from broker.sdk.training.job import EXIT_DRAINED, Job
from broker.sdk.training.notes import Drain
from broker.sdk.training.replica import verify

__all__ = [
    "EXIT_DRAINED",
    "CheckpointError",
    "Drain",
    "FileEntry",
    "Grant",
    "GrantError",
    "Job",
    "is_complete",
    "newest_complete",
    "step_of",
    "verify",
]
