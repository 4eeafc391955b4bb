"""Stands beside the world, writes down what happens, and holds the laws against it.

The rule: it changes nothing and decides nothing. Whoever does something tells it first or at once;
a breach is kept with its law, its time and the run's story. Read ``Witness.began`` and
``Witness.recorded`` first.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from broker.history import events as happened
from broker.history.events import Recorded
from broker.model.reasons import Reason
from broker.model.run import Run
from broker.model.states import RunState
from regions.launcher import layout
from regions.local.state import WithdrawOrder
from tests.fakes.region_store import Objects, Stored
from tests.simulation import handing_over, laws
from tests.simulation.record import Acked, Damage, GangTruth, OwnFailure, Record, SealTruth

if TYPE_CHECKING:
    from tests.simulation.processes import Process

TRACE_KEPT = 4_000


class Where(Protocol):
    """The place where something happens."""

    region: str
    objects: Objects
    is_store_other: bool


@dataclass(frozen=True, slots=True)
class Breach:
    """A law that did not hold. ``about`` is the run key or the name that it concerns."""

    law: str
    at_s: float
    message: str
    about: str

    def __str__(self) -> str:
        return f"{self.law}: {self.message} [{self.about}, at {self.at_s:.1f} s]"


class Witness:
    """Writes down, and checks."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.record = Record()
        self.breaches: list[Breach] = []
        self.trace: deque[tuple[float, str, str]] = deque(maxlen=TRACE_KEPT)
        self.objects: dict[str, Objects] = {}
        self.on_grant: Callable[[str], None] = lambda name: None
        self.counts: Counter[str] = Counter()
        self.changes = 0  # of disks under stores
        self._struck_s: dict[tuple[str, str], float] = {}

    def note(self, about: str, text: str) -> None:
        """Keep a line for people."""
        self.trace.append((self._loop.time(), about, text))

    def breach(self, law: str, about: str, sentences: Iterable[str]) -> None:
        """Keep each sentence as a breach of a law."""
        for sentence in sentences:
            known = {(one.law, one.about) for one in self.breaches}
            if (law, about) not in known:
                self.breaches.append(Breach(law, self._loop.time(), sentence, about))
                self.note(about, f"!!! {law}: {sentence}")

    @property
    def failures(self) -> Mapping[str, int]:
        """How often each run's own code has failed."""
        return self.record.failures

    # ---- What gangs do --------------------------------------------------------------------------

    def began(self, place: Where, process: Process, grant: layout.Grant) -> None:
        """A process was let pass and begins the program."""
        record, spec = self.record, process.spec
        key = (place.region, *process.key)
        gang = record.gangs.get(key)
        is_new = gang is None
        if gang is None:
            gang = record.gangs[key] = GangTruth(
                run_key=spec.run_key,
                place=place.region,
                placement=spec.placement,
                grant=grant,
                gpus=spec.gpus,
                began_s=self._loop.time(),
            )
            self.counts["starts"] += 1
            # What its cluster forgot of it before it began explains its end no more.
            struck_s = self._struck_s.get((place.region, spec.placement))
            if struck_s is not None:
                record.runs[spec.run_key].struck_s.setdefault(gang.epoch, struck_s)
        gang.ranks.add(process.rank)
        gang.joined.add(process.rank)
        self.note(
            spec.run_key,
            f"{place.region} {spec.placement} rank {process.rank} trains"
            f" {grant.epoch.name} from {grant.resume_from}",
        )
        uid = spec.run_key
        if place.is_store_other:
            record.lost_owners.add((uid, _number(gang.epoch)))
        self.breach("law 1", uid, laws.law_1_one_gang_counts(record, gang))
        self.breach("law 1", uid, laws.law_1_a_closed_start_stays_closed(record, gang))
        if is_new:
            found = laws.law_4_a_start_rests_on_what_was_sealed(record, gang, place.objects)
            self.breach("law 4", uid, found)
            self.breach("law 5", uid, laws.law_5_no_anchor_no_restart(record, gang))
            team = record.runs[uid].team
            self.breach("law 7", uid, laws.law_7_caps_are_kept(record, team))

    def over(self, place: Where, process: Process) -> None:
        """A process's program is over, however."""
        gang = self.record.gangs[(place.region, *process.key)]
        gang.ranks.discard(process.rank)
        self.note(gang.run_key, f"{place.region} {gang.placement} rank {process.rank} is over")

    def failed(self, run_key: str, epoch: layout.EpochId, rank: int) -> None:
        """The program fails by itself."""
        self.record.failures[run_key] += 1
        failure = OwnFailure(self._loop.time(), rank)
        self.record.runs[run_key].own_failures.setdefault(epoch.name, failure)
        self.note(run_key, f"{epoch.name} fails by itself")

    def excused(self, region: str, placement: str) -> None:
        """Something else struck this gang as well: a failure of it is not surely its own."""
        if (region, placement) in self._struck_s:
            return
        now_s = self._struck_s[region, placement] = self._loop.time()
        for gang in self.record.gangs.values():
            if (gang.place, gang.placement) == (region, placement):
                struck_s = self.record.runs[gang.run_key].struck_s
                struck_s.setdefault(gang.epoch, now_s)

    def saved(
        self, run_key: str, epoch: layout.EpochId, step: int, files: dict[str, bytes]
    ) -> None:
        """A checkpoint has its marker."""
        save = (run_key, epoch.name, step)
        self.record.saves[save] = files
        self.record.saved_s.setdefault(save, self._loop.time())
        self.note(run_key, f"{epoch.name} saved step {step}")

    def finished(self, run_key: str, epoch: layout.EpochId) -> None:
        """The last step was done."""
        self.record.finished.add((run_key, epoch.name))
        self.note(run_key, f"{epoch.name} did its last step")

    # ---- What disks do ---------------------------------------------------------------------------

    def damaged(self, region: str, path: str, *, was_whole: bool, is_visible: bool) -> None:
        """A disk made something else of a copy."""
        save = laws.save_of(path)
        is_whole = laws.is_whole(self.record, save, self.objects[region].get)
        damage = Damage(self._loop.time(), is_visible)
        if is_whole:
            self.record.damages.pop((region, save), None)
        elif was_whole:
            self.record.damages[region, save] = damage
        else:
            self.record.damages.setdefault((region, save), damage)

    def changed_disk(
        self, region: str, former: Mapping[str, Stored], held: Mapping[str, Stored]
    ) -> None:
        """Another disk answers as a region's store."""
        self.changes += 1
        damages, damage = self.record.damages, Damage(self._loop.time(), True)
        for save in self.record.saves:
            if laws.is_whole(self.record, save, held.get):
                damages.pop((region, save), None)
            elif laws.is_whole(self.record, save, former.get):
                damages[region, save] = damage
        for key, stored in former.items():
            parts = key.split("/")
            if parts[-1] == "owner" and held.get(key) != stored:
                self.record.lost_owners.add((parts[1], parts[2]))

    # ---- What is removed ------------------------------------------------------------------------

    def withdraws(self, place: Where, order: WithdrawOrder) -> None:
        """An object is about to be removed from a cluster."""
        gangs = [
            gang
            for gang in self.record.gangs.values()
            if gang.placement == order.placement and gang.place == place.region
        ]
        self.note(order.run_key, f"{place.region} is told to remove {order.placement}")
        found = laws.law_10_only_what_is_ours_and_over_goes(
            self.record, order.run_key, order.placement, gangs
        )
        self.breach("law 10", order.run_key, found)

    def deletes(self, region: str, name: str) -> None:
        """An object is about to be removed from a store."""
        parts = name.split("/")
        if len(parts) != 6 or parts[5] != ".complete":
            return
        uid, epoch, step = parts[1], parts[2], layout.step_of(parts[4])
        if step is None or (uid, epoch, step) not in self.record.saves:
            return
        if any(save[0] == uid for _, save in self.record.damages):
            return  # which copies are left nobody can know in time
        self.note(uid, f"{region} lets go of step {step} of {epoch}")
        key = "/".join([*parts[:5], ".complete"])
        elsewhere = [r for r, o in self.objects.items() if r != region and o.get(key) is not None]
        if not elsewhere:
            found = laws.law_10_the_last_checkpoint_stays(
                self.record, uid, epoch, step, self.objects
            )
            self.breach("law 10", uid, found)

    # ---- What the broker makes durable ----------------------------------------------------------

    def acked(self, request_id: str, name: str) -> None:
        """A submit was answered with OK."""
        found = laws.law_2_a_request_makes_one_run(self.record, request_id, name)
        self.breach("law 2", name, found)
        acked = Acked(name, request_id, self._loop.time())
        self.record.acked.setdefault(request_id, acked)

    def recorded(self, some: Iterable[Recorded]) -> None:
        """Events are durable."""
        for one in some:
            self.counts["events"] += 1
            self.record.log[one.stream].append(one)
            if "/runs/" in one.stream:
                self._take_in(one)

    def recorded_beside(self, some: Iterable[Recorded]) -> None:
        """Events are durable in the log of an old broker, beside which a new one works.

        What it gave up, closed or granted is so; what becomes of its runs only the new one says.
        """
        for one in some:
            uid = self.record.uids.get(one.stream)
            if uid is None:
                if isinstance(one.event, happened.Submitted):
                    self.record.uids[one.stream] = one.event.uid
                continue
            self.note(uid, f"old log {one.stream_version}: {one.event}"[:420])
            self._take_in_facts(uid, one)

    def _take_in(self, one: Recorded) -> None:
        event, record = one.event, self.record
        if isinstance(event, happened.Submitted):
            record.uids[one.stream] = event.uid
            truth = record.runs[event.uid]
            truth.name, truth.team = one.stream, event.intent.team
            truth.is_fork = event.fork_checkpoint is not None
            truth.submitted_s = self._loop.time()
        uid = record.uids[one.stream]
        truth = record.runs[uid]
        self.note(uid, f"log {one.stream_version}: {event}"[:420])
        self._take_in_facts(uid, one)
        match event:
            case happened.Granted():
                self.on_grant(one.stream)
                stream = record.log[one.stream]
                found = laws.law_4_only_a_person_begins_anew(stream, is_fork=truth.is_fork)
                self.breach("law 4", uid, found)
                if event.resume_from is not None:
                    ref = event.resume_from
                    found = laws.law_4_a_bad_step_is_not_resumed(
                        record, uid, ref.epoch.folder, ref.step
                    )
                    self.breach("law 4", uid, found)
            case happened.CheckpointMarked() if event.is_bad is not None:
                key = (event.ref.epoch.folder, event.ref.step)
                if event.is_bad:
                    truth.bad[key] = self._loop.time()
                else:
                    truth.bad.pop(key, None)
            case happened.Sealed():
                self.counts["closes"] += 1
            case happened.Requeued() if event.reason is Reason.PLANNED_END:
                self.counts["handovers"] += 1
            case happened.Resumed():
                truth.resumed_s, truth.ended_s, truth.ended = self._loop.time(), None, ""
            case happened.Ended():
                self._take_in_end(uid, event)
            case _:
                pass

    def _take_in_facts(self, uid: str, one: Recorded) -> None:
        """Take in what holds whichever of two logs says it."""
        event, truth = one.event, self.record.runs[uid]
        match event:
            case happened.PlacementAdded() | happened.EpochAdopted():
                truth.placements.add(event.placement)
            case happened.WithdrawalOrdered() | happened.PlacementEnded():
                truth.given_up.add(event.placement)
            case happened.StopOrdered() if event.reason is Reason.COMMAND_FAILED:
                pass  # that is the verdict on a failure, and excuses none
            case happened.StopOrdered() | happened.DrainRequested():
                truth.stopped.add(event.epoch.folder)
            case happened.Granted():
                truth.granted[event.epoch.folder] = event.placement
                truth.granted_s[event.epoch.folder] = self._loop.time()
            case happened.DebtPaid():
                for gang in self.record.gangs.values():
                    if gang.run_key == uid and gang.epoch == event.epoch.folder:
                        objects = self.objects[gang.place]
                        found = laws.law_1_what_is_owed_is_written(gang, objects)
                        self.breach("law 1", uid, found)
            case happened.EpochStarted():
                truth.started.add(event.epoch.folder)
            case happened.Sealed():
                self._take_in_seal(uid, event)
            case _:
                pass

    def _take_in_seal(self, uid: str, event: happened.Sealed) -> None:
        truth, epoch = self.record.runs[uid], event.epoch.folder
        former = truth.seals.get(epoch)
        # A restored log may seal anew; what a former life's grants carry goes before it (R2).
        refs = (*event.checkpoints, *(former.checkpoints if former is not None else ()))
        truth.seals[epoch] = SealTruth(event.rule, refs, self._loop.time())
        placement = truth.granted.get(epoch)
        if placement is not None:
            truth.given_up.add(placement)
        own = tuple(ref.step for ref in event.checkpoints if ref.epoch == event.epoch)
        found = laws.law_4_a_seal_counts_what_is_complete(self.record, uid, epoch, own)
        self.breach("law 4", uid, found)

    def _take_in_end(self, uid: str, event: happened.Ended) -> None:
        truth = self.record.runs[uid]
        truth.ended_s, truth.ended = self._loop.time(), event.state.value
        if event.reason is Reason.CHECKPOINT_LOST:
            self.counts["runs that lost their last copy"] += 1
        if event.state is RunState.SUCCEEDED:
            stream = self.record.log[truth.name]
            starts = [
                one.event.epoch.folder
                for one in stream
                if isinstance(one.event, happened.Granted | happened.EpochAdopted)
            ]
            found = laws.law_1_only_a_finished_run_succeeds(self.record, uid, starts[-1])
            self.breach("law 1", uid, found)
        submitted = self.record.log[truth.name][0].event
        if event.reason is Reason.MAX_WAIT_PASSED and isinstance(submitted, happened.Submitted):
            max_wait_s = submitted.intent.terms.max_wait_s
            if max_wait_s is not None and not truth.seals and truth.resumed_s < 0:
                waited_s = self._loop.time() - truth.submitted_s
                found = laws.law_7_no_wait_ends_early(waited_s, max_wait_s)
                self.breach("law 7", uid, found)

    def retired(self, names: Iterable[str], retention_s: float) -> None:
        """Runs left the log for good, as its retention says."""
        gone = set(names)
        record = self.record
        for name in gone:
            self.counts["retired"] += 1
            truth = record.runs[record.uids[name]]
            found = laws.law_2_only_what_is_old_leaves(truth, self._loop.time(), retention_s)
            self.breach("law 2", name, found)
        record.acked = {k: a for k, a in record.acked.items() if a.name not in gone}
        for name in gone:
            record.log.pop(name, None)

    def check_stories(self) -> None:
        """Look through every run's story for what only the whole of it tells."""
        for name, stream in self.record.log.items():
            if "/runs/" in name:
                uid = self.record.uids[name]
                self.breach("law 9", uid, laws.law_9_an_unheard_drain_is_said(stream))
                self.breach("law 7", uid, handing_over.law_7_a_handover_is_no_loss(stream))
                self.breach("law 8", uid, handing_over.law_8_one_booking_at_a_time(stream))

    def check_waits(self, runs: Iterable[Run], now_s: float, began_s: float) -> None:
        """Look at what users are told of runs that wait; both times are broker time."""
        for run in runs:
            found = laws.law_6_every_wait_is_explained(run, now_s, began_s)
            self.breach("law 6", run.uid, found)
            limit = run.terms.limits.user_restarts
            found = laws.law_7_restarts_are_counted(self.record, run.uid, limit)
            self.breach("law 7", run.uid, found)


def _number(epoch: str) -> str:
    """Return what an owner is kept under: the epoch's number alone."""
    return epoch.partition("-")[0]
