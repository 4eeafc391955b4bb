"""The desk: refusals are counted, one run's error is its own, and the log's stops the tick."""

import asyncio

import pytest

from broker.history.commands import AcceptRun, Command, WarnRun
from broker.history.events import Recorded
from broker.history.refusals import Refused
from broker.loops.desk import TURN, Counts, Desk, putting_back
from broker.model.actor import Actor, ActorKind
from broker.model.reasons import Reason
from broker.model.run import Run
from broker.store.errors import LogUnwritableError
from broker.store.feed import Changes
from tests.builders import Story


class Clerk:
    """A log that answers as it is told; all other of a log is not asked here."""

    def __init__(self, answer: Exception | None = None) -> None:
        self.answer = answer
        self.heard: list[Command] = []
        self.known = Story().accepted().run

    async def handle(self, stream: str, command: Command, actor: Actor) -> tuple[Recorded, ...]:
        self.heard.append(command)
        if self.answer is not None:
            raise self.answer
        return ()

    def run(self, name: str) -> Run | None:
        return self.known


def desk_at(clerk: Clerk, counts: Counts) -> Desk:
    return Desk(clerk, "placer", counts, ActorKind.BROKER)  # type: ignore[arg-type]


async def test_a_refusal_is_counted_and_ends_what_was_to_follow() -> None:
    clerk, counts = Clerk(Refused(Reason.ILLEGAL_IN_STATE, "no")), Counts()
    assert not await desk_at(clerk, counts).tell("x", AcceptRun(), AcceptRun())
    assert clerk.heard == [AcceptRun()]
    assert counts.refusals["placer", Reason.ILLEGAL_IN_STATE] == 1


async def test_an_error_in_one_run_is_said_to_its_users_and_stops_no_other() -> None:
    clerk, counts = Clerk(), Counts()
    handled = []

    async def handle(name: str) -> None:
        handled.append(name)
        if name == "b":
            raise ValueError("surprise")

    assert await desk_at(clerk, counts).for_each(["a", "b", "c"], handle) == ("b",)
    assert handled == ["a", "b", "c"]
    assert counts.failures["placer"] == 1
    (warning,) = clerk.heard
    assert isinstance(warning, WarnRun)


async def test_an_error_of_the_log_stops_the_tick_and_loses_no_news() -> None:
    desk = desk_at(Clerk(LogUnwritableError("full")), Counts())
    changes = Changes()

    async def handle(name: str) -> None:
        await desk.tell(name, AcceptRun())

    names = {"a", "b"}
    with pytest.raises(LogUnwritableError), putting_back(changes, names):
        await desk.for_each(sorted(names), handle)
    assert changes.take() == names


@pytest.mark.parametrize(("at_once", "together"), [(1, 1), (4, 4), (32, 10)])
async def test_only_so_many_runs_are_handled_at_once_and_they_begin_in_order(
    at_once: int, together: int
) -> None:
    counts = Counts()
    desk = Desk(Clerk(), "placer", counts, ActorKind.BROKER, at_once=at_once)  # type: ignore[arg-type]
    begun: list[str] = []
    under_way: set[str] = set()
    most = 0

    async def handle(name: str) -> None:
        nonlocal most
        begun.append(name)
        under_way.add(name)
        most = max(most, len(under_way))
        for _ in range(3):
            await asyncio.sleep(0)
        under_way.remove(name)
        if name == "run3":
            raise ValueError("surprise")

    names = [f"run{number}" for number in range(10)]
    assert await desk.for_each(names, handle) == ("run3",)
    assert (begun, most) == (names, together)


async def test_an_error_of_the_log_lets_no_further_run_begin() -> None:
    desk = Desk(Clerk(), "placer", Counts(), ActorKind.BROKER, at_once=2)  # type: ignore[arg-type]
    begun: list[str] = []

    async def handle(name: str) -> None:
        begun.append(name)
        await asyncio.sleep(0)
        if name == "a":
            raise LogUnwritableError("no space")

    with pytest.raises(LogUnwritableError):
        await desk.for_each(["a", "b", "c", "d", "e"], handle)
    assert begun[:2] == ["a", "b"]
    assert "e" not in begun


@pytest.mark.parametrize("at_once", [1, 4, TURN, 2 * TURN])
async def test_others_have_their_turn_while_many_runs_are_handled(at_once: int) -> None:
    desk = Desk(Clerk(), "placer", Counts(), ActorKind.BROKER, at_once=at_once)  # type: ignore[arg-type]
    handled = 0
    seen: list[int] = []

    async def handle(name: str) -> None:
        nonlocal handled
        handled += 1

    async def look_on() -> None:
        while handled < 10 * TURN:
            seen.append(handled)
            await asyncio.sleep(0)

    looking = asyncio.get_running_loop().create_task(look_on())
    assert await desk.for_each([f"run-{n}" for n in range(10 * TURN)], handle) == ()
    await looking
    steps = [later - sooner for sooner, later in zip(seen, [*seen[1:], handled], strict=True)]
    assert max(steps) <= max(TURN, at_once)
