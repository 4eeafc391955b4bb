"""What goes wrong, drawn from the seed: in clusters, in stores, on the way, and with brokerd.

The rule: a trouble begins, lasts, and is over by itself or at ``heal``; what it strikes is excused
with the witness before it strikes. Read ``Trouble.strike`` first.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

from broker.model.actor import Actor, ActorKind
from broker.runtime.clock import ClockMark, SystemClock
from broker.store.backup import back_up, restore
from broker.store.ledger import LOG_NAME
from regions.launcher import layout
from regions.local import faults
from regions.local.state import GangSpec, Job
from tests.simulation.extent import Extent
from tests.simulation.life import Life
from tests.simulation.place import Place
from tests.simulation.port import Post
from tests.simulation.stage import BUNDLE_DIGEST, Stage
from tests.simulation.training import Program

OPS = Actor(kind=ActorKind.OPS, name="ops")
STRANGER_S = 120.0


class Trouble:
    """Makes trouble. ``kinds`` of one seed are a part of all there are, so that some go alone."""

    def __init__(self, stage: Stage, extent: Extent) -> None:
        self._stage = stage
        self._extent = extent
        self._chance: random.Random = stage.dice("trouble")
        every: list[Callable[[], Awaitable[None]]] = [
            self._scarcity,
            self._preemption,
            self._machine,
            self._others,
            self._silence,
            self._partition,
            self._deafness,
            self._post,
            self._kill,
            self._mortality,
            self._clock,
            self._disk,
            self._stranger,
            self._reboot,
            self._damage,
        ]
        count = self._chance.randint(3, len(every))
        self._kinds = self._chance.sample(every, count)
        self._backup_s: float | None = None
        self._restores = self._chance.random() < 0.3
        self._is_beside = self._chance.random() < 0.5
        self._serial = 0

    async def work(self, until_s: float) -> None:
        """Make trouble until it is enough."""
        stage = self._stage
        began_s, half_s = stage.loop.time(), self._extent.trouble_s / 2.0
        backup_at_s = began_s + half_s * self._chance.uniform(0.3, 1.0)
        restore_at_s = backup_at_s + half_s * self._chance.uniform(0.15, 1.0)
        while (now_s := stage.loop.time()) < until_s:
            await asyncio.sleep(self._chance.uniform(*self._extent.strikes_s))
            if self._restores and self._backup_s is None and now_s > backup_at_s:
                self._back_up()
            elif self._restores and self._backup_s is not None and now_s > restore_at_s:
                self._restores = False
                life = stage.life
                stage.witness.counts["restores"] += 1
                if self._is_beside and life is not None and not life.is_dead:
                    self._restore_beside(life)
                else:
                    await self._restore()
            else:
                await self.strike()

    async def strike(self) -> None:
        """Let one thing go wrong."""
        kind = self._chance.choice(self._kinds)
        self._stage.witness.counts["troubles"] += 1
        await kind()

    def heal(self) -> None:
        """End all that lasts."""
        stage = self._stage
        stage.mortality, stage.is_disk_full = 0.0, False
        _set(stage.post, Post())
        for place in stage.places.values():
            self._clear(place)
            place.boot()
            place.inject(faults.Restore())
            for process in place.processes.values():
                process.hear()

    def _place(self) -> Place:
        return self._chance.choice([place for _, place in sorted(self._stage.places.items())])

    def _busy_place(self) -> Place:
        """Draw a place, rather one where somebody trains."""
        places = [place for _, place in sorted(self._stage.places.items())]
        busy = [p for p in places if any(one.is_training for one in p.processes.values())]
        return self._chance.choice(busy if busy and self._chance.random() < 0.6 else places)

    def _note(self, text: str) -> None:
        self._stage.witness.note("trouble", text)

    # ---- Clusters -------------------------------------------------------------------------------

    async def _scarcity(self) -> None:
        place, chance = self._place(), self._chance
        flavor = chance.choice(place.config.flavors).name
        fault = chance.choice(
            (
                faults.Stockout(flavor=flavor),
                faults.Partial(flavor=flavor, nodes=chance.randint(1, 3)),
                faults.Restore(flavor=flavor),
                faults.Restore(flavor=flavor),
                faults.Hold(queue="train", is_held=chance.random() < 0.5),
            )
        )
        self._note(f"{place.region}: {fault}")
        place.inject(fault)

    async def _preemption(self) -> None:
        place, chance = self._place(), self._chance
        notice_s = chance.choice((None, 0.0, 5.0, 30.0))
        job = self._job(place)
        if chance.random() < 0.3 or job is None:
            flavor = chance.choice(place.config.flavors).name
            fault = faults.Preempt(flavor=flavor, nodes=chance.choice((1, 3)), notice_s=notice_s)
        else:
            fault = faults.Preempt(placement=job.name, notice_s=notice_s)
        self._note(f"{place.region}: {fault}")
        place.inject(fault)

    async def _machine(self) -> None:
        place, chance = self._place(), self._chance
        job = self._job(place)
        if job is None:
            return
        fault = chance.choice(
            (
                faults.NodeLost(placement=job.name, rank=chance.randrange(job.nodes_wanted)),
                faults.Recreate(placement=job.name),
                faults.Evict(placement=job.name),
            )
        )
        self._note(f"{place.region}: {fault}")
        place.inject(fault)

    async def _others(self) -> None:
        place, chance = self._place(), self._chance
        fault = faults.Fill(
            queue=chance.choice(("train", "theirs")),
            flavor=chance.choice(place.config.flavors).name,
            gpus=chance.randint(1, 4),
            duration_s=chance.uniform(20.0, 300.0),
            priority=chance.choice((0, 10)),
        )
        self._note(f"{place.region}: {fault}")
        place.inject(fault)

    async def _stranger(self) -> None:
        """Somebody with our labels, whom no log knows."""
        place = self._place()
        self._serial += 1
        name = f"stranger{self._serial}"
        spec = GangSpec(
            placement=name,
            run_key=f"key{name}",
            run_name=f"teams/vision/runs/{name}",
            queue="train",
            flavor=place.config.flavors[0].name,
            ranks=1,
            accelerator="H100",
            accelerators_per_node=1,
            command=Program(steps=5, step_s=1.0, save_every=9).command(),
            env={},
            priority=0,
            gate_timeout_s=STRANGER_S,
            stop_grace_s=5.0,
            labels={"run": f"teams/vision/runs/{name}", "placement": name},
        )
        self._note(f"{place.region}: {name} appears")
        place.queue(spec)

    def _job(self, place: Place) -> Job | None:
        """Draw a gang that has come up at least in part."""
        jobs = [job for job in place.world.state.live_jobs() if job.spec is not None and job.alive]
        return self._chance.choice(jobs) if jobs else None

    async def _reboot(self) -> None:
        """A region's machine loses its power and comes back with what was on its disks."""
        place, chance = self._place(), self._chance
        if place.is_down:
            return
        down_s, takes_store = chance.uniform(5.0, 120.0), chance.random() < 0.5
        self._note(f"{place.region}: it reboots, and is back in {down_s:.0f} s")
        place.shut_down(takes_store)
        self._stage.loop.call_later(down_s, place.boot)

    async def _damage(self) -> None:
        """A disk loses the bytes of a bundle: they are others, or gone."""
        place, key = self._place(), layout.bundle_key(BUNDLE_DIGEST)
        if place.objects.get(key) is None:
            return
        self._note(f"{place.region}: its disk damages the bundle")
        place.objects.put(key, b"what a disk makes of it")

    # ---- Silence --------------------------------------------------------------------------------

    async def _silence(self) -> None:
        place = self._busy_place()
        place.weather.is_cluster_silent = True
        self._lasting(place, "the cluster is silent", 20.0, 250.0)

    async def _partition(self) -> None:
        place, chance = self._busy_place(), self._chance
        weather = place.weather
        match chance.randrange(4):
            case 0:
                weather.is_store_down = True
                self._lasting(place, "the store is down", 10.0, 150.0)
            case 1:
                weather.is_store_cut = True
                self._lasting(place, "brokerd does not reach the store", 20.0, 250.0)
            case 2:
                weather.is_store_cut = weather.is_cluster_silent = True
                self._lasting(place, "brokerd does not reach the region", 60.0, 600.0)
            case _:
                weather.loss = chance.choice((0.02, 0.2))
                self._lasting(place, f"answers of the store are lost: {weather.loss}", 20.0, 200.0)

    def _lasting(self, place: Place, what: str, low_s: float, high_s: float) -> None:
        lasts_s = self._chance.uniform(low_s, high_s)
        self._note(f"{place.region}: {what} for {lasts_s:.0f} s")
        self._stage.loop.call_later(lasts_s, self._clear, place)

    def _clear(self, place: Place) -> None:
        weather = place.weather
        weather.is_cluster_silent = weather.is_store_cut = weather.is_store_down = False
        weather.loss = 0.0
        place.silent_since_s = None  # between two looks it can come back and fall silent again

    async def _deafness(self) -> None:
        """The machines of a gang, or one of them, reach no store any more."""
        place, chance = self._place(), self._chance
        alive = [process for process in place.processes.values() if not process.is_gone]
        if not alive:
            return
        first = chance.choice(alive)
        hit = [first] if chance.random() < 0.5 else [p for p in alive if p.key == first.key]
        lasts_s = chance.uniform(10.0, 300.0)
        self._note(f"{place.region}: {[p.member for p in hit]} hear nothing for {lasts_s:.0f} s")
        for process in hit:
            process.is_deaf = True
            self._stage.loop.call_later(lasts_s, process.hear)

    async def _post(self) -> None:
        chance = self._chance
        post = Post(
            lost=chance.choice((0.0, 0.1, 0.4)),
            unanswered=chance.choice((0.0, 0.1, 0.4)),
            repeated=chance.choice((0.0, 0.2)),
            late=chance.choice((0.0, 0.1, 0.3)),
            late_s=chance.choice((5.0, 60.0, 400.0)),
            delay_s=chance.choice((0.05, 1.0, 4.0)),
        )
        self._note(f"the post is bad: {post}")
        _set(self._stage.post, post)
        lasts_s = chance.uniform(30.0, 300.0)
        self._stage.loop.call_later(lasts_s, _set, self._stage.post, Post())

    # ---- brokerd --------------------------------------------------------------------------------

    async def _kill(self) -> None:
        self._stage.down_until_s = self._stage.loop.time() + self._chance.choice((0.1, 5.0, 200.0))
        self._note("brokerd is killed")
        if self._stage.life is not None:
            self._stage.life.die()

    async def _mortality(self) -> None:
        self._stage.mortality = self._chance.choice((0.002, 0.005, 0.02))
        self._note(f"brokerd is mortal: {self._stage.mortality}")
        lasts_s = self._chance.uniform(20.0, 60.0)
        self._stage.loop.call_later(lasts_s, self._immortal)

    def _immortal(self) -> None:
        self._stage.mortality = 0.0

    async def _clock(self) -> None:
        seconds = self._chance.choice((-3600.0, -60.0, 60.0, 3600.0, 86_400.0))
        self._note(f"the wall clock steps by {seconds:.0f} s")
        self._stage.readings.step_wall(seconds)

    async def _disk(self) -> None:
        self._stage.is_disk_full = True
        self._note("the disk is full")
        self._stage.loop.call_later(self._chance.uniform(2.0, 60.0), self._disk_again)

    def _disk_again(self) -> None:
        self._stage.is_disk_full = False

    def _back_up(self) -> None:
        self._note("a backup is taken")
        self._backup_s = self._stage.loop.time()
        back_up(self._stage.data / LOG_NAME, self._stage.data / "backup")

    async def _restore(self) -> None:
        """Kill brokerd, put the backup in the place of its log, and let it begin again."""
        stage = self._stage
        self._note("the backup is restored")
        stage.is_held = True
        if stage.life is not None:
            stage.life.die()
        await stage.dead.wait()
        self._put_back(stage.data)
        stage.is_held = False

    def _restore_beside(self, old: Life) -> None:
        """Restore the backup to another machine, while the old broker is still there."""
        self._note("the backup is restored elsewhere, and the old broker goes on")
        stage = self._stage
        stage.former = old
        stage.witness.counts["brokers beside"] += 1
        self._put_back(stage.data / "elsewhere")
        old.stand_aside()

    def _put_back(self, data: Path) -> None:
        stage = self._stage
        stage.restored_since_s, stage.restored_s = self._backup_s, stage.loop.time()

        def clock(mark: ClockMark | None) -> SystemClock:
            return SystemClock(mark, stage.readings)

        backup = stage.data / "backup"
        restore(backup, data, clock=clock, actor=OPS, is_told_to_replace=data == stage.data)
        stage.data = data


def _set(post: Post, values: Post) -> None:
    for name in Post.__slots__:
        setattr(post, name, getattr(values, name))
