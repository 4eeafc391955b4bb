"""What a play stands on: its seed, its time, its places, and what is wrong with them now.

The rule: all chance comes from the seed, by name, so that one more draw somewhere moves nothing
elsewhere. Read ``Stage`` first.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from broker.model.run import Run
from regions.launcher import layout
from regions.local.state import Job
from tests.fakes.region_store import Objects, OpenLine, RegionContent
from tests.simulation import handing_over, laws
from tests.simulation.pieces import Pieces
from tests.simulation.place import Place, Weather
from tests.simulation.port import Post
from tests.simulation.shelves import Shelves
from tests.simulation.timeless import BEGAN_S, BEGAN_WALL_S, WorldReadings
from tests.simulation.witness import Witness

if TYPE_CHECKING:
    from tests.simulation.life import Life
    from tests.simulation.processes import Process

SILENT_S = 75.0  # a policy's patience with a silent cluster is 30 s here
HELD_S = 150.0
LOOKED_S = 10.0  # between two looks of the laws
BUNDLE = b"what git would pack"
BUNDLE_DIGEST = hashlib.sha256(BUNDLE).hexdigest()


@dataclass(slots=True, kw_only=True)
class Stage:
    """All that the parts of a play share.

    ``mortality`` is the chance to die at each point where brokerd can. ``restored_since_s`` is
    when the backup was taken that the next life begins with, None for a plain restart, and
    ``restored_s`` when one was put in the place of the log.
    """

    seed: int
    loop: asyncio.AbstractEventLoop
    data: Path
    pieces: Pieces
    readings: WorldReadings
    witness: Witness
    post: Post = field(default_factory=Post)
    places: dict[str, Place] = field(default_factory=dict)
    alive: asyncio.Event = field(default_factory=asyncio.Event)
    life: Life | None = None
    former: Life | None = None
    mortality: float = 0.0
    is_disk_full: bool = False
    writable_since_s: float = 0.0
    restored_since_s: float | None = None
    restored_s: float = 0.0
    retention_s: float = 0.0
    down_until_s: float = 0.0
    is_over: bool = False
    is_held: bool = False
    clear_since_s: float = 0.0
    dead: asyncio.Event = field(default_factory=asyncio.Event)
    shelves: Shelves = field(init=False)
    has_registries: bool = field(init=False)
    uploads: RegionContent = field(init=False)
    user_dice: random.Random = field(init=False)

    def __post_init__(self) -> None:
        objects = Objects(self.loop.time)
        self.uploads = RegionContent(objects, OpenLine(), BEGAN_WALL_S - BEGAN_S)
        self.uploads.put(f"bundles/{BUNDLE_DIGEST}.tar.gz", [BUNDLE])
        self.user_dice = self.dice("users")
        chance = self.dice("registries")
        self.has_registries = chance.random() < 0.5
        self.shelves = Shelves(loop=self.loop, chance=chance, witness=self.witness)

    def dice(self, name: str) -> random.Random:
        """Return chance of its own for somebody."""
        return random.Random(f"{self.seed}/{name}")

    def size_bytes(self, digest: str) -> int | None:
        """Return the size of an uploaded bundle: the validator's port."""
        return len(BUNDLE) if digest == BUNDLE_DIGEST else None

    def restored(self, runs: Mapping[str, Run]) -> None:
        """Take note of what a restore forgot: those runs are nobody's any more."""
        record = self.witness.record
        record.acked = {k: acked for k, acked in record.acked.items() if acked.name in runs}
        for name in record.log.keys() - runs.keys():
            del record.log[name]
        for run in runs.values():
            truth = record.runs[run.uid]
            if not run.is_ended:
                truth.ended_s = None
            elif truth.ended_s is None:
                # It was resumed after the backup: what is over by the log is kept anew from the
                # restore, also when nobody ran for a while after it.
                truth.ended_s, truth.ended = self.restored_s, run.state.value
            # What a user marked after the backup the log cannot know.
            marked = {(c.ref.epoch.folder, c.ref.step) for c in run.checkpoints if c.is_bad}
            truth.bad = {key: at_s for key, at_s in truth.bad.items() if key in marked}
        self.restored_since_s = None

    def in_doubt(self) -> list[str]:
        """Return the regions whose store the broker does not take for its own now."""
        life = self.life
        if life is None or life.log is None or life.is_dead:
            return []
        return [region for region in sorted(self.places) if life.log.region(region).doubt]

    def look(self) -> None:
        """Hold the laws that speak of durations against the world as it is now."""
        now_s = self.loop.time()
        for place in self.places.values():
            for process in place.processes.values():
                if not process.is_gone:
                    found = laws.law_8_a_gate_is_left(process, now_s)
                    self.witness.breach("law 8", process.spec.run_key, found)
                    self._look_at(place, process, now_s)
        self._note_silence(now_s)
        self._look_at_the_old_broker(now_s)
        life = self.life
        if life is None or life.log is None or life.is_dead or life.is_former:
            return
        if self.is_disk_full:
            self.writable_since_s = now_s  # what cannot be written cannot be said
        since_s = max(life.since_s, self.writable_since_s)
        if now_s - since_s > 60.0:
            runs = life.log.live_runs().values()
            broker_s = life.broker_s()
            self.witness.check_waits(runs, broker_s, broker_s - (now_s - since_s))
            self._look_at_silence(runs, now_s, since_s, broker_s)
        self._look_at_what_is_held(now_s, life.since_s)

    def _note_silence(self, now_s: float) -> None:
        """Keep since when brokerd hears nothing of a cluster, or of its store."""
        for place in self.places.values():
            weather = place.weather
            if not (place.is_silent or place.is_store_down or weather.is_store_cut):
                place.silent_since_s = None
            elif place.silent_since_s is None:
                place.silent_since_s = now_s

    def _look_at_the_old_broker(self, now_s: float) -> None:
        """See whether an old broker goes on though it can see that it has a successor."""
        former = self.former
        for place in self.places.values():
            if place.weather.is_store_cut or place.is_store_down or place.is_store_other:
                place.store_lost_s = now_s
            if former is None or former.is_dead:
                continue
            claims = [
                (int(name), stored.at_s)
                for name in place.objects.names("incarnations/")
                if (stored := place.objects.get(f"incarnations/{name}")) is not None
            ]
            newer = [at_s for number, at_s in claims if number > former.incarnation]
            if newer:
                shown_s = now_s - max(min(newer), place.store_lost_s, former.since_s)
                found = laws.law_1_the_older_broker_yields(
                    former.incarnation, place.region, shown_s
                )
                self.witness.breach("law 1", "broker", found)

    def _look_at_silence(
        self, runs: Iterable[Run], now_s: float, since_s: float, broker_s: float
    ) -> None:
        """See whether the silence of a cluster is said to those who train there."""
        for place in self.places.values():
            if place.silent_since_s is None:
                continue
            silent_s = now_s - max(place.silent_since_s, since_s)
            # It was noted at the first look, and said by then if it had begun long before.
            began_s = broker_s - (now_s - place.silent_since_s) - LOOKED_S
            for run in runs if silent_s > SILENT_S else ():
                epoch = run.open_epoch
                if epoch is None or epoch.cluster != place.cluster or epoch.stop is not None:
                    continue
                if epoch.started_s is not None:
                    found = laws.law_9_silence_is_said(run, place.cluster, began_s, silent_s)
                    self.witness.breach("law 9", run.uid, found)

    def planned_end(self, place: Place, job: Job) -> None:
        """See whether machines go as planned under a gang that nobody asked to save."""
        life, now_s = self.life, self.loop.time()
        if life is None or life.log is None or life.is_dead or life.is_former:
            return
        self._note_trouble(now_s)
        well_s = now_s - max(self.clear_since_s, life.since_s, self.writable_since_s)
        training = [
            process
            for process in place.processes.values()
            if process.spec.placement == job.name and process.is_training and not process.is_gone
        ]
        if not training or training[0].grant is None:
            return
        self.witness.counts["planned ends met"] += 1
        trained_s = now_s - max(process.trains_since_s for process in training)
        keys, epoch = layout.RunKeys(job.run_key), training[0].grant.epoch
        asked = [place.objects.get(key) for key in (keys.drain(epoch), keys.fence(epoch))]
        is_asked = any(one is not None for one in asked)
        found = handing_over.law_8_who_leaves_as_planned_is_asked_to_save(
            job.name, min(well_s, trained_s), is_asked=is_asked
        )
        self.witness.breach("law 8", job.run_key, found)

    def _look_at_what_is_held(self, now_s: float, since_s: float) -> None:
        """See whether a run that is over still holds something though all has been well."""
        self._note_trouble(now_s)
        clear_s = now_s - max(self.clear_since_s, since_s)
        for place in self.places.values() if clear_s > HELD_S else ():
            for job in place.world.state.live_jobs():
                truth = self.witness.record.runs.get(job.run_key)
                if job.spec is None or truth is None or truth.ended_s is None:
                    continue
                run = self.life.log.run(truth.name) if self.life and self.life.log else None
                if run is None or job.name not in run.placements:
                    continue  # a restore forgot it: it leaves its gate by itself
                over_s = min(clear_s, now_s - truth.ended_s)
                if over_s > HELD_S:
                    found = laws.law_8_nothing_is_held_for_what_is_over(
                        job.name, truth.name, over_s
                    )
                    self.witness.breach("law 8", job.run_key, found)

    def _note_trouble(self, now_s: float) -> None:
        """Keep since when nothing stands between brokerd and its regions."""
        weathers = [place.weather for place in self.places.values()]
        is_clear = self.post == Post() and not self.is_disk_full and not self.mortality
        is_down = any(
            place.is_down or place.is_store_other or place.objects.refuses is not None
            for place in self.places.values()
        ) or bool(self.in_doubt())
        if not is_clear or is_down or any(weather != Weather() for weather in weathers):
            self.clear_since_s = now_s

    def _look_at(self, place: Place, process: Process, now_s: float) -> None:
        """See whether somebody trains who was told to stop and could hear it."""
        if process.is_deaf or place.is_store_down or not process.is_training:
            process.hears_since_s = now_s
            return
        if process.grant is None:
            return
        key = layout.RunKeys(process.spec.run_key).fence(process.grant.epoch)
        fence = place.objects.get(key)
        if fence is not None:
            told_s = max(fence.at_s, process.hears_since_s)
            found = laws.law_1_who_can_hear_stops(process, told_s, now_s)
            self.witness.breach("law 1", process.spec.run_key, found)

    def unfinished(self) -> list[tuple[str, str]]:
        """Return what is not over yet, with a sentence each."""
        life = self.life
        if life is None or life.log is None or life.is_dead or life.is_former:
            return [("broker", "the broker does not stay alive")]
        left: list[tuple[str, str]] = []
        for acked in self.witness.record.acked.values():
            run = life.log.run(acked.name)
            if run is None:
                left.append((acked.name, "it is not in the log"))
            elif not run.is_ended:
                why = run.why
                left.append((run.uid, f"{run.name} is {run.state}: {why.reason} {why.message}"))
        for name, run in life.log.live_runs().items():
            if run.is_ended:
                held = [p.id for p in run.live_placements]
                owed = [e.id.folder for e in run.epochs if e.is_owed or e.is_open]
                left.append((run.uid, f"{name} ended, and still has {held} {owed}"))
        for place in self.places.values():
            for job in place.world.state.live_jobs():
                if job.spec is not None:
                    phase = f"{job.phase} {job.cause}"
                    left.append((job.run_key, f"{place.region} still holds {job.name}: {phase}"))
        return left
