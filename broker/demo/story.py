"""The story that the demo tells, and the proof that it happened.

The rule: everything here is the real thing: the same daemon, clusters, launchers and training as
anywhere; only the faults are asked for. What does not happen in its time ends the demo with a
sentence. Read ``tell`` first.
"""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from broker.demo.chronicle import Chronicle, StoryError
from broker.demo.household import Household
from broker.demo.narration import sentence
from broker.demo.screen import Screen, curve
from broker.sdk import AsyncClient, BrokerError, Watch, pack
from broker.sdk.intent import parse_intent
from broker.sdk.settings import find
from broker.v1 import event_pb2, local_service_pb2, placement_pb2, run_pb2
from broker.v1.event_pb2 import Event

FIRST, SECOND, THIRD = "us-east4", "europe-west1", "us-central1"
REGIONS = (FIRST, SECOND, THIRD)
SPOT = "h100-spot"
TEAM = "research"
HERE = Path(__file__).parent
PATIENCE_S = 4
NOTICE_S = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long the training is: steps, seconds a step, and when what happens to it."""

    steps: int = 300
    step_s: float = 0.12
    kill_at: int = 45
    back_after_s: float = 4.0
    preempt_at: int = 140


class Story:
    """One telling."""

    def __init__(self, household: Household, screen: Screen, client: AsyncClient) -> None:
        self.household = household
        self.screen = screen
        self.client = client
        self.chronicle = Chronicle()
        self.name = ""
        self.note = ""

    async def tell(self, pace: Pace) -> run_pb2.Run:
        """Tell it all; return the run as it ended. Raises StoryError or HouseholdError."""
        await self._open()
        await self._submit(pace)
        async with asyncio.TaskGroup() as group:
            followers = [group.create_task(self._follow()), group.create_task(self._look())]
            await self._first_start()
            await self._lose_the_broker(pace)
            await self._lose_the_machines(pace)
            await self._end(pace)
            for follower in followers:
                follower.cancel()
        return await self.client.runs.get(self.name)

    async def _open(self) -> None:
        self.screen.title("Three regions on this machine, and a broker over them")
        await self._start_broker()
        for region in REGIONS:
            policy = await self.client.regions.policy(region)
            policy.patience.partial.FromSeconds(PATIENCE_S)
            await self.client.regions.set_policy(region, policy)
        self.screen.say(
            f"ops: a gang that comes only in part is borne {PATIENCE_S} s, for the demo"
        )
        await self.client.regions.inject(
            local_service_pb2.InjectFaultRequest(
                region=f"regions/{FIRST}",
                partial=local_service_pb2.PartialArrival(flavor=SPOT, nodes=5),
            )
        )
        self.screen.say(f"{FIRST}, the cheapest, has machines for five; the rest are out of stock")

    async def _submit(self, pace: Pace) -> None:
        self.screen.title("A run: 8 x H100, spot, in any region")
        variables = {"STEPS": str(pace.steps), "STEP_SECONDS": str(pace.step_s)}
        text = (HERE / "intent.yaml").read_bytes()
        intent = parse_intent(text, "intent.yaml", variables)
        with pack(HERE / "training") as bundle:
            uploaded = await self.client.runs.upload_bundle(TEAM, bundle)
        intent.message.workload.bundle_digest = uploaded.name.rpartition("/")[2]
        run = await self.client.runs.submit(TEAM, intent.message, run_id=intent.run_id)
        self.name = run.name
        self.screen.say(f"submitted {run.name}")

    async def _first_start(self) -> None:
        until = self.chronicle.until
        await until("a wait that is judged stuck", _is(event_pb2.EVENT_TYPE_PLACEMENT_STUCK), 60)
        await until("a leg elsewhere", _is(event_pb2.EVENT_TYPE_PLACEMENT_ADDED), 30)
        granted = await until("a grant", _is(event_pb2.EVENT_TYPE_GRANTED), 60)
        await self._expect_place(granted, SECOND)
        await until("a start", _is(event_pb2.EVENT_TYPE_GANG_RUNNING), 60)

    async def _lose_the_broker(self, pace: Pace) -> None:
        await self.chronicle.until_step(pace.kill_at, 90)
        at_step, pid = self.chronicle.step, self.household.pid
        self.screen.title("The broker is killed")
        self.household.kill()
        self.note = "brokerd is dead; the gang does not know"
        self.screen.say(f"kill -9 {pid}, at step {at_step}", style="red")
        await asyncio.sleep(pace.back_after_s)
        await self._start_broker()
        self.note = ""
        await self.chronicle.until_step(at_step + 1, 60)
        self.screen.say(
            f"the run did not notice: step {at_step} when it was killed,"
            f" {self.chronicle.step} now, the same gang",
            style="green",
        )

    async def _lose_the_machines(self, pace: Pace) -> None:
        await self.chronicle.until_step(pace.preempt_at, 90)
        self.screen.title("The cloud takes the machines back")
        fault = local_service_pb2.InjectFaultRequest(
            region=f"regions/{SECOND}", preempt=local_service_pb2.Preemption(flavor=SPOT)
        )
        fault.preempt.notice.FromSeconds(NOTICE_S)
        await self.client.regions.inject(fault)
        self.screen.say(f"{SECOND}: spot machines are preempted, {NOTICE_S} s notice", style="red")
        until = self.chronicle.until
        await until("the end of the preempted start", _is(event_pb2.EVENT_TYPE_SEALED), 60)
        await until("a place in the queue again", _is(event_pb2.EVENT_TYPE_REQUEUED), 30)
        granted = await until("the next grant", _is(event_pb2.EVENT_TYPE_GRANTED), 60)
        await self._expect_place(granted, THIRD)
        await until("the next start", _is(event_pb2.EVENT_TYPE_GANG_RUNNING), 60)
        run = await self.client.runs.get(self.name)
        if not run.epochs[-1].HasField("resume_step"):
            raise StoryError("the second start resumed from nothing")
        self.screen.say(
            f"resumed from step {run.epochs[-1].resume_step}, which was copied there ahead",
            style="green",
        )

    async def _end(self, pace: Pace) -> None:
        limit_s = 60 + 3 * pace.steps * pace.step_s
        ended = await self.chronicle.until("the end", _is(event_pb2.EVENT_TYPE_ENDED), limit_s)
        if ended.run_state != run_pb2.RUN_STATE_SUCCEEDED:
            raise StoryError(f"the run ended otherwise: {ended.message}")

    async def _start_broker(self) -> None:
        began_s = time.monotonic()
        self.household.start()
        while True:
            self.household.check(began_s)
            with contextlib.suppress(BrokerError):
                await self.client.teams.broker()
                break
            await asyncio.sleep(0.1)
        self.screen.say(f"brokerd answers, {time.monotonic() - began_s:.1f} s after its start")

    async def _expect_place(self, granted: Event, region: str) -> None:
        run = await self.client.runs.get(self.name)
        found = next((p for p in run.placements if p.name == granted.placement), None)
        place = found.place.region if found is not None else "nowhere"
        if place != region:
            raise StoryError(f"the start was granted in {place}, and should have been in {region}")

    async def _follow(self) -> None:
        async for update in self.client.follow(Watch(self.name)):
            event = self.chronicle.take(update)
            told = sentence(event) if event is not None else None
            if told is not None:
                self.screen.say(told.text, style=told.style)

    async def _look(self) -> None:
        run: run_pb2.Run | None = None
        while True:
            if self.household.pid:
                with contextlib.suppress(BrokerError):
                    run = await self.client.runs.get(self.name)
            chronicle = self.chronicle
            self.screen.update(run, chronicle.losses, chronicle.step, self.note)
            await asyncio.sleep(0.25)


async def tell(household: Household, screen: Screen, pace: Pace) -> run_pb2.Run:
    """Tell the story over a household. Raises StoryError or HouseholdError."""
    settings = find(server=household.address, team=TEAM)
    async with AsyncClient(settings, retry_for_s=30.0) as client:
        story = Story(household, screen, client)
        try:
            run = await story.tell(pace)
        except* (StoryError, BrokerError) as group:
            raise StoryError(str(_first(group))) from group
        await _sum_up(story, run)
    return run


async def _sum_up(story: Story, run: run_pb2.Run) -> None:
    timeline = await story.client.runs.timeline(run.name)
    screen, losses = story.screen, story.chronicle.losses
    screen.title("What it took")
    table = Table(box=None, padding=(0, 3, 0, 0))
    for heading in ("place", "end", "coming", "at the gate", "running", "cost"):
        table.add_column(heading, justify="left" if heading in ("place", "end") else "right")
    for placement in run.placements:
        phases = placement.phases
        table.add_row(
            placement.place.region,
            placement_pb2.PlacementEnd.Name(placement.end).removeprefix("PLACEMENT_END_").lower(),
            *(
                f"{phase.ToTimedelta().total_seconds():.0f} s"
                for phase in (phases.provisioning, phases.at_gate, phases.running)
            ),
            f"${placement.cost.units + placement.cost.nanos / 1e9:.4f}",
        )
    screen.show(table)
    useful_s = timeline.time_to_useful_work.ToTimedelta().total_seconds()
    cost = timeline.cost.units + timeline.cost.nanos / 1e9
    screen.say(f"time to useful work: {useful_s:.1f} s from submit to the first step")
    screen.say(f"cost: ${cost:.4f} at the regions' prices, waits at the gate included")
    values = list(losses.values())
    screen.say(f"loss: {values[0]:.2f} {curve(losses)} {values[-1]:.2f}")


def _is(kind: event_pb2.EventType) -> "Kind":
    return Kind(kind)


@dataclass(frozen=True, slots=True)
class Kind:
    """Whether an event is of one kind."""

    kind: event_pb2.EventType

    def __call__(self, event: Event) -> bool:
        """Return whether it is."""
        return event.type == self.kind


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    inner: Sequence[BaseException] = group.exceptions
    return _first(inner[0]) if isinstance(inner[0], BaseExceptionGroup) else inner[0]
