"""What makes runs alike, so that of thousands only the first of each kind is planned.

The rule: two runs of equal demand are offered and refused the very same things at the same
prices, so when the first of a group finds no place none of the group would. A run with a history
of its own (a checkpoint, an ended attempt, a deadline, a budget) is a group alone.
"""

from dataclasses import dataclass

from broker.model.image import PinnedImage
from broker.model.intent import (
    AfterMaxWait,
    CapacityType,
    HardwareOption,
    Input,
    SecretRef,
)
from broker.model.run import Run

Rank = tuple[int, float, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """All of a run that decides where it may start. ``alone`` is its name when none is alike."""

    team: str
    hardware: tuple[HardwareOption, ...]
    inputs: tuple[Input, ...]
    secrets: tuple[SecretRef, ...]
    image: PinnedImage | None
    regions: tuple[str, ...]
    residency: tuple[str, ...]
    capacity_types: tuple[CapacityType, ...]
    max_wait_s: float | None
    after_max_wait: AfterMaxWait
    expected_duration_s: float | None
    priority: int
    climbed: bool
    alone: str

    @property
    def accelerators(self) -> frozenset[str]:
        """The kinds of accelerator that any of its hardware options takes."""
        return frozenset(option.accelerator for option in self.hardware)


def demand_of(run: Run) -> Demand:
    """Return the demand of a waiting run."""
    terms, workload = run.terms, run.intent.workload
    has_history = bool(run.placements or run.checkpoints or run.forked_from)
    is_bounded = terms.deadline_wall_s is not None or terms.budget is not None
    return Demand(
        team=run.intent.team,
        hardware=workload.hardware,
        inputs=workload.inputs,
        secrets=workload.secrets,
        image=run.image,
        regions=terms.regions,
        residency=terms.residency,
        capacity_types=terms.capacity_types,
        max_wait_s=terms.max_wait_s,
        after_max_wait=terms.after_max_wait,
        expected_duration_s=terms.expected_duration_s,
        priority=terms.priority,
        climbed=run.climbed,
        alone=run.name if has_history or is_bounded else "",
    )


def rank_of(run: Run) -> Rank:
    """Return what runs are ordered by, smallest first: priority, then age, then name."""
    return (-run.terms.priority, run.created.elapsed_s, run.name)
