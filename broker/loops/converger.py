"""The converger: makes each cluster as the log says, and writes down what cannot be.

The rule: it acts only on what is written. An action that was done is not sent again at once, for
its effect shows at the next look; one that failed waits as long as the cluster asks. What the
cluster refuses for good becomes a command. A cluster that is slow to answer for one run holds up no
other. Read ``Converger.tick`` first.
"""

import asyncio
import logging
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import assert_never

from broker.history.commands import EndPlacement, PayDebt, RunCommand, StopEpoch, WarnRun
from broker.history.regional import unseen_regions
from broker.loops.converging import converge, is_never_queued
from broker.loops.desk import Clock, Desk, Log, putting_back
from broker.loops.epochs import EpochBook
from broker.loops.image_book import ImageBook
from broker.loops.lanes import Lanes
from broker.loops.outposts import Outpost
from broker.loops.roster import Roster
from broker.loops.sight import ClusterSight, Sight
from broker.loops.translate import SENTENCE_MAX, vanished
from broker.model.checkpoint import EpochId
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import Placement, Run
from broker.model.states import PlacementEnd
from broker.store.streams import BROKER_STREAM
from regions.cluster import (
    Action,
    Cause,
    Drain,
    Fence,
    Grant,
    Outcome,
    Queue,
    Revoke,
    Stage,
    Withdraw,
)
from regions.launcher import rules

SEND_AGAIN_S = 3.0  # an effect shows at the next look; without, the action is sent again
ACT_WITHIN_S = 30.0
ACTED_AT_ONCE = 8  # a cluster's answers are waited for together, and its server is not flooded
LOOK_AFTER_S = 1.0  # what is not seen to be done is looked after so often, news or not
FORGET_S = 600.0  # a withdrawal whose effect was not seen by then is sent again

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Sent:
    """When actions may be sent again (broker seconds), by run."""

    not_before_s: dict[str, dict[str, float]] = field(default_factory=dict)

    def due(self, name: str, actions: tuple[Action, ...], now_s: float) -> tuple[Action, ...]:
        """Return what may be sent now; what is no longer wanted is forgotten."""
        known = self.not_before_s.get(name, {})
        kept = {key: at_s for key, at_s in known.items() if at_s > now_s}
        if kept:
            self.not_before_s[name] = kept
        else:
            self.not_before_s.pop(name, None)
        return tuple(a for a in actions if _key(a) not in kept)

    def keep(self, names: frozenset[str]) -> None:
        """Forget all runs but these."""
        for name in self.not_before_s.keys() - names:
            del self.not_before_s[name]

    def put(self, name: str, action: Action, at_s: float) -> None:
        """Do not send an action again before a time."""
        self.not_before_s.setdefault(name, {})[_key(action)] = at_s


class Converger:
    """Acts on one cluster."""

    def __init__(
        self,
        *,
        outpost: Outpost,
        desk: Desk,
        roster: Roster,
        sight: Sight,
        book: EpochBook,
        images: ImageBook | None,
        clock: Clock,
        at_once: int,
    ) -> None:
        """Make it; at most ``at_once`` runs are acted for at a time.

        ``images`` None: no registry is configured.
        """
        self._outpost = outpost
        self._desk = desk
        self._roster = roster
        self._sight = sight
        self._book = book
        self._images = images
        self._clock = clock
        self._sent = _Sent()
        self._withdrawn: dict[str, float] = {}
        self._look_after_s: dict[str, float] = {}
        self._is_first = True
        self.changes = desk.log.feed.subscribe()
        sight.subscribe(self.changes)
        self._lanes = Lanes(self._handle, self.changes, at_once=at_once)

    async def tick(self) -> None:
        """Begin to bring the cluster nearer to what the log says. It has to be ``acting``."""
        self._roster.refresh()
        now = self._clock.now()
        here = self._roster.on_cluster(self._outpost.cluster)
        changed = self.changes.take()
        changed |= {name for name, at_s in self._look_after_s.items() if at_s <= now.elapsed_s}
        # A survey, too, lets be done what was refused until then.
        if self._is_first or changed & {f"clusters/{self._outpost.cluster}", BROKER_STREAM}:
            changed |= here
        self._is_first = False
        self._forget(here, now)
        names = here & changed
        with putting_back(self.changes, names):
            self._lanes.begin(sorted(names))

    def acting(self) -> AbstractAsyncContextManager[None]:
        """Let ticks begin what is to be done; it is waited for at the end. See ``Lanes.open``."""
        return self._lanes.open()

    def _forget(self, here: frozenset[str], now: Moment) -> None:
        """Drop what was noted of runs and placements that are over."""
        self._sent.keep(here)
        for name in self._look_after_s.keys() - here:
            del self._look_after_s[name]
        self._withdrawn = {
            placement: at_s
            for placement, at_s in self._withdrawn.items()
            if now.since(at_s) < FORGET_S
        }

    async def _handle(self, name: str) -> None:
        self._look_after_s.pop(name, None)
        if not await self._desk.has_handled(name, self._converge):
            self._look_after(name)

    def _look_after(self, name: str) -> None:
        self._look_after_s[name] = self._clock.now().elapsed_s + LOOK_AFTER_S

    async def _converge(self, name: str) -> None:
        run = self._desk.log.run(name)
        if run is None:
            return
        now = self._clock.now()
        sight = self._sight.cluster(self._outpost.cluster)
        for command in self._settled(run, sight):
            await self._desk.tell(name, command)
        verdicts = self._verdicts(run, now)
        for command in _paid(run, verdicts, sight):
            await self._desk.tell(name, command)
        actions = converge(
            run,
            self._outpost.cluster,
            sight,
            verdicts=verdicts,
            policy=self._desk.log.region(self._outpost.region).policy,
            is_surveyed=is_surveyed(self._desk.log, self._outpost.region),
            incarnation=self._desk.log.broker().incarnation,
            mark=self._desk.log.broker().mark,
            book=self._images,
            now=now,
        )
        if actions:
            # Until it shows that they are done there is something to look after.
            self._look_after(name)
        due = self._sent.due(name, actions, now.elapsed_s)
        if due:
            await self._act(run, due)

    def _verdicts(self, run: Run, now: Moment) -> dict[EpochId, rules.Verdict]:
        return {
            epoch.id: self._book.verdict(run, epoch, now)
            for epoch in run.epochs
            if epoch.cluster == self._outpost.cluster and (epoch.is_open or epoch.is_owed)
        }

    def _settled(self, run: Run, sight: ClusterSight) -> tuple[RunCommand, ...]:
        """Return the ends of withdrawn placements that are seen not to be there."""
        ended = []
        for placement in run.live_placements:
            if placement.site.key.cluster != self._outpost.cluster:
                continue
            if is_never_queued(placement, sight) or self._is_gone(placement, sight):
                said = vanished(placement)
                ended.append(
                    EndPlacement(
                        placement=placement.id,
                        end=said.end,
                        reason=said.reason,
                        message=said.message,
                    )
                )
                self._withdrawn.pop(placement.id, None)
        return tuple(ended)

    def _is_gone(self, placement: Placement, sight: ClusterSight) -> bool:
        """Whether its name was occupied, and a whole look after that did not find it."""
        at_s = self._withdrawn.get(placement.id)
        if at_s is None or placement.withdraw is None or not sight.is_whole:
            return False
        seen = sight.placement(placement.id)
        is_here = seen is not None and seen.stage is not Stage.ENDED
        return not is_here and sight.seen_s is not None and sight.seen_s > at_s

    async def _act(self, run: Run, actions: tuple[Action, ...]) -> None:
        try:
            async with asyncio.timeout(ACT_WITHIN_S):
                outcomes = await self._outpost.port.apply(actions)
        except TimeoutError:
            outcomes = tuple(_SILENCE for _ in actions)
        now_s = self._clock.now().elapsed_s
        for action, outcome in zip(actions, outcomes, strict=True):
            wait_s = SEND_AGAIN_S if outcome.is_done else outcome.retry_after_s
            self._sent.put(run.name, action, now_s + (wait_s or SEND_AGAIN_S))
            if outcome.is_done:
                if isinstance(action, Withdraw):
                    self._withdrawn[action.placement] = now_s
                continue
            _log.info(
                "%s: %s for %s: %s", self._outpost.cluster, _key(action), run.name, outcome.message
            )
            if outcome.retry_after_s is None:
                for command in refused(run, action, outcome):
                    await self._desk.tell(run.name, command)


def is_surveyed(log: Log, region: str) -> bool:
    """Return whether the region was read whole, or waived, since the log's last restore (R1)."""
    broker = log.broker()
    return not unseen_regions(broker, {region: log.region(region)}, (region,))


def refused(run: Run, action: Action, outcome: Outcome) -> tuple[RunCommand, ...]:
    """Return what follows from an action that the cluster will never carry out."""
    message = outcome.message[:SENTENCE_MAX] or "the cluster refused it"
    epoch = run.open_epoch
    match action:
        case Queue():
            if epoch is not None and epoch.placement == action.placement:
                return (StopEpoch(reason=Reason.REFUSED_BY_CLUSTER, message=message),)
            return (
                EndPlacement(
                    placement=action.placement,
                    end=PlacementEnd.FAILED,
                    reason=Reason.REFUSED_BY_CLUSTER,
                    message=message,
                ),
            )
        case Withdraw():
            # The object of that name is another one, or the name was never taken: the next look
            # says which.
            return ()
        case Grant():
            # A grant that is there already and says something else is never changed (B5). Its gang
            # cannot start by ours and leaves; the epoch is revoked then.
            return (WarnRun(reason=Reason.REFUSED_BY_CLUSTER, message=message),)
        case _:
            return (WarnRun(reason=Reason.FENCE_OWED, message=message),)


def _paid(
    run: Run, verdicts: dict[EpochId, rules.Verdict], sight: ClusterSight
) -> tuple[RunCommand, ...]:
    """Return the debts of closes by rule (d) that are seen to be paid: REVOKED, or the fence."""
    paid = []
    for epoch in run.epochs:
        if not epoch.is_owed or epoch.id not in verdicts or not sight.is_store_readable:
            continue
        verdict, seen = verdicts[epoch.id], sight.epoch(run, epoch)
        is_fenced = seen is not None and seen.is_fence_written
        is_closed = isinstance(verdict, rules.Closed) and not verdict.is_owed
        if is_closed or (is_fenced and isinstance(verdict, rules.StillOpen)):
            paid.append(PayDebt(epoch=epoch.id))
    return tuple(paid)


def _key(action: Action) -> str:
    """Return what two orders for the same thing share: a drain's time left is not part of it."""
    match action:
        case Queue() | Withdraw():
            subject = action.placement
        case Grant() | Revoke() | Drain() | Fence():
            subject = f"{action.epoch.number}-{action.epoch.nonce}"
        case _:
            assert_never(action)
    return f"{type(action).__name__} {subject}"


_SILENCE = Outcome(
    is_done=False, cause=Cause.UNKNOWN, message="it did not answer", retry_after_s=SEND_AGAIN_S
)
