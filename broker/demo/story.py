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

from broker.demo import summary
from broker.demo.chronicle import Chronicle, StoryError
from broker.demo.narration import Narrator, Told
from broker.demo.screen import Screen, Sight, curve
from broker.demo.stage import FIRST, REGIONS, SECOND, THIRD, Stage
from broker.demo.testimony import newest_report
from broker.sdk import AsyncClient, BrokerError, Watch, pack
from broker.sdk.intent import parse_intent
from broker.sdk.settings import find
from broker.v1 import event_pb2, run_pb2
from broker.v1.event_pb2 import Event

TEAM = "research"
HERE = Path(__file__).parent
MACHINES = 5  # of the eight that the gang needs
PATIENCE_S = 4
NOTICE_S = 8
LOOK_S = 0.25
RETRY_FOR_S = 30.0
ALONE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long the training is: steps, seconds a step, and when what happens to it."""

    steps: int = 300
    step_s: float = 0.12
    kill_at: int = 45
    steps_without_broker: int = 25
    preempt_at: int = 140


class Story:
    """One telling."""

    def __init__(self, stage: Stage, screen: Screen, client: AsyncClient, pace: Pace) -> None:
        self.stage = stage
        self.screen = screen
        self.client = client
        self.pace = pace
        self.chronicle = Chronicle()
        self.narrator = Narrator(len(REGIONS))
        self.run = run_pb2.Run()

    async def tell(self) -> run_pb2.Run:
        """Tell it all; return the run as it ended. Raises StoryError or StageError."""
        await self._open()
        await self._submit()
        async with asyncio.TaskGroup() as group:
            followers = [group.create_task(self._follow()), group.create_task(self._look())]
            await self._start()
            await self._lose_the_broker()
            await self._lose_the_machines()
            await self._end()
            for follower in followers:
                follower.cancel()
        self.run = await self.client.runs.get(self.run.name)
        return self.run

    async def _open(self) -> None:
        screen = self.screen
        screen.head(*self.stage.head)
        screen.title("Three regions on this machine, and a broker over them")
        await self._start_broker()
        for region in REGIONS:
            policy = await self.client.regions.policy(region)
            policy.patience.partial.FromSeconds(PATIENCE_S)
            await self.client.regions.set_policy(region, policy)
        screen.say(
            f"ops: a gang that comes only in part is borne {PATIENCE_S} s; short, for a demo"
        )
        await self.stage.run_short(self.client, MACHINES)
        screen.say(f"{FIRST}, the cheapest, has five spot machines; the rest are out of stock")

    async def _submit(self) -> None:
        self.screen.title("Submitted: 8 x H100, spot, in any region, ten minutes' wait at most")
        variables = {"STEPS": str(self.pace.steps), "STEP_SECONDS": str(self.pace.step_s)}
        text = (HERE / "intent.yaml").read_bytes()
        intent = parse_intent(text, "intent.yaml", variables)
        with pack(HERE / "training") as bundle:
            uploaded = await self.client.runs.upload_bundle(TEAM, bundle)
        intent.message.workload.bundle_digest = uploaded.name.rpartition("/")[2]
        self.stage.dress(intent.message)
        self.run = await self.client.runs.submit(TEAM, intent.message, run_id=intent.run_id)
        self.screen.say(f"{self.run.name} is in the log; from here on it cannot be lost")

    async def _start(self) -> None:
        until = self.chronicle.until
        await until("a wait that is judged stuck", _Is(event_pb2.EVENT_TYPE_PLACEMENT_STUCK), 60)
        await until("a leg elsewhere", _Is(event_pb2.EVENT_TYPE_PLACEMENT_ADDED), 30)
        granted = await until("a grant", _Is(event_pb2.EVENT_TYPE_GRANTED), 60)
        await self._expect_place(granted, SECOND)
        await until("a start", _Is(event_pb2.EVENT_TYPE_GANG_RUNNING), 60)

    async def _lose_the_broker(self) -> None:
        await self.chronicle.until_step(self.pace.kill_at, 90)
        at_step, pid = self.chronicle.step, self.stage.pid
        self.screen.title("The broker is killed")
        self.stage.kill()
        self.screen.say(f"kill -9 {pid}, at step {at_step}", style="red")
        await self._until_step_without_broker(at_step + self.pace.steps_without_broker)
        await self._start_broker()
        await self.chronicle.until_step(at_step + self.pace.steps_without_broker, 60)
        self.run = await self.client.runs.get(self.run.name)
        if [epoch.number for epoch in self.run.epochs] != [1]:
            raise StoryError("the run was started again, though only its broker was killed")
        self.screen.say(
            f"the run did not notice: step {self.chronicle.step} now, the same start of the gang",
            style="green",
        )

    async def _until_step_without_broker(self, step: int) -> None:
        """Wait until the gang's own reports, read in its region's store, tell of a step."""
        give_up_s = time.monotonic() + ALONE_S
        told_step, loss = self._gang_says()
        while told_step < step:
            if time.monotonic() > give_up_s:
                raise StoryError("the gang stopped when its broker was killed")
            await asyncio.sleep(LOOK_S)
            told_step, loss = self._gang_says()
        self.screen.say(
            f"brokerd is dead, the gang trains on: step {told_step}, loss {loss:.2f}, by its own"
            f" reports in the store of {SECOND}"
        )

    async def _lose_the_machines(self) -> None:
        await self.chronicle.until_step(self.pace.preempt_at, 90)
        self.screen.title("The cloud takes the machines back")
        at_step = self.chronicle.step
        await self.stage.preempt(self.client, NOTICE_S)
        self.screen.say(
            f"{SECOND}: all spot machines are preempted, with {NOTICE_S} s notice", style="red"
        )
        until = self.chronicle.until
        sealed = await until("the end of that start", _Is(event_pb2.EVENT_TYPE_SEALED), 60)
        await until("a place in the queue again", _Is(event_pb2.EVENT_TYPE_REQUEUED), 30)
        self.screen.say(
            f"the notice came at step {at_step}; the newest step that counts is"
            f" {max(sealed.sealed_steps, default=0)}"
        )
        granted = await until("the next grant", _Is(event_pb2.EVENT_TYPE_GRANTED), 60)
        await self._expect_place(granted, THIRD)
        await until("the next start", _Is(event_pb2.EVENT_TYPE_GANG_RUNNING), 60)
        self.run = await self.client.runs.get(self.run.name)
        if not self.run.epochs[-1].HasField("resume_step"):
            raise StoryError("the second start resumed from nothing")
        self.screen.say(
            f"resumed in {THIRD} from step {self.run.epochs[-1].resume_step}, whose copy stood"
            " there before the grant",
            style="green",
        )

    async def _end(self) -> None:
        limit_s = 60 + 3 * self.pace.steps * self.pace.step_s
        ended = await self.chronicle.until("the end", _Is(event_pb2.EVENT_TYPE_ENDED), limit_s)
        if ended.run_state != run_pb2.RUN_STATE_SUCCEEDED:
            raise StoryError(f"the run ended otherwise: {ended.message}")

    async def _start_broker(self) -> None:
        began_s = time.monotonic()
        self.stage.start()
        while True:
            self.stage.check(began_s)
            with contextlib.suppress(BrokerError):
                if await self.stage.is_ready(self.client):
                    break
            await asyncio.sleep(0.1)
        self.screen.say(f"brokerd answers, {time.monotonic() - began_s:.1f} s after its start")

    async def _expect_place(self, granted: Event, region: str) -> None:
        run = await self.client.runs.get(self.run.name)
        found = next((p for p in run.placements if p.name == granted.placement), None)
        place = found.place.region if found is not None else "nowhere"
        if place != region:
            raise StoryError(f"the start was granted in {place}, and should have been in {region}")

    async def _follow(self) -> None:
        """Hear all that the broker tells of the run, and say what is worth a line."""
        async for update in self.client.follow(Watch(self.run.name)):
            event = self.chronicle.take(update)
            if event is not None:
                self._say(self.narrator.hear(event, time.monotonic()))
            else:
                self._say(self.narrator.step(self.chronicle.step, self.chronicle.last_loss))

    async def _look(self) -> None:
        """Keep the lower part of the screen as things are."""
        while True:
            self._say(self.narrator.settle(time.monotonic()))
            chronicle, note = self.chronicle, ""
            step, losses = chronicle.step, chronicle.losses
            if self.stage.pid:
                with contextlib.suppress(BrokerError):
                    self.run = await self.client.runs.get(self.run.name)
            else:
                note = "brokerd is dead; step and loss are read from the gang's own reports"
                told_step, loss = self._gang_says()
                step, losses = told_step, {**losses, told_step: loss}
            self.screen.update(
                Sight(
                    run=self.run,
                    losses=losses,
                    step=step,
                    steps=self.pace.steps,
                    newest=chronicle.newest,
                    note=note,
                )
            )
            await asyncio.sleep(LOOK_S)

    def _say(self, lines: Sequence[Told]) -> None:
        for line in lines:
            self.screen.say(line.text, style=line.style)

    def _gang_says(self) -> tuple[int, float]:
        """Return step and loss by what the gang wrote into its region's store."""
        report = newest_report(self.stage.store(SECOND), self.run)
        if report is None or report.step is None or report.loss is None:
            return self.chronicle.step, self.chronicle.last_loss or 0.0
        return report.step, report.loss


async def tell(stage: Stage, screen: Screen, pace: Pace) -> run_pb2.Run:
    """Tell the story on a stage. Raises StoryError or StageError."""
    settings = find(server=stage.address, team=TEAM, user="demo")
    async with AsyncClient(settings, retry_for_s=RETRY_FOR_S) as client:
        story = Story(stage, screen, client, pace)
        try:
            run = await story.tell()
        except* (StoryError, BrokerError) as group:
            raise StoryError(str(_first(group))) from group
        await _sum_up(story, run)
    return run


async def _sum_up(story: Story, run: run_pb2.Run) -> None:
    screen, losses = story.screen, story.chronicle.losses
    timeline = await story.client.runs.timeline(run.name)
    placements = sorted(timeline.placements, key=lambda p: p.create_time.ToNanoseconds())
    useful_s = timeline.time_to_useful_work.ToTimedelta().total_seconds()
    by_phase = summary.cost_by_phase(timeline.spending)
    parts = "".join(f"  {phase:<19}${cost:.3f}\n" for phase, cost in by_phase.items())
    first, last = losses[min(losses)], losses[max(losses)]
    screen.still()
    screen.title("What it took")
    screen.show(summary.chart(placements, screen.width - 4))
    screen.show(summary.table(placements))
    screen.show(
        f"time to useful work  {useful_s:.1f} s from submit to the first step\n"
        f"cost                 ${summary.dollars(timeline.spending.cost):.3f}, and of that\n{parts}"
        f"loss                 {first:.2f} {curve(losses, 40)} {last:.2f}"
    )


@dataclass(frozen=True, slots=True)
class _Is:
    """Whether an event is of one kind."""

    kind: int

    def __call__(self, event: Event) -> bool:
        return event.type == self.kind


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    inner: Sequence[BaseException] = group.exceptions
    return _first(inner[0]) if isinstance(inner[0], BaseExceptionGroup) else inner[0]
