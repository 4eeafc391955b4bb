"""The port to an embedded cluster, as brokerd holds it.

The rule: the cluster is asked over its socket and the region's store is read here, as it would be
for a cluster of Kubernetes; either can be silent without the other. Nothing is tried twice: the
loops look again. Read ``LocalCluster.observe`` first.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from regions import observing
from regions.cluster import (
    Action,
    ClusterObservation,
    ClusterUnreachableError,
    Manifest,
    NoSuchLogError,
    Outcome,
    Queue,
    Stage,
)
from regions.launcher.store import Store
from regions.local import clock, seen, wire
from regions.local.faults import Fault
from regions.local.orders import Orders, manifest
from regions.local.state import MAX_SIGNALS, Signal
from regions.store_eye import Look, TimedEye

MAX_GONE = 50_000
"""Members that are remembered to be gone: many times those of all placements that a cluster keeps,
so that what is forgotten is of starts that were closed long ago."""
TOUCHED_S = 60.0
"""How long a run is looked at after something was written for it, whatever the cluster says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """How long one question may take, in seconds, and how long a gate's count that moved proves
    that its process is there."""

    call_s: float = 5.0
    store_s: float = 5.0
    gate_fresh_s: float = 5.0


class LocalCluster:
    """One embedded cluster behind ``socket``, with the store of its region."""

    def __init__(
        self,
        *,
        cluster: str,
        region: str,
        socket: Path,
        store: Store,
        deadlines: Deadlines = Deadlines(),
    ) -> None:
        self.cluster = cluster
        self.region = region
        self._socket = socket
        self._deadlines = deadlines
        self._eye = TimedEye(store, deadlines.store_s)
        self._orders = Orders(self._ask, store, deadlines.store_s)
        self._known = _Known()
        self._touched: dict[str, float] = {}
        self._last: ClusterObservation | None = None

    async def observe(self) -> ClusterObservation:
        """Look at the cluster, then at the store. See the port."""
        silence = await self._ask_what_changed(wait_s=0.0)
        now_s = clock.monotonic_s()
        self._touched = {
            run: at_s for run, at_s in self._touched.items() if now_s - at_s < TOUCHED_S
        }
        active = {*self._known.open_runs(), *self._touched}
        look = await self._eye.look(active, frozenset(self._known.gone), now_s)
        if silence is not None:
            alone = observing.store_alone(
                self.cluster, self.region, look, silence, clock.monotonic_s()
            )
            raise ClusterUnreachableError(silence, alone)
        observation = self._observation(look, clock.monotonic_s())
        self._last = replace(observation, changed=None)
        return observation

    async def apply(self, actions: tuple[Action, ...]) -> tuple[Outcome, ...]:
        """Carry out the actions in order; each has an outcome of its own."""
        outcomes = []
        for action in actions:
            outcomes.append(await self._orders.carry_out(action))
            epoch = getattr(action, "epoch", None)
            run_key = epoch.run_key if epoch is not None else getattr(action, "run_key", "")
            self._touched[run_key] = clock.monotonic_s()
        return tuple(outcomes)

    def manifest(self, order: Queue) -> Manifest:
        """Return what the cluster's daemon is told for an order. See the port."""
        return manifest(order)

    async def logs(
        self, placement: str, rank: int, offset: int, follow: bool
    ) -> AsyncIterator[tuple[int, bytes]]:
        """Yield a rank's output from a position on; with ``follow`` until it can print no more.

        Raises NoSuchLogError, or ClusterUnreachableError.
        """
        wait_s = min(10.0, wire.MAX_WAIT_S) if follow else 0.0
        while True:
            request = wire.ReadLog(placement=placement, rank=rank, offset=offset, wait_s=wait_s)
            chunk = await self._ask(request)
            if not isinstance(chunk, wire.LogChunk) or len(chunk.data) > wire.MAX_LOG_CHUNK_BYTES:
                raise ClusterUnreachableError(f"{self.cluster} answered something else")
            if not chunk.is_known:
                raise NoSuchLogError(f"{self.cluster} holds nothing of placement {placement}")
            if chunk.data and chunk.offset <= max(0, offset):
                # Who believed it would be told the same bytes for ever.
                raise ClusterUnreachableError(f"{self.cluster} answered what cannot be")
            offset = chunk.offset
            if chunk.data:
                yield offset, chunk.data
            elif chunk.is_last or not follow:
                return

    async def wait_for_news(self, timeout_s: float) -> bool:
        """Wait until the cluster has something new to show. False: nothing came, or no answer.

        Gates and reports are in the store, and are no news of the cluster's.
        """
        before = (self._known.instance, self._known.generation)
        silence = await self._ask_what_changed(wait_s=timeout_s)
        return silence is None and before != (self._known.instance, self._known.generation)

    async def ping(self) -> None:
        """Raise ClusterUnreachableError unless the cluster answers."""
        silence = await self._ask_what_changed(wait_s=0.0)
        if silence is not None:
            raise ClusterUnreachableError(silence)

    async def inject(self, fault: Fault) -> Outcome:
        """Let something go wrong in the cluster. Raises ClusterUnreachableError."""
        reply = await self._ask(wire.Inject(fault=fault))
        if not isinstance(reply, wire.Done):
            raise ClusterUnreachableError(f"{self.cluster} answered something else")
        return Outcome(
            is_done=reply.is_done,
            cause=reply.cause,
            message=reply.message,
            retry_after_s=reply.retry_after_s,
        )

    async def terminate(self) -> None:
        """Kill every gang and remove all that the cluster has on disk.

        Raises ClusterUnreachableError if the daemon is not there to do it.
        """
        await self._ask(wire.Terminate(), at_most_s=30.0)

    # ---- how it looks and asks ----

    async def _ask_what_changed(self, wait_s: float) -> str | None:
        """Bring what is known of the cluster up to date. Returns its silence, in words."""
        known = self._known
        request = wire.Observe(
            instance=known.instance,
            generation=known.generation,
            signal_serial=known.signal_serial,
            wait_s=wait_s,
        )
        try:
            reply = await self._ask(request)
        except ClusterUnreachableError as error:
            return str(error)
        if not isinstance(reply, wire.Observed):
            return f"{self.cluster} answered something else"
        known.take_in(reply)
        return None

    async def _ask(self, request: wire.Request, at_most_s: float | None = None) -> wire.Reply:
        """Put one question to the daemon, on a connection of its own."""
        limit_s = at_most_s or self._deadlines.call_s + getattr(request, "wait_s", 0.0)
        try:
            async with asyncio.timeout(limit_s):
                reader, writer = await asyncio.open_unix_connection(self._socket)
                try:
                    await wire.write(writer, request)
                    reply = await wire.read_reply(reader)
                finally:
                    writer.close()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, wire.BadFrameError) as error:
            why = str(error) or type(error).__name__
            raise ClusterUnreachableError(f"{self.cluster} did not answer: {why}") from error
        if isinstance(reply, wire.Failed):
            raise ClusterUnreachableError(f"{self.cluster} did not understand: {reply.message}")
        return reply

    def _observation(self, look: Look, now_s: float) -> ClusterObservation:
        known = self._known
        placements = {
            job.placement: seen.placement_seen(
                job,
                look.runs.get(job.run_key),
                look.epochs,
                now_s=now_s,
                fresh_s=self._deadlines.gate_fresh_s,
            )
            for job in known.jobs.values()
        }
        blind = (*known.blind, *((f"store: {look.trouble}",) if look.trouble else ()))
        return ClusterObservation(
            cluster=self.cluster,
            region=self.region,
            seen_at_s=now_s,
            is_whole=not blind,
            is_store_readable=not look.trouble,
            blind=blind,
            queues=tuple(seen.queue_seen(queue) for queue in known.queues),
            placements=placements,
            epochs=look.epochs,
            signals=tuple(seen.signal_seen(signal, now_s) for signal in known.signals),
            changed=observing.changed(self._last, placements, look),
            keeps_secrets=False,
            claims=look.claims,
            unread=look.unread,
        )


class _Known:
    """What the daemon has said so far, joined."""

    def __init__(self) -> None:
        self.instance = ""
        self.generation = 0
        self.signal_serial = 0
        self.jobs: dict[str, wire.JobView] = {}
        self.queues: tuple[wire.QueueView, ...] = ()
        self.signals: tuple[Signal, ...] = ()
        self.blind: tuple[str, ...] = ()
        self.gone: dict[str, None] = {}

    def take_in(self, told: wire.Observed) -> None:
        """Join an answer with what is known; an older one than that changes nothing."""
        is_same = told.instance == self.instance
        if (is_same and told.generation < self.generation) or not (is_same or told.is_full):
            return
        if told.is_full:
            self.jobs, self.signals = {}, ()
        self.instance, self.generation = told.instance, told.generation
        self.jobs |= {job.uid: job for job in told.jobs}
        self.queues, self.blind = told.queues, told.blind
        known = {signal.serial for signal in self.signals}
        new = tuple(signal for signal in told.signals if signal.serial not in known)
        self.signals = (*self.signals, *new)[-MAX_SIGNALS:]
        self.signal_serial = max((signal.serial for signal in self.signals), default=0)
        # Once gone, for ever gone: a member's name is not used again.
        for job in told.jobs:
            self.gone |= {one.member: None for one in job.members if not one.is_alive}
        while len(self.gone) > MAX_GONE:
            del self.gone[next(iter(self.gone))]

    def open_runs(self) -> Iterable[str]:
        """The runs, by their keys, that have a placement here which is not over."""
        return (
            job.run_key
            for job in self.jobs.values()
            if job.stage is not Stage.ENDED and job.run_key
        )
