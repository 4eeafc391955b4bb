"""What really happened, as somebody sees it who stands outside: no belief of the broker is in here.

The rule: processes, stores and clusters tell what they did; of the broker only what it made durable
in any of its lives is kept, also what a restore forgot. Read ``Record`` first.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from broker.history.events import Recorded
from broker.model.checkpoint import CheckpointRef
from broker.model.run import CloseRule
from regions.launcher.layout import Grant

NEVER_S = float("inf")
NOTICED_S = 30.0  # a verdict waits 8 s here, from when it is seen, and clusters are seen late
Save = tuple[str, str, int]
"""A run key, an epoch's folder and a step."""


@dataclass(slots=True)
class GangTruth:
    """A gang whose program ran, or runs. ``ranks`` are those that run it now."""

    run_key: str
    place: str
    placement: str
    grant: Grant
    gpus: int
    began_s: float
    ranks: set[int] = field(default_factory=set)
    joined: set[int] = field(default_factory=set)

    @property
    def epoch(self) -> str:
        """The folder of its epoch."""
        return self.grant.epoch.name


@dataclass(frozen=True, slots=True)
class Acked:
    """A submit that was answered with OK."""

    name: str
    request_id: str
    at_s: float


@dataclass(frozen=True, slots=True)
class SealTruth:
    """A seal that was made durable."""

    rule: CloseRule
    checkpoints: tuple[CheckpointRef, ...]
    at_s: float


@dataclass(frozen=True, slots=True)
class Damage:
    """A copy is not what was saved, since when. ``is_visible``: without its bytes being read."""

    at_s: float
    is_visible: bool


@dataclass(frozen=True, slots=True)
class OwnFailure:
    """A rank's program failed by itself."""

    at_s: float
    rank: int


@dataclass(slots=True)
class RunTruth:
    """What the logs of all lives said of one run, and what its program did.

    ``own_failures`` are the epochs that its own code ended. ``stopped`` are those that a log told
    to stop or to drain for any other reason, ``struck_s`` is when machines were first taken.
    ``resumed_s`` is when its user last asked for a start.
    """

    name: str = ""
    team: str = ""
    submitted_s: float = 0.0
    seals: dict[str, SealTruth] = field(default_factory=dict)
    granted: dict[str, str] = field(default_factory=dict)
    placements: set[str] = field(default_factory=set)
    given_up: set[str] = field(default_factory=set)
    bad: dict[tuple[str, int], float] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)
    granted_s: dict[str, float] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)
    struck_s: dict[str, float] = field(default_factory=dict)
    own_failures: dict[str, OwnFailure] = field(default_factory=dict)
    is_fork: bool = False
    resumed_s: float = -1.0
    ended_s: float | None = None
    ended: str = ""

    def counted_failures(self) -> dict[str, OwnFailure]:
        """Return the failures that are surely the run's own, by epoch, as a log can know them."""
        return {
            epoch: failure
            for epoch, failure in self.own_failures.items()
            if not self._is_excused(epoch, failure)
        }

    def _is_excused(self, epoch: str, failure: OwnFailure) -> bool:
        # Who is asked to leave may end as it likes, and of a failure shortly before that is not
        # heard of yet a log cannot know which came first.
        if epoch in self.stopped:
            return True
        # A machine that goes is noticed late, and then explains the failure before it: a verdict
        # waits for such a notice, for as long as the policy says.
        if self.struck_s.get(epoch, NEVER_S) <= failure.at_s + NOTICED_S:
            return True
        # Closed by rule (d): nobody has looked.
        seal = self.seals.get(epoch)
        return seal is not None and seal.rule is CloseRule.UNREACHABLE


@dataclass(slots=True)
class Record:
    """All of it."""

    runs: dict[str, RunTruth] = field(default_factory=lambda: defaultdict(RunTruth))
    uids: dict[str, str] = field(default_factory=dict)
    gangs: dict[tuple[str, str, str], GangTruth] = field(default_factory=dict)
    saves: dict[Save, dict[str, bytes]] = field(default_factory=dict)
    saved_s: dict[Save, float] = field(default_factory=dict)
    finished: set[tuple[str, str]] = field(default_factory=set)
    failures: Counter[str] = field(default_factory=Counter)
    damages: dict[tuple[str, Save], Damage] = field(default_factory=dict)
    lost_owners: set[tuple[str, str]] = field(default_factory=set)
    acked: dict[str, Acked] = field(default_factory=dict)
    log: dict[str, list[Recorded]] = field(default_factory=lambda: defaultdict(list))
    caps: dict[str, int] = field(default_factory=dict)
    strangers: dict[str, tuple[str, float]] = field(default_factory=dict)

    def training(self, run_key: str) -> list[GangTruth]:
        """Return the gangs of a run whose program runs now, at least in part."""
        return [gang for gang in self.gangs.values() if gang.run_key == run_key and gang.ranks]

    def is_given_up(self, gang: GangTruth) -> bool:
        """Whether a log closed its epoch without proof, by rule (d): it may train on."""
        seal = self.runs[gang.run_key].seals.get(gang.epoch)
        return seal is not None and seal.rule is CloseRule.UNREACHABLE

    def is_unsure(self, gang: GangTruth) -> bool:
        """Whether the only proof that its epoch began went with a disk, unseen by any log."""
        number = gang.epoch.partition("-")[0]
        truth = self.runs[gang.run_key]
        return (gang.run_key, number) in self.lost_owners and gang.epoch not in truth.started

    def is_sealed(self, gang: GangTruth) -> bool:
        """Whether any log closed its epoch."""
        return gang.epoch in self.runs[gang.run_key].seals
