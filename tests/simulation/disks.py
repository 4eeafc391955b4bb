"""What befalls the disks under stores: copies that rot, disks that take no writes, other disks.

The rule: whatever a disk does is told to the witness at once, so that a start on what was damaged
before it can be told from one that was overtaken. What lasts is over at ``heal``, but for what is
lost for good: a disk that was wiped may stay the one there is, until a person accepts it. Read
``Disks.strike`` first.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping

from replicator import errors
from replicator.checkpoint.formats import REPLICA_NAME
from tests.fakes.region_store import Objects, Stored
from tests.simulation import laws
from tests.simulation.place import Place
from tests.simulation.stage import Stage

MARKER = "/.complete"


class Disks:
    """Makes trouble of the stores' own. Half of the seeds have none of it."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._chance: random.Random = stage.dice("disks")
        every: list[Callable[[], None]] = [self._damage, self._damage, self._refuse, self._change]
        kinds = self._chance.sample(every, self._chance.randint(1, len(every)))
        self._kinds = kinds if self._chance.random() < 0.5 else []
        self._right: dict[str, Callable[[], None]] = {}
        self._kept: dict[str, Mapping[str, Stored]] = {}

    async def work(self, until_s: float) -> None:
        """Make trouble until it is enough."""
        while self._kinds and self._stage.loop.time() < until_s:
            await asyncio.sleep(self._chance.uniform(10.0, 80.0))
            self.strike()

    def strike(self) -> None:
        """Let one thing happen to a disk."""
        self._stage.witness.counts["disks struck"] += 1
        self._chance.choice(self._kinds)()

    def heal(self) -> None:
        """End all that lasts, and bring back what can be."""
        for place in self._stage.places.values():
            place.objects.refuses = None
        for bring_back in tuple(self._right.values()):
            bring_back()

    def _place(self) -> Place:
        return self._chance.choice([place for _, place in sorted(self._stage.places.items())])

    def _note(self, place: Place, text: str) -> None:
        self._stage.witness.note("trouble", f"{place.region}: {text}")

    # ---- One copy -------------------------------------------------------------------------------

    def _damage(self) -> None:
        place = self._place()
        markers = [key for key in place.objects.under("runs/") if key.endswith(MARKER)]
        if place.is_store_other or not markers:
            return
        folder = self._chance.choice(markers).removesuffix(MARKER)
        damage = self._chance.choice(DAMAGES)
        save, record = laws.save_of(folder), self._stage.witness.record
        if save not in record.saves:
            return  # its gang could not know that its marker is there
        was_whole = laws.is_whole(record, save, place.objects.get)
        damage(place.objects, folder, self._chance)
        self._note(place, f"{folder} is damaged: {damage.__doc__}")
        self._stage.witness.counts["copies damaged"] += 1
        self._stage.witness.damaged(
            place.region, folder, was_whole=was_whole, is_visible=damage is not _rot
        )

    # ---- All writes -----------------------------------------------------------------------------

    def _refuse(self) -> None:
        place = self._place()
        place.objects.refuses = self._chance.choice((errors.StoreFull, errors.StoreForbidden))
        lasts_s = self._chance.uniform(10.0, 200.0)
        self._note(place, f"its store answers {place.objects.refuses.reason} for {lasts_s:.0f} s")
        self._stage.loop.call_later(lasts_s, self._take_again, place)

    def _take_again(self, place: Place) -> None:
        place.objects.refuses = None

    # ---- The disk itself ------------------------------------------------------------------------

    def _change(self) -> None:
        """Put another disk in the place of one: empty, another region's, or an older state."""
        place, chance = self._place(), self._chance
        if place.is_store_other:
            return
        older = self._kept.pop(place.region, None)
        match chance.randrange(3):
            case 0:
                self._wipe(place, is_for_good=chance.random() < 0.5)
            case 1:
                others = [p for p in self._stage.places.values() if p is not place]
                other = chance.choice(others)
                if not other.is_store_other:
                    self._swap(place, other)
            case _ if older is not None:
                self._note(place, "its disk is restored to an older state")
                self._put_in(place, older)
            case _:
                self._kept[place.region] = place.objects.holding()

    def _wipe(self, place: Place, *, is_for_good: bool) -> None:
        former = place.objects.holding()
        self._note(place, f"an empty disk stands in the place of its own; {is_for_good=}")
        self._put_in(place, {})
        if is_for_good:
            return
        place.is_store_other = True

        def bring_back() -> None:
            if self._right.pop(place.region, None) is not None:
                self._note(place, "its own disk is back")
                self._put_in(place, former)
                place.is_store_other = False

        self._bring_back_later(bring_back, place)

    def _swap(self, place: Place, other: Place) -> None:
        self._note(place, f"its disk and that of {other.region} change places")
        self._exchange(place, other)
        place.is_store_other = other.is_store_other = True

        def bring_back() -> None:
            if self._right.pop(place.region, None) is not None:
                self._note(place, f"its own disk is back, and {other.region} has its own")
                self._exchange(place, other)
                place.is_store_other = other.is_store_other = False

        self._bring_back_later(bring_back, place)

    def _bring_back_later(self, bring_back: Callable[[], None], place: Place) -> None:
        self._right[place.region] = bring_back
        self._stage.loop.call_later(self._chance.uniform(10.0, 300.0), bring_back)

    def _exchange(self, place: Place, other: Place) -> None:
        here, there = place.objects.holding(), other.objects.holding()
        self._put_in(place, there)
        self._put_in(other, here)

    def _put_in(self, place: Place, held: Mapping[str, Stored]) -> None:
        former = place.objects.holding()
        place.objects.hold(held)
        self._stage.witness.changed_disk(place.region, former, held)


def _flipped(data: bytes) -> bytes:
    return bytes(byte ^ 0xFF for byte in data)


def _a_file(objects: Objects, folder: str, chance: random.Random) -> str | None:
    files = [key for key in objects.under(f"{folder}/") if key.endswith(".bin")]
    return chance.choice(files) if files else None


def _cut(objects: Objects, folder: str, chance: random.Random) -> None:
    """a file is cut short"""
    key = _a_file(objects, folder, chance)
    if key is not None and (found := objects.get(key)) is not None:
        objects.put(key, found.data[:-1])


def _drop(objects: Objects, folder: str, chance: random.Random) -> None:
    """a file is gone"""
    key = _a_file(objects, folder, chance)
    if key is not None:
        objects.lose(key)


def _write_over(objects: Objects, folder: str, chance: random.Random) -> None:
    """a file was written over, in the same size"""
    key = _a_file(objects, folder, chance)
    if key is not None and (found := objects.get(key)) is not None:
        objects.put(key, _flipped(found.data))


def _rot(objects: Objects, folder: str, chance: random.Random) -> None:
    """a file rots where it lies"""
    key = _a_file(objects, folder, chance)
    if key is not None and (found := objects.get(key)) is not None:
        objects.rot(key, _flipped(found.data))


def _unmark(objects: Objects, folder: str, chance: random.Random) -> None:
    """its marker is gone"""
    objects.lose(f"{folder}{MARKER}")


def _garble(objects: Objects, folder: str, chance: random.Random) -> None:
    """its manifest is garbled"""
    key = f"{folder}/{REPLICA_NAME}"
    if objects.get(key) is not None:
        objects.put(key, b'{"schema_version": 1, "fil')


def _vanish(objects: Objects, folder: str, chance: random.Random) -> None:
    """all of it is gone"""
    for key in objects.under(f"{folder}/"):
        objects.lose(key)


def _renew(objects: Objects, folder: str, chance: random.Random) -> None:
    """none: its files were copied to another disk and back"""
    for key in objects.under(f"{folder}/"):
        if (found := objects.get(key)) is not None:
            objects.put(key, found.data)


DAMAGES = (_cut, _drop, _write_over, _rot, _unmark, _garble, _vanish, _renew)


def damage_by_name(objects: Objects, folder: str, name: str) -> None:
    """Do one damage, by its function's name, to the copy in a folder."""
    (damage,) = (one for one in DAMAGES if one.__name__ == name)
    damage(objects, folder, random.Random(0))
