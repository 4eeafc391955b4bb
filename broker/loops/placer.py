"""The placer: keeps the view up to date, and asks the pure rooms what is to be done.

The rule: one tick takes in what changed, judges the runs that are due (``policy.judge``), then
plans (``placement.plan``), and hands all of it to the log. It touches no cluster. The log's
refusals are no failures: the state moved on, and the run is looked at again. Read
``Placer.tick``.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

from broker.history.commands import (
    GrantPlacement,
    MarkPrepared,
    RunCommand,
)
from broker.history.lineage import pick
from broker.history.regional import unseen_regions
from broker.loops.desk import TURN, Clock, Desk, putting_back
from broker.loops.doubting import lost_copy
from broker.loops.epochs import EpochBook
from broker.loops.image_vouching import ImageVoucher
from broker.loops.outposts import Outposts
from broker.loops.roster import Roster
from broker.loops.sight import Sight, not_configured
from broker.loops.vouching import GRANT_LASTS_S, LASTS_S, Voucher
from broker.model.moment import Moment
from broker.model.run import Placement, Run
from broker.model.states import PlacementState
from broker.placement.line import Agenda
from broker.placement.plan import plan
from broker.placement.standing import RegionStanding
from broker.placement.view import View
from broker.policy.judge import judge, next_look_s
from broker.policy.placing import commands
from broker.runtime.turns import Turns

PLANS_PER_TICK = 8  # a plan that reached its bound is followed by another at once
JUDGED_PER_TICK = 1_000
LOOK_SOON_S = 0.1  # file work whose outcome a judgement waits for
JUDGE_AGAIN_S = 1.0  # a run that the log refused something for is judged again after so long


class Draws(Protocol):
    """Chance, for ids."""

    def placement(self) -> str:
        """Return the id of a placement."""
        ...

    def nonce(self) -> str:
        """Return the nonce of a grant."""
        ...


class Placer:
    """Decides for all runs. One per broker: it is the view's only writer."""

    def __init__(
        self,
        *,
        desk: Desk,
        policy: Desk,
        roster: Roster,
        sight: Sight,
        view: View,
        book: EpochBook,
        voucher: Voucher,
        images: ImageVoucher | None,
        outposts: Outposts,
        draws: Draws,
        clock: Clock,
    ) -> None:
        """Make it. What is judged of a run is told in the name of ``policy``.

        ``images`` None: no registry is configured, and none is asked before a grant.
        """
        self._desk = desk
        self._policy = policy
        self._roster = roster
        self._sight = sight
        self._view = view
        self._book = book
        self._voucher = voucher
        self._images = images
        self._outposts = outposts
        self._draws = draws
        self._clock = clock
        self._due = Agenda()
        self._capped: set[str] = set()
        self.changes = desk.log.feed.subscribe()
        self.changes.add({f"regions/{region}" for region in outposts.regions})
        self.changes.add(set(roster.names()))
        sight.subscribe(self.changes)

    async def tick(self) -> None:
        """Take in what changed, judge what is due, plan."""
        self._roster.refresh()
        now = self._clock.now()
        names = await self._take_in()
        names |= set(self._due.due(now.elapsed_s, JUDGED_PER_TICK))
        with putting_back(self.changes, names):
            failed = await self._desk.for_each(sorted(names), self._judge)
        for name in failed:
            self._due.set(name, now.elapsed_s + JUDGE_AGAIN_S)
        # What was just decided is part of what is planned on.
        later = await self._take_in()
        self.changes.add(later)
        if self._sight.has_looked_everywhere():
            # Before, a start of the broker would look like an outage of everything.
            await self._plan()

    def next_s(self) -> float | None:
        """Return when time alone next calls for a tick (broker seconds), None for not foreseen."""
        times = (self._due.next_s(), self._view.agenda.next_s())
        return min((at_s for at_s in times if at_s is not None), default=None)

    async def _take_in(self) -> set[str]:
        """Bring the view up to date; return the runs that changed or whose world did."""
        taken = self.changes.take()
        with putting_back(self.changes, taken):
            # In order, so that the same changes make the same plan.
            return await self._take_in_streams(sorted(taken))

    async def _take_in_streams(self, streams: list[str]) -> set[str]:
        names = {one for one in streams if "/runs/" in one}
        for stream in streams:
            kind, _, rest = stream.partition("/")
            if kind == "regions":
                names |= self._take_in_region(rest)
            elif kind == "broker":
                for region in self._outposts.regions:
                    names |= self._take_in_region(region)
            elif kind == "clusters":
                self._view.apply_cluster(self._sight.cluster(rest).facts)
                names |= self._roster.on_cluster(rest)
        for signal in self._sight.take_signals():
            self._view.apply_signal(signal)
        await self._take_in_runs(streams)
        return names

    async def _take_in_runs(self, streams: list[str]) -> None:
        turns = Turns(TURN)
        teams = {stream.split("/")[1] for stream in streams if stream.startswith("teams/")}
        for stream in streams:
            run = self._desk.log.run(stream) if "/runs/" in stream else None
            if run is not None:
                self._miss_clusters(run)
                self._view.apply_run(run)
                await turns.pass_on()
        # The minutes of a team with such a cap run on by themselves.
        for team in sorted(teams | self._capped):
            standing = self._desk.log.standing(team)
            self._view.apply_team(team, standing)
            if standing.caps.gate_gpu_minutes_per_day is None:
                self._capped.discard(team)
            else:
                self._capped.add(team)

    def _miss_clusters(self, run: Run) -> None:
        """Let clusters that are no longer configured be silent ones, where a run has something."""
        epoch = run.open_epoch
        places = [(leg.site.key.cluster, leg.site.region) for leg in run.live_placements]
        places += [(epoch.cluster, epoch.region)] if epoch is not None else []
        for cluster, region in places:
            if cluster in self._view.clusters or self._outposts.get(cluster) is not None:
                continue
            self._view.apply_cluster(not_configured(cluster, region, self._clock.now()))

    def _take_in_region(self, region: str) -> set[str]:
        log = self._desk.log
        state = log.region(region)
        unseen = unseen_regions(log.broker(), {region: state}, (region,))
        standing = RegionStanding(
            region=region,
            policy=state.policy,
            is_cordoned=state.is_cordoned,
            is_draining=state.drain is not None,
            message=state.cordon_message,
            is_surveyed=not unseen,
        )
        if state.drain is not None:
            standing = replace(standing, drain_grace_s=state.drain.grace_s)
        self._view.apply_region(standing)
        self._view.rates.keep(region, state.copy_rates)
        concerned: set[str] = set()
        for outpost in self._outposts.of_region(region):
            concerned |= self._roster.on_cluster(outpost.cluster)
        return concerned

    async def _judge(self, name: str) -> None:
        run = self._desk.log.run(name)
        if run is None or run.is_ended:
            self._due.drop(name)
            self._book.forget(name)
            return
        now = self._clock.now()
        facts = await self._book.facts(run, now)
        judged = judge(self._view, run, facts, now, self._nonces())
        told = await self._vouched(run, judged, now)
        is_taken = await self._tell(name, told)
        at_s = next_look_s(self._view, run, facts, now)
        is_looked_for = told != judged or (facts is None and run.open_epoch is not None)
        if not is_taken or is_looked_for:
            # Refused, or its checkpoints are still being looked through.
            is_soon = is_taken and not self._is_put_off(run)
            soon_s = now.elapsed_s + (LOOK_SOON_S if is_soon else JUDGE_AGAIN_S)
            at_s = soon_s if at_s is None else min(at_s, soon_s)
        if at_s is None:
            self._due.drop(name)
        else:
            self._due.set(name, at_s)

    async def _vouched(
        self, run: Run, told: tuple[RunCommand, ...], now: Moment
    ) -> tuple[RunCommand, ...]:
        """Hold back a leg whose image or checkpoint was not seen there, and tell what is lost.

        A region can resume from a step only if its manifest is there and still matches.
        """
        passed: list[RunCommand] = []
        held = set[str]()
        for command in told:
            if isinstance(command, MarkPrepared | GrantPlacement):
                if command.placement in held:
                    continue
                leg = run.placements[command.placement]
                region = leg.site.region
                ref = pick(run, region)
                within_s = GRANT_LASTS_S if isinstance(command, GrantPlacement) else LASTS_S
                if not self._has_image(run, leg):
                    held.add(command.placement)
                    continue
                is_sound = ref is None or await self._voucher.is_sound(
                    run, ref, region, now, within_s=within_s
                )
                if ref is not None and is_sound is False:
                    passed += lost_copy(ref, region)
                if not is_sound:
                    held.add(command.placement)
                    continue
            passed.append(command)
        return tuple(passed)

    def _has_image(self, run: Run, leg: Placement) -> bool:
        """Whether a leg's gang will find its image; one that stands at its gate runs it already."""
        if self._images is None or leg.state is PlacementState.AT_GATE:
            return True
        return bool(self._images.may_start(run, leg.site.region, within_s=GRANT_LASTS_S))

    def _is_put_off(self, run: Run) -> bool:
        """Whether a registry is silent, so that to look at once again brings nothing."""
        images = self._images
        return images is not None and any(
            images.is_put_off(run, leg.site.region) for leg in run.waiting_placements
        )

    async def _tell(self, name: str, told: tuple[RunCommand, ...]) -> bool:
        """Hand in what was judged as one: who acts on a leg that is queued sees its grant, too."""
        taken = await asyncio.gather(*(self._policy.tell(name, command) for command in told))
        return all(taken)

    async def _plan(self) -> None:
        for _ in range(PLANS_PER_TICK):
            now = self._clock.now()
            made = plan(self._view, now, self._placements())
            self._view.settle(made)
            try:
                await self._hand_in(commands(made), now)
            except Exception:
                # The marks are taken off already: what was not handed in is planned anew.
                for name, _ in made.choices:
                    self._view.touch(name)
                raise
            if made.choices:
                # The next plan must see what this one did, or it would do it again.
                self.changes.add(await self._take_in())
            if made.is_whole:
                return

    async def _hand_in(self, chosen: tuple[tuple[str, RunCommand], ...], now: Moment) -> None:
        told: dict[str, list[RunCommand]] = {}
        for name, command in chosen:
            told.setdefault(name, []).append(command)

        async def tell(name: str) -> None:
            if not await self._desk.tell(name, *told[name]):
                self._view.refused(name, now.elapsed_s)

        for name in await self._desk.for_each(told, tell):
            self._view.touch(name)

    def _nonces(self) -> Iterator[str]:
        while True:
            yield self._draws.nonce()

    def _placements(self) -> Iterator[str]:
        while True:
            yield self._draws.placement()
