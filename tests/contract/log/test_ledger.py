"""What every ledger promises, whatever it is kept in."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from broker.history.commands import (
    AcceptRun,
    AddPlacement,
    BeginIncarnation,
    CancelRun,
    CordonRegion,
    GrantPlacement,
    MarkPrepared,
    SetCaps,
)
from broker.history.events import Ended, Recorded, Submitted, Validated
from broker.history.refusals import Code, Refused
from broker.model.policy import TeamCaps
from broker.model.reasons import Reason
from broker.model.run import Purpose
from broker.model.states import RunState
from broker.store.errors import LogClosedError
from broker.store.ledger import PAGE, Ledger
from broker.store.listing import RunOrder, RunQuery
from tests.builders import BROKER, make_intent, make_site
from tests.fakes.readings import HandReadings
from tests.unit.store.ledgers import all_of, submit_of

from .conftest import OpenLog

CANCEL = CancelRun(grace_s=0.0, message="no longer needed")


async def read_all(ledger: Ledger, stream: str) -> list[Recorded]:
    return await ledger.read(stream, 0, 1_000)


async def test_what_was_handled_is_read_back_and_in_memory(open_log: OpenLog) -> None:
    async with open_log() as ledger:
        submit = submit_of("digits")
        assert await ledger.submit(submit, BROKER) == submit.name
        accepted = await ledger.handle(submit.name, AcceptRun(), BROKER)
        events = await read_all(ledger, submit.name)
        assert [type(one.event) for one in events] == [Submitted, Validated]
        assert tuple(events[1:]) == accepted
        assert [one.stream_version for one in events] == [1, 2]
        run = ledger.run(submit.name)
        assert run is not None
        assert (run.state, run.stream_version) == (RunState.QUEUED, 2)
        assert ledger.live_runs() == {submit.name: run}


async def test_a_command_that_holds_already_writes_nothing(open_log: OpenLog) -> None:
    async with open_log() as ledger:
        name = await ledger.submit(submit_of("digits"), BROKER)
        await ledger.handle(name, AcceptRun(), BROKER)
        assert await ledger.handle(name, AcceptRun(), BROKER) == ()
        assert len(await read_all(ledger, name)) == 2


async def test_a_refused_command_leaves_no_trace(open_log: OpenLog) -> None:
    async with open_log() as ledger:
        name = await ledger.submit(submit_of("digits"), BROKER)
        before = await all_of(ledger)
        grant = GrantPlacement(placement="p" * 12, nonce="n" * 12)
        with pytest.raises(Refused):
            await ledger.handle(name, grant, BROKER)
        with pytest.raises(Refused) as refused:
            await ledger.handle("teams/vision/runs/nobody", AcceptRun(), BROKER)
        assert refused.value.code is Code.NOT_FOUND
        assert await all_of(ledger) == before
        assert len(await read_all(ledger, name)) == 1
        later = await ledger.handle(name, AcceptRun(), BROKER)
        assert [one.position for one in later] == [2], "a refusal took a position"


async def test_a_command_for_another_kind_of_stream_is_a_bug_and_spoils_nothing(
    open_log: OpenLog,
) -> None:
    async with open_log() as ledger:
        name = await ledger.submit(submit_of("digits"), BROKER)
        wrong = ledger.handle(name, CordonRegion(message="broken"), BROKER)
        right = ledger.handle(name, AcceptRun(), BROKER)
        outcomes = await asyncio.gather(wrong, right, return_exceptions=True)
        assert isinstance(outcomes[0], TypeError)
        assert [one.event for one in outcomes[1]] == [Validated()]  # type: ignore[union-attr]


async def test_versions_of_a_stream_have_no_gap_under_concurrent_commands(
    open_log: OpenLog,
) -> None:
    async with open_log() as ledger:
        name = await ledger.submit(submit_of("digits"), BROKER)
        await asyncio.gather(*(ledger.handle(name, AcceptRun(), BROKER) for _ in range(10)))
        await asyncio.gather(*(ledger.handle(name, CANCEL, BROKER) for _ in range(10)))
        events = await read_all(ledger, name)
        assert [one.stream_version for one in events] == list(range(1, len(events) + 1))
        kinds = [type(one.event) for one in events]
        assert kinds == [Submitted, Validated, Ended]


class TestRequestId:
    """Law 2: a submit repeated with the same request id gives the same run."""

    async def test_law_2_the_same_request_gives_the_same_run(self, open_log: OpenLog) -> None:
        async with open_log() as ledger:
            first = submit_of("digits")
            # The server draws another name and uid for what it has not seen.
            again = replace(first, name="teams/vision/runs/digits-2", uid="x" * 20)
            assert await ledger.submit(first, BROKER) == first.name
            assert await ledger.submit(again, BROKER) == first.name
            assert list(ledger.live_runs()) == [first.name]
            found = await ledger.run_by_request("vision", first.request_id)
            assert found == (first.name, first.body_digest)

    async def test_law_2_the_same_request_all_at_once_makes_one_run(
        self, open_log: OpenLog
    ) -> None:
        async with open_log() as ledger:
            first = submit_of("digits")
            submits = [replace(first, name=f"{first.name}-{n}", uid=f"{n:020d}") for n in range(20)]
            names = await asyncio.gather(*(ledger.submit(s, BROKER) for s in submits))
            assert set(names) == set(ledger.live_runs())
            assert len(set(names)) == 1

    async def test_law_2_it_is_known_after_a_restart(self, open_log: OpenLog) -> None:
        first = submit_of("digits")
        async with open_log() as ledger:
            await ledger.submit(first, BROKER)
        async with open_log() as ledger:
            again = replace(first, name="teams/vision/runs/digits-2", uid="x" * 20)
            assert await ledger.submit(again, BROKER) == first.name

    async def test_with_another_body_it_is_refused_concurrently_too(
        self, open_log: OpenLog
    ) -> None:
        async with open_log() as ledger:
            first = submit_of("digits")
            other = replace(
                first, name="teams/vision/runs/letters", uid="x" * 20, body_digest="another"
            )
            outcomes = await asyncio.gather(
                ledger.submit(first, BROKER), ledger.submit(other, BROKER), return_exceptions=True
            )
            assert outcomes[0] == first.name
            refused = outcomes[1]
            assert isinstance(refused, Refused)
            assert (refused.reason, refused.code, refused.field) == (
                Reason.REQUEST_ID_REUSED,
                Code.ALREADY_EXISTS,
                "request_id",
            )
            assert list(ledger.live_runs()) == [first.name]

    async def test_it_belongs_to_its_team(self, open_log: OpenLog) -> None:
        async with open_log() as ledger:
            ours = submit_of("digits", "vision", request_id="r1")
            theirs = submit_of("digits", "speech", request_id="r1")
            assert await ledger.submit(ours, BROKER) == ours.name
            assert await ledger.submit(theirs, BROKER) == theirs.name

    async def test_a_taken_name_is_refused_and_an_ended_run_keeps_its_name(
        self, open_log: OpenLog
    ) -> None:
        async with open_log() as ledger:
            first = submit_of("digits")
            await ledger.submit(first, BROKER)
            await ledger.handle(first.name, CANCEL, BROKER)
            assert ledger.live_runs() == {}
            with pytest.raises(Refused) as refused:
                await ledger.submit(replace(first, request_id="other"), BROKER)
            assert refused.value.code is Code.ALREADY_EXISTS


async def test_law_3_a_restart_comes_to_the_same_state(
    open_log: OpenLog, readings: HandReadings
) -> None:
    async with open_log() as ledger:
        await ledger.handle("broker", BeginIncarnation(incarnation=1, is_restored=False), BROKER)
        for team in ("vision", "speech"):
            caps = SetCaps(caps=TeamCaps(running_gpus=64), expected_generation=1)
            await ledger.handle(f"teams/{team}", caps, BROKER)
            for n in range(6):
                name = await ledger.submit(submit_of(f"run-{n}", team), BROKER)
                readings.wait(7.0)
                if n % 2 == 0:
                    await ledger.handle(name, AcceptRun(), BROKER)
                if n % 3 == 0:
                    await ledger.handle(name, CANCEL, BROKER)
        await ledger.handle("regions/beta", CordonRegion(message="maintenance"), BROKER)
        before = await all_of(ledger)
    async with open_log() as ledger:
        assert await all_of(ledger) == before


async def test_law_7_a_teams_cap_is_checked_where_it_is_spent(open_log: OpenLog) -> None:
    async with open_log() as ledger:
        site = make_site()
        caps = SetCaps(caps=TeamCaps(running_gpus=3 * site.gpus), expected_generation=1)
        await ledger.handle("teams/vision", caps, BROKER)
        names = []
        for n in range(8):
            name = await ledger.submit(submit_of(f"run-{n}"), BROKER)
            placement = f"place{n:0>7}"
            add = AddPlacement(
                placement=placement, purpose=Purpose.FIRST, site=site, message="soonest"
            )
            for command in (AcceptRun(), add, MarkPrepared(placement=placement)):
                await ledger.handle(name, command, BROKER)
            names.append((name, placement))
        outcomes = await asyncio.gather(
            *(
                ledger.handle(name, GrantPlacement(placement=p, nonce=f"nonce{p[5:]}"), BROKER)
                for name, p in names
            ),
            return_exceptions=True,
        )
        refused = [o for o in outcomes if isinstance(o, Refused)]
        assert [r.reason for r in refused] == [Reason.TEAM_GPUS_SPENT] * 5
        assert ledger.standing("vision").running_gpus == 3 * site.gpus


class TestFollow:
    """Nothing is missed, nothing comes twice."""

    async def test_it_yields_every_event_once_in_order_while_they_are_written(
        self, open_log: OpenLog
    ) -> None:
        async with open_log() as ledger:
            names = [await ledger.submit(submit_of(f"run-{n}"), BROKER) for n in range(5)]

            async def write(name: str) -> None:
                for command in (AcceptRun(), CANCEL):
                    await ledger.handle(name, command, BROKER)
                    await asyncio.sleep(0)

            async def watch(name: str, after: int, delay: int) -> list[Recorded]:
                for _ in range(delay):
                    await asyncio.sleep(0)
                seen = []
                async for one in ledger.follow(name, after):
                    seen.append(one)
                    if isinstance(one.event, Ended):
                        return seen
                raise AssertionError("it ended")

            watchers = [
                watch(name, after, delay)
                for name in names
                for after in (0, 1, 2)
                for delay in (0, 1, 7)
            ]
            written = [write(name) for name in names]
            results = await asyncio.wait_for(asyncio.gather(*watchers, *written), 30.0)
            lists = iter(results)
            for name in names:
                events = await read_all(ledger, name)
                for after in (0, 1, 2):
                    for _ in range(3):
                        assert next(lists) == events[after:]

    async def test_it_goes_on_over_a_page(self, open_log: OpenLog) -> None:
        async with open_log() as ledger:
            stream = "regions/alpha"
            cordons = [CordonRegion(message=f"reason {n}") for n in range(2 * PAGE + 1)]
            await asyncio.gather(*(ledger.handle(stream, c, BROKER) for c in cordons))
            seen = []
            async for one in ledger.follow(stream, 10):
                seen.append(one.stream_version)
                if one.stream_version == len(cordons):
                    break
            assert seen == list(range(11, len(cordons) + 1))

    async def test_follow_all_yields_every_stream_in_the_logs_order(
        self, open_log: OpenLog
    ) -> None:
        async with open_log() as ledger:

            async def watch() -> list[int]:
                seen = []
                async for one in ledger.follow_all(2):
                    seen.append(one.position)
                    if len(seen) == 40:
                        return seen
                raise AssertionError("it ended")

            submits = [ledger.submit(submit_of(f"run-{n}"), BROKER) for n in range(42)]
            seen, *_ = await asyncio.wait_for(asyncio.gather(watch(), *submits), 30.0)
            assert seen == list(range(3, 43))

    async def test_each_taker_of_changes_gets_all_of_them(self, open_log: OpenLog) -> None:
        async with open_log() as ledger:
            one, other = ledger.feed.subscribe(), ledger.feed.subscribe()
            name = await ledger.submit(submit_of("digits"), BROKER)
            await ledger.handle("regions/beta", CordonRegion(message="broken"), BROKER)
            await asyncio.wait_for(one.wait(), 10.0)
            assert one.take() == {name, "regions/beta"}
            assert one.take() == frozenset()
            assert other.take() == {name, "regions/beta"}


class TestLists:
    """Pages, filters and orders."""

    async def names(self, ledger: Ledger, query: RunQuery) -> list[str]:
        found: list[str] = []
        while True:
            page = await ledger.list_runs(query)
            found += [name.rsplit("/", 1)[1] for name in page.names]
            if page.next_after is None:
                return found
            query = replace(query, after=page.next_after)

    @pytest.mark.parametrize("order", list(RunOrder))
    async def test_pages_are_right_under_inserts(
        self, open_log: OpenLog, readings: HandReadings, order: RunOrder
    ) -> None:
        async with open_log() as ledger:
            there = [f"m-{n:02}" for n in range(9)]
            for name in there:
                await ledger.submit(submit_of(name), BROKER)
                readings.wait(1.0)
            seen: list[str] = []
            query = RunQuery(order=order, page_size=2)
            for n in range(50):
                page = await ledger.list_runs(query)
                seen += [name.rsplit("/", 1)[1] for name in page.names]
                if page.next_after is None:
                    break
                query = replace(query, after=page.next_after)
                for prefix in ("a", "z"):  # before and behind, by name
                    await ledger.submit(submit_of(f"{prefix}-{n:02}"), BROKER)
            assert [name for name in seen if name.startswith("m")] == sorted(
                there, reverse=order is RunOrder.NEWEST
            )
            assert len(seen) == len(set(seen))

    async def test_runs_of_one_moment_are_all_listed(self, open_log: OpenLog) -> None:
        async with open_log() as ledger:
            for n in range(7):
                await ledger.submit(submit_of(f"run-{n}"), BROKER)
            found = await self.names(ledger, RunQuery(page_size=3))
            assert found == [f"run-{n}" for n in reversed(range(7))]

    async def test_filters_select(self, open_log: OpenLog, readings: HandReadings) -> None:
        async with open_log() as ledger:
            mine = make_intent(owner="grace", labels=(("goal", "7b"), ("phase", "pre")))
            for submit in (submit_of("a", intent=mine), submit_of("b"), submit_of("c", "speech")):
                await ledger.submit(submit, BROKER)
                readings.wait(1.0)
            b = "teams/vision/runs/b"
            await ledger.handle(b, AcceptRun(), BROKER)
            add = AddPlacement(
                placement="p" * 12, purpose=Purpose.FIRST, site=make_site("beta"), message="soon"
            )
            await ledger.handle(b, add, BROKER)
            await ledger.handle("teams/speech/runs/c", CANCEL, BROKER)
            cases = {
                RunQuery(): "cba",
                RunQuery(team="vision"): "ba",
                RunQuery(owner="grace"): "a",
                RunQuery(labels=(("goal", "7b"),)): "a",
                RunQuery(labels=(("goal", "7b"), ("phase", "post"))): "",
                RunQuery(region="beta"): "b",
                RunQuery(states=(RunState.CANCELLED,)): "c",
                RunQuery(states=(RunState.QUEUED, RunState.VALIDATING)): "ba",
                RunQuery(order=RunOrder.OLDEST): "abc",
                RunQuery(order=RunOrder.NAME): "cab",  # by team first
            }
            for query, expected in cases.items():
                assert await self.names(ledger, query) == list(expected), query
                assert (await ledger.list_runs(query)).total == len(expected), query


async def test_a_closed_ledger_takes_nothing_more(open_log: OpenLog) -> None:
    async with open_log() as ledger:
        pass
    with pytest.raises(LogClosedError):
        await ledger.submit(submit_of("digits"), BROKER)


async def test_a_downtime_counts_and_an_idle_one_too(
    open_log: OpenLog, readings: HandReadings
) -> None:
    async with open_log() as ledger:
        name = await ledger.submit(submit_of("digits"), BROKER)
        readings.wait(100.0)
        await ledger.mark_time()
    readings.reboot(50.0)
    async with open_log() as ledger:
        accepted = await ledger.handle(name, AcceptRun(), BROKER)
        assert accepted[0].at.elapsed_s == 150.0
