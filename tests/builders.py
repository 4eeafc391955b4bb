"""Valid values for tests: no argument is valid, a test sets only what it is about.

The rule it keeps: a run is built only by commands through ``decide`` and ``evolve``, so that no
test stands on a state that the broker cannot reach. Read ``Story`` first.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from broker.history.commands import (
    AcceptRun,
    AddPlacement,
    CloseEpoch,
    EndPlacement,
    GrantPlacement,
    MarkPrepared,
    RecordCheckpoint,
    RecordCopy,
    RecordProgress,
    RecordRunning,
    RecordStart,
    RefuseCheckpoint,
    ReportPlacement,
    RunCommand,
    StopEpoch,
    SubmitRun,
)
from broker.history.context import Context
from broker.history.decide import decide
from broker.history.events import Recorded, RunEvent
from broker.history.evolve import evolve
from broker.history.invariants import violations
from broker.model.actor import Actor, ActorKind
from broker.model.bill import NodesFrom
from broker.model.capacity import FlavorKey
from broker.model.checkpoint import Checkpoint, CheckpointRef, EpochId
from broker.model.copying import EgressPrice
from broker.model.intent import CapacityType, HardwareOption, Intent, Terms, Workload
from broker.model.moment import Moment
from broker.model.policy import TeamCaps, TeamStanding
from broker.model.reasons import Reason
from broker.model.run import (
    Arrival,
    CloseRule,
    Epoch,
    Placement,
    Purpose,
    RankEnd,
    Run,
    Site,
)
from broker.model.states import PlacementEnd, PlacementState

GANG = HardwareOption(accelerator="h100", accelerators_per_node=1, nodes=2)
BROKER = Actor(kind=ActorKind.BROKER, name="test")
START_WALL_S = 1_700_000_000.0


def flat_egress(source: str, destination: str) -> EgressPrice:
    """Answer ``EgressPriceOf``: two cents a GiB between any two regions."""
    return EgressPrice(per_gib=Decimal(0) if source == destination else Decimal("0.02"))


def make_moment(elapsed_s: float = 0.0) -> Moment:
    """Return a moment whose wall clock runs beside the elapsed axis."""
    return Moment(elapsed_s=elapsed_s, wall_s=START_WALL_S + elapsed_s)


def make_terms(**changes: Any) -> Terms:
    """Return terms that accept every region on spot and on-demand capacity."""
    return replace(Terms(capacity_types=(CapacityType.SPOT, CapacityType.ON_DEMAND)), **changes)


def make_workload(**changes: Any) -> Workload:
    """Return a workload of two nodes with one GPU each."""
    return replace(Workload(command=("python", "train.py"), hardware=(GANG,)), **changes)


def make_intent(**changes: Any) -> Intent:
    """Return an intent; ``workload`` and ``terms`` are set whole."""
    intent = Intent(team="vision", owner="ada", workload=make_workload(), terms=make_terms())
    return replace(intent, **changes)


def make_site(region: str = "alpha", **changes: Any) -> Site:
    """Return a site for ``GANG`` on spot capacity in the region's only cluster and queue."""
    site = Site(
        key=FlavorKey(cluster=region, queue="train", flavor="spot"),
        region=region,
        capacity_type=CapacityType.SPOT,
        hardware_index=0,
        nodes=GANG.nodes,
        gpus=GANG.gpus,
        price_per_gpu_hour=Decimal("2.50"),
        forecast_p50_s=60.0,
        forecast_p90_s=300.0,
        forecast_chance=0.9,
    )
    return replace(site, **changes)


def make_standing(**changes: Any) -> TeamStanding:
    """Return the standing of a team without caps that holds nothing."""
    standing = TeamStanding(
        caps=TeamCaps(),
        running_gpus=0,
        gate_gpus=0,
        gate_gpu_minutes_today=0.0,
        spent=Decimal(0),
    )
    return replace(standing, **changes)


def make_context(now: Moment | None = None, **changes: Any) -> Context:
    """Return a context in which nothing stands against a grant."""
    context = Context(now=now or make_moment(), team=make_standing(), unseen_regions=frozenset())
    return replace(context, **changes)


def make_checkpoint(step: int = 100, **changes: Any) -> Checkpoint:
    """Return a sealed checkpoint of a first epoch, with its one copy in ``alpha``."""
    ref = CheckpointRef(epoch=EpochId(number=1, nonce="n" * 12), step=step, digest="d" * 64)
    checkpoint = Checkpoint(
        ref=ref,
        size_bytes=1_000,
        home="alpha",
        written_wall_s=START_WALL_S,
        regions=frozenset({"alpha"}),
        is_sealed=True,
    )
    return replace(checkpoint, **changes)


def make_run(**changes: Any) -> Run:
    """Return a queued run; changes are those of its intent."""
    return Story(intent=make_intent(**changes)).accepted().run


def make_placement(region: str = "alpha", **changes: Any) -> Placement:
    """Return the placement of a queued run in a region, still preparing its content."""
    story = Story().accepted().placed(region)
    return replace(story.placement(region), **changes)


class Story:
    """A run's life told by commands: each goes through decide, evolve and the invariants.

    Time stands still but for ``wait``. Placements and nonces are named after the region and their
    serial, so that a failing test reads well.
    """

    def __init__(self, intent: Intent | None = None, name: str = "digits") -> None:
        self.recorded: list[Recorded] = []
        self.now = make_moment()
        self.team = make_standing()
        self._run: Run | None = None
        self._serial = 0
        intent = intent or make_intent()
        self.name = f"teams/{intent.team}/runs/{name}"
        self.submit = SubmitRun(
            name=self.name,
            uid="u" * 20,
            intent=intent,
            request_id="request-1",
            body_digest="b" * 64,
        )

    @property
    def run(self) -> Run:
        """The run as it is now."""
        assert self._run is not None, "not submitted yet"
        return self._run

    @property
    def epoch(self) -> Epoch:
        """The open epoch."""
        assert self.run.open_epoch is not None, "no epoch is open"
        return self.run.open_epoch

    @property
    def events(self) -> list[RunEvent]:
        """All that happened."""
        return [recorded.event for recorded in self.recorded]  # type: ignore[misc]

    def placement(self, region: str) -> Placement:
        """Return the last placement in the region."""
        return [p for p in self.run.placements.values() if p.site.region == region][-1]

    def wait(self, seconds: float) -> Story:
        """Let time pass."""
        self.now = make_moment(self.now.elapsed_s + seconds)
        return self

    def tell(self, command: RunCommand, **context: Any) -> tuple[RunEvent, ...]:
        """Decide a command and fold its events; return them. Raises Refused."""
        given = replace(make_context(self.now, team=self.team), **context)
        events = decide(self._run, command, given)
        for event in events:
            recorded = Recorded(
                position=len(self.recorded) + 1,
                stream=self.name,
                stream_version=len(self.recorded) + 1,
                at=self.now,
                actor=BROKER,
                event=event,
            )
            self._run = evolve(self._run, recorded)
            self.recorded.append(recorded)
        if self._run is not None:
            assert violations(self._run) == ()
        return events

    def do(self, *commands: RunCommand) -> Story:
        """Tell commands one after the other."""
        for command in commands:
            self.tell(command)
        return self

    def accepted(self) -> Story:
        """Submit and accept: the run is QUEUED."""
        return self.do(self.submit, AcceptRun())

    def placed(self, region: str = "alpha", purpose: Purpose = Purpose.FIRST, **site: Any) -> Story:
        """Add a placement, its content not there yet."""
        self._serial += 1
        return self.do(
            AddPlacement(
                placement=f"{region[:8]}{self._serial:0>4}".ljust(12, "x"),
                purpose=purpose,
                site=make_site(region, **site),
                message=f"{region} starts soonest",
            )
        )

    def prepared(self, region: str = "alpha") -> Story:
        """Bring the content of the region's last placement."""
        return self.do(MarkPrepared(placement=self.placement(region).id))

    def reported(
        self,
        region: str = "alpha",
        state: PlacementState = PlacementState.QUEUED,
        reason: Reason = Reason.WAITING_FOR_QUOTA,
        **changes: Any,
    ) -> Story:
        """Report the region's last placement from its cluster."""
        placement = self.placement(region).id
        report = ReportPlacement(
            placement=placement,
            state=state,
            reason=reason,
            message=f"{reason} in {region}",
            arrival=Arrival(),
            cluster_uid=f"uid-{placement}",
        )
        return self.do(replace(report, **changes))

    def provisioned(self, here: int | None, region: str = "alpha", **changes: Any) -> Story:
        """Report that so many machines of the region's last placement are there."""
        arrival = Arrival(nodes_here=here, nodes_wanted=GANG.nodes)
        state, reason = PlacementState.PROVISIONING, Reason.NODES_COMING
        return self.reported(region, state, reason, arrival=arrival, **changes)

    def at_gate(self, region: str = "alpha") -> Story:
        """Bring the gang of the region's last placement to its gate, whole."""
        return self.reported(region, PlacementState.AT_GATE, Reason.AT_GATE)

    def granted(self, region: str = "alpha") -> Story:
        """Grant the region's last placement."""
        self._serial += 1
        nonce = f"nonce{self._serial:0>7}"
        return self.do(GrantPlacement(placement=self.placement(region).id, nonce=nonce))

    def started(self, ranks: int = GANG.nodes, nodes: tuple[NodesFrom, ...] = ()) -> Story:
        """Find the open epoch's owner record STARTED."""
        nonces = tuple(f"{self.epoch.id.nonce}-{rank}" for rank in range(ranks))
        return self.do(RecordStart(epoch=self.epoch.id, nonces=nonces, nodes=nodes))

    def running(self) -> Story:
        """Hear every rank of the open epoch."""
        return self.do(RecordRunning(epoch=self.epoch.id))

    def trained(self, step: int, loss: float | None = 0.5) -> Story:
        """Hear of a step of the open epoch."""
        return self.do(RecordProgress(epoch=self.epoch.id, step=step, loss=loss))

    def saved(self, step: int, *copies: str) -> Story:
        """Complete a checkpoint of the open epoch, and copy it to other regions."""
        found = self.found(step)
        self.do(found)
        return self.do(*(RecordCopy(ref=found.ref, region=region) for region in copies))

    def found(self, step: int) -> RecordCheckpoint:
        """Return what a scan of the open epoch's store says of a step."""
        epoch = self.epoch
        digest = f"{epoch.id.number:0>8}{step:0>56}"
        return RecordCheckpoint(
            ref=CheckpointRef(epoch=epoch.id, step=step, digest=digest),
            size_bytes=1_000,
            region=epoch.region,
            written_wall_s=self.now.wall_s,
        )

    def training(self, region: str = "alpha", purpose: Purpose = Purpose.FIRST) -> Story:
        """Start in a region, from a placement to RUNNING."""
        self.placed(region, purpose).prepared(region).at_gate(region).granted(region)
        return self.started().running()

    def closed(
        self,
        *exit_codes: int | None,
        rule: CloseRule = CloseRule.SEEN_ENDED,
        cause: Reason | None = None,
        found: tuple[RecordCheckpoint, ...] = (),
        refused: tuple[RefuseCheckpoint, ...] = (),
        nodes: tuple[NodesFrom, ...] = (),
    ) -> Story:
        """Close the open epoch; no exit code is both ranks' exit with 0."""
        codes = exit_codes or (0,) * len(self.epoch.nonces)
        ends = tuple(RankEnd(rank=rank, exit_code=code) for rank, code in enumerate(codes))
        has_ends = rule in (CloseRule.SEEN_ENDED, CloseRule.FENCE_HEARD)
        return self.do(
            CloseEpoch(
                epoch=self.epoch.id,
                rule=rule,
                ends=ends if has_ends else (),
                found=found,
                refused=refused,
                cause=cause,
                message="" if cause is None else f"closed for {cause}",
                nodes=nodes,
            )
        )

    def preempted(self) -> Story:
        """Close the open epoch because its node was taken."""
        return self.closed(None, None, cause=Reason.NODE_PREEMPTED)

    def stopped(self, reason: Reason = Reason.REGION_DRAINING) -> Story:
        """Order the open epoch to stop."""
        return self.do(StopEpoch(reason=reason, message=f"stop for {reason}"))

    def gone(
        self,
        region: str = "alpha",
        end: PlacementEnd = PlacementEnd.WITHDRAWN,
        nodes: tuple[NodesFrom, ...] = (),
    ) -> Story:
        """See the region's last placement gone."""
        return self.do(
            EndPlacement(
                placement=self.placement(region).id,
                end=end,
                reason=Reason.OTHER_LEG_STARTED,
                message="seen gone",
                nodes=nodes,
            )
        )
