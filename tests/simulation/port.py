"""The port to a simulated cluster, with everything that can happen to a message on its way.

The rule: what is seen comes from production's eye, gatehouse and views; an action can be lost,
answered without an answer, repeated, or land minutes late, and brokerd can die before and after.
Read ``SimPort.observe`` and ``SimPort.apply`` first.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from regions import gatehouse
from regions.capacity import QueueSeen, SignalSeen
from regions.cluster import (
    Action,
    Cause,
    ClusterObservation,
    ClusterUnreachableError,
    Manifest,
    Outcome,
    Queue,
    Stage,
    Withdraw,
)
from regions.launcher import layout
from regions.launcher.store import StoreUnreachable
from regions.local import seen, wire
from regions.local.orders import gang_spec, manifest
from regions.local.state import Signal, WithdrawOrder
from regions.observing import changed, store_alone
from regions.store_eye import Look, StoreEye
from regions.store_orders import NOT_CLOSED, silence, write_record
from tests.fakes.region_store import ControlStore
from tests.simulation.place import BrokerLine, Place
from tests.simulation.processes import GATE_FRESH_S

TOUCHED_S = 60.0


@dataclass(slots=True)
class Post:
    """How messages to clusters travel now: chances, and how late a late one is in seconds."""

    lost: float = 0.0
    unanswered: float = 0.0
    repeated: float = 0.0
    late: float = 0.0
    late_s: float = 0.0
    delay_s: float = 0.05


class Crossing(Protocol):
    """A point where brokerd can die."""

    def cross(self, where: str) -> None:
        """Go on, or raise Killed."""
        ...


class SimPort:
    """``regions.cluster.Cluster`` over a place, for one life of the broker."""

    def __init__(self, place: Place, post: Post, life: Crossing, chance: random.Random) -> None:
        self.cluster = place.cluster
        self.region = place.region
        self._place = place
        self._post = post
        self._life = life
        self._chance = chance
        self._store = ControlStore(place.objects, BrokerLine(place))
        self._eye = StoreEye(self._store)
        self._gone: set[str] = set()
        self._touched: dict[str, float] = {}
        self._jobs: dict[str, wire.JobView] = {}
        self._last: ClusterObservation | None = None
        self._last_serial = 0
        self._queues: dict[str, tuple[wire.QueueView, QueueSeen]] = {}

    # ---- Seeing ---------------------------------------------------------------------------------

    async def observe(self) -> ClusterObservation:
        """Look at the cluster, then at the store."""
        await self._travel()
        is_silent = self._place.is_silent
        told = self._place.showcase.answer(
            wire.Observe(), self._place.world.state, self._place.now_s()
        )
        await self._travel()
        if not is_silent:
            self._jobs = {job.uid: job for job in told.jobs}
            self._gone |= {
                member.member for job in told.jobs for member in job.members if not member.is_alive
            }
        now_s = self._place.now_s()
        self._touched = {k: at for k, at in self._touched.items() if now_s - at < TOUCHED_S}
        open_runs = {
            job.run_key
            for job in self._jobs.values()
            if job.stage is not Stage.ENDED and job.run_key
        }
        look = self._eye.look(open_runs | self._touched.keys(), frozenset(self._gone), now_s)
        if is_silent:
            why = "it did not answer"
            alone = store_alone(self.cluster, self.region, look, why, now_s)
            raise ClusterUnreachableError(why, alone)
        observation = self._observation(told, look, now_s)
        self._last = observation
        return observation

    def _observation(self, told: wire.Observed, look: Look, now_s: float) -> ClusterObservation:
        placements = {
            job.placement: seen.placement_seen(
                job, look.runs.get(job.run_key), look.epochs, now_s=now_s, fresh_s=GATE_FRESH_S
            )
            for job in told.jobs
        }
        blind = (f"store: {look.trouble}",) if look.trouble else ()
        return ClusterObservation(
            cluster=self.cluster,
            region=self.region,
            seen_at_s=now_s,
            is_whole=not blind,
            is_store_readable=not look.trouble,
            blind=blind,
            queues=self._queues_seen(told.queues),
            placements=placements,
            epochs=look.epochs,
            signals=self._signals_seen(told.signals, now_s),
            changed=changed(self._last, placements, look),
            keeps_secrets=False,
            claims=look.claims,
            unread=look.unread,
        )

    def _signals_seen(self, signals: tuple[Signal, ...], now_s: float) -> tuple[SignalSeen, ...]:
        """Translate the signals that came since the last look, and the last one before."""
        fresh = [signal for signal in signals if signal.serial >= self._last_serial]
        self._last_serial = max((signal.serial for signal in fresh), default=0)
        return tuple(seen.signal_seen(signal, now_s) for signal in fresh)

    def _queues_seen(self, queues: tuple[wire.QueueView, ...]) -> tuple[QueueSeen, ...]:
        """Translate the queues that are others than at the last look."""
        self._queues = {
            queue.queue: kept
            if (kept := self._queues.get(queue.queue)) is not None and kept[0] is queue
            else (queue, seen.queue_seen(queue))
            for queue in queues
        }
        return tuple(translated for _, translated in self._queues.values())

    # ---- Acting ---------------------------------------------------------------------------------

    async def apply(self, actions: tuple[Action, ...]) -> tuple[Outcome, ...]:
        """Carry out the actions in order."""
        outcomes = []
        for action in actions:
            self._life.cross(f"before {type(action).__name__}")
            outcomes.append(await self._send(action))
            self._life.cross(f"after {type(action).__name__}")
            epoch = getattr(action, "epoch", None)
            run_key = epoch.run_key if epoch is not None else getattr(action, "run_key", "")
            self._touched[run_key] = self._place.now_s()
        return tuple(outcomes)

    async def _send(self, action: Action) -> Outcome:
        post, fate = self._post, self._chance.random()
        await self._travel()
        if fate < post.lost:
            return silence("it was lost on its way")
        if fate < post.lost + post.late:
            # Sent, not answered in time, and carried out whenever it gets there.
            self._place.later(self._chance.uniform(0, post.late_s), self._carry_out_late, action)
            return silence("no answer in time")
        outcome = self._carry_out(action)
        if self._chance.random() < post.repeated:
            self._place.later(self._chance.uniform(0, 20), self._carry_out_late, action)
        if self._chance.random() < post.unanswered:
            return silence("the answer was lost")
        return outcome

    def _carry_out_late(self, action: Action) -> None:
        self._carry_out(action)

    def _carry_out(self, action: Action) -> Outcome:
        try:
            match action:
                case Queue():
                    self._place.on_queue(action)
                    return self._to_cluster(lambda: self._place.queue(gang_spec(action)))
                case Withdraw():
                    return self._withdraw(action)
                case _:
                    return write_record(self._store, action, self._place.now_s())
        except StoreUnreachable as error:
            return silence(str(error))
        except (layout.BadKey, gatehouse.RecordConflictError) as error:
            return Outcome(is_done=False, cause=Cause.REFUSED, message=str(error))

    def _withdraw(self, action: Withdraw) -> Outcome:
        may_go = gatehouse.can_withdraw(
            self._store, action.run_key, action.placement, action.is_closed
        )
        if not may_go:
            return NOT_CLOSED
        order = WithdrawOrder(placement=action.placement, run_key=action.run_key, uid=action.uid)
        return self._to_cluster(lambda: self._place.withdraw(order))

    def _to_cluster(self, call: object) -> Outcome:
        if self._place.is_silent:
            return silence("the cluster did not answer")
        assert callable(call)
        outcome = call()
        assert isinstance(outcome, Outcome)
        return outcome

    def manifest(self, order: Queue) -> Manifest:
        """Return what the place is told for an order."""
        return manifest(order)

    async def logs(
        self, placement: str, rank: int, offset: int, follow: bool
    ) -> AsyncIterator[tuple[int, bytes]]:
        """Yield nothing: simulated programs print nothing."""
        nothing: tuple[tuple[int, bytes], ...] = ()
        for chunk in nothing:
            yield chunk

    async def _travel(self) -> None:
        await asyncio.sleep(self._chance.uniform(0.0, 2 * self._post.delay_s))
