"""JobSets: the objects that our gangs are started by."""

from dataclasses import dataclass

from regions.kueue.objects.meta import Conditions, Meta, read_conditions, read_meta
from regions.kueue.objects.reading import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCounts:
    """How many Jobs (not pods) of one replicated job are in each state."""

    name: str
    ready: int
    succeeded: int
    failed: int
    active: int
    suspended: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSet:
    """One JobSet. ``members`` is how many pods it has when it is whole.

    ``terminal_state`` is Completed or Failed, empty while it is neither.
    """

    meta: Meta
    is_suspended: bool
    members: int
    restarts: int
    terminal_state: str
    jobs: tuple[JobCounts, ...]
    conditions: Conditions


def read_job_set(fields: Fields, _: str) -> JobSet:
    """Read a JobSet."""
    spec, status = fields.inner("spec"), fields.inner("status")
    return JobSet(
        meta=read_meta(fields),
        is_suspended=spec.flag("suspend"),
        members=sum(_members(each) for each in spec.each("replicatedJobs")),
        restarts=status.count("restarts"),
        terminal_state=status.text("terminalState"),
        jobs=tuple(_counts(each) for each in status.each("replicatedJobsStatus")),
        conditions=read_conditions(status),
    )


def _members(fields: Fields) -> int:
    job = fields.inner("template").inner("spec")
    at_once = job.count("parallelism", 1)
    return fields.count("replicas", 1) * min(at_once, job.count("completions", at_once))


def _counts(fields: Fields) -> JobCounts:
    return JobCounts(
        name=fields.text("name"),
        ready=fields.count("ready"),
        succeeded=fields.count("succeeded"),
        failed=fields.count("failed"),
        active=fields.count("active"),
        suspended=fields.count("suspended"),
    )
