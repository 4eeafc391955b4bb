"""The courier: has the images of runs copied to the registries of the regions where they may start.

The rule: ahead of need, and never instead of it: what a waiting leg lacks goes before what is only
likely. What is in flight is finished; a copy counts when its registry answers for it. Read
``Courier.tick`` first.
"""

from collections import Counter
from dataclasses import dataclass

from broker.loops.carrying import likely_regions
from broker.loops.content import ContentError
from broker.loops.desk import Clock, Desk, putting_back
from broker.loops.egress import Booking, Egress
from broker.loops.image_vouching import ImageVoucher
from broker.loops.images import Images
from broker.loops.later import MESSAGE_MAX, Later
from broker.loops.pacing import Pacer
from broker.loops.roster import Roster
from broker.loops.sight import Sight
from broker.model.copying import CopyKind
from broker.model.image import ImageOnItsWay, PinnedImage
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import Run
from broker.placement.line import Agenda
from broker.placement.view import View
from broker.store.feed import Changes
from replicator.errors import RegistryBusy

WISHES_LAST_S = 60.0  # where the next start is likely changes with prices and stockouts
DUE_PER_TICK = 256
LOOKED_FOR_PER_TICK = 64  # each is a request, and most are answered from what is known
KNOWN_S = 600.0  # an image that was seen there is copied no more; a start looks again
COPIES_AT_ONCE = 2
LOOK_AGAIN_S = 5.0
FAILURES_KEPT = 10_000

_Key = tuple[str, str]  # an image's name and a region


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """Which regions are to have a run's image; a leg waits in the first ``needed`` of them."""

    image: PinnedImage
    regions: tuple[str, ...]
    needed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moving:
    """A copy under way."""

    image: PinnedImage
    origin: str
    booking: Booking


class Courier:
    """Moves images for all runs."""

    def __init__(
        self,
        *,
        desk: Desk,
        roster: Roster,
        sight: Sight,
        view: View,
        images: Images,
        voucher: ImageVoucher,
        egress: Egress,
        wake: Changes,
        clock: Clock,
    ) -> None:
        """Make it. ``wake`` are the placer's changes: it is told when an image has come."""
        self._desk = desk
        self._roster = roster
        self._view = view
        self._images = images
        self._voucher = voucher
        self._egress = egress
        self._wake = wake
        self._clock = clock
        self._pacer = Pacer(desk, view, clock)
        self._wishes: dict[str, _Wish] = {}
        self._again = Agenda()
        self._held: dict[str, object] = {}
        self._moving: dict[_Key, _Moving] = {}
        self._is_asking = False
        self._later: Later[_Key] = Later(clock)
        self._failures: Counter[_Key] = Counter()
        self.changes = desk.log.feed.subscribe()
        self.changes.add(set(roster.names()))
        sight.subscribe(self.changes)

    async def tick(self) -> None:
        """Collect what has arrived, look for what is wanted, and start what is missing."""
        self._roster.refresh()
        now = self._clock.now()
        changed = self.changes.take()
        with putting_back(self.changes, changed):
            names = {one for one in changed if "/runs/" in one}
            due = set(self._again.due(now.elapsed_s, DUE_PER_TICK))
            for name in sorted(names | due):
                self._wish(name, now, is_due=name in due)
            for key in tuple(self._moving):
                await self._ask(key)
        looked_for, self._is_asking = 0, False
        for key, image in self._wanted():
            looked_for += not await self._look(key, image)
            self._is_asking |= self._voucher.is_asking(image, key[1])
            if looked_for >= LOOKED_FOR_PER_TICK:
                break

    @property
    def is_busy(self) -> bool:
        """Whether work is under way whose outcome the next tick should collect soon."""
        return bool(self._moving) or self._is_asking

    def on_their_way(self, region: str) -> tuple[ImageOnItsWay, ...]:
        """Return the images that are being copied to a region, and how far each is."""
        return tuple(
            ImageOnItsWay(
                name=self._images.book.name_in(name, region),
                done_bytes=self._images.brought_bytes(name, region) or 0,
                size_bytes=moving.image.size_bytes,
            )
            for (name, to), moving in self._moving.items()
            if to == region
        )

    # ---- What is wanted -------------------------------------------------------------------------

    def _wish(self, name: str, now: Moment, *, is_due: bool) -> None:
        run = self._desk.log.run(name)
        # Where it may start is asked of every place: only for what could have changed it.
        held = None if run is None else (run.image, run.state, _waits_in(run), run.terms_generation)
        if not is_due and name in self._held and self._held[name] == held:
            return
        self._held[name] = held
        wish = None if run is None or run.is_ended else self._wish_of(run, now)
        if wish is None:
            self._wishes.pop(name, None)
            self._held.pop(name, None)
            self._again.drop(name)
            return
        self._wishes[name] = wish
        self._again.set(name, now.elapsed_s + WISHES_LAST_S)

    def _wish_of(self, run: Run, now: Moment) -> _Wish | None:
        if run.image is None:
            return None
        book = self._images.book
        waiting = _waits_in(run)
        needed = [region for region in waiting if book.is_pulled_in(region)]
        likely = [
            region
            for region in likely_regions(self._view, run, now)
            if region not in waiting and book.shelf_of(region) is not None
        ]
        # As many as its region's policy has checkpoints copied ahead.
        ahead = [one for at, one in enumerate(likely) if at < self._copies(one)]
        return _Wish(image=run.image, regions=(*needed, *ahead), needed=len(needed))

    def _copies(self, region: str) -> int:
        return self._view.region(region).policy.checkpoint_copies

    def _wanted(self) -> list[tuple[_Key, PinnedImage]]:
        """Return what is not known to be there: what a leg waits for first, by rank of its run."""
        runs = [run for name in self._wishes if (run := self._desk.log.run(name)) is not None]
        runs.sort(key=lambda run: (-run.terms.priority, run.created.elapsed_s, run.name))
        wishes = [self._wishes[run.name] for run in runs]
        found: dict[_Key, PinnedImage] = {}
        for wish in wishes:
            for region in wish.regions[: wish.needed]:
                found.setdefault((wish.image.name, region), wish.image)
        for wish in wishes:
            for region in wish.regions[wish.needed :]:
                found.setdefault((wish.image.name, region), wish.image)
        return [(key, image) for key, image in found.items() if key not in self._moving]

    # ---- Copies ---------------------------------------------------------------------------------

    async def _look(self, key: _Key, image: PinnedImage) -> bool:
        """Look for an image, and begin to copy it; True when nothing had to be asked for that."""
        if self._later.is_too_soon(key):
            return True
        is_there = self._voucher.is_there(image, key[1], within_s=KNOWN_S)
        if is_there:
            self._failures.pop(key, None)
        if is_there is False and not await self._begins(key, image):
            # It is still missing in a moment: a registry is not asked for that at every tick.
            self._later.put_off(key, LOOK_AGAIN_S)
        return bool(is_there)

    async def _begins(self, key: _Key, image: PinnedImage) -> bool:
        """Begin to copy an image that is missing, if that can be; say why it cannot."""
        if len(self._moving) >= COPIES_AT_ONCE:
            return False
        name, region = key
        origin = self._origin(key)
        source = self._source(name, origin)
        if self._images.book.spot_in(name, region) == self._images.book.source(name):
            # It is where it was found once, and nowhere else that is known.
            told = (Reason.IMAGE_NOT_THERE, f"{name} is gone from its registry; push it anew")
            self._view.tell_image(name, region, told)
            if not origin:
                return False
        if not self._may_leave(source, image):
            told = (Reason.IMAGE_NOT_THERE, f"the hourly egress budget of {source} is spent")
            self._view.tell_image(name, region, told)
            return False
        booking = self._egress.book(source, image.size_bytes)
        self._moving[key] = _Moving(image=image, origin=origin, booking=booking)
        word = f"{self._images.book.name_in(name, region)} is being copied there"
        self._view.tell_image(name, region, (Reason.IMAGE_NOT_THERE, word))
        await self._ask(key)
        return True

    def _origin(self, key: _Key) -> str:
        """Return from where to try: its own registry, or, when that failed, who else has it."""
        name, region = key
        others = sorted(self._view.image_regions.get(name, frozenset()) - {region})
        book = self._images.book
        known = ["", *(one for one in others if book.shelf_of(one) is not None)]
        if book.spot_in(name, region) == book.source(name):
            known = known[1:] or [""]
        return known[self._failures[key] % len(known)]

    def _source(self, name: str, origin: str) -> str:
        """Return the region that a copy leaves, empty when its registry is of none."""
        spot = self._images.book.source(name)
        return origin or ("" if spot is None else spot.shelf.region)

    def _may_leave(self, source: str, image: PinnedImage) -> bool:
        """Whether a region's budget for the hour lets an image out; a whole one lets any."""
        allowed = self._view.region(source).policy.egress_budget_bytes_per_hour if source else None
        if allowed == 0:
            return False
        sent = self._egress.sent_bytes(source)
        return sent == 0 or image.size_bytes <= self._egress.left_bytes(source, allowed)

    async def _ask(self, key: _Key) -> None:
        name, region = key
        moving = self._moving[key]
        done_bytes = self._images.brought_bytes(name, region) or 0
        try:
            sent_bytes = self._images.bring(name, moving.origin, region)
        except ContentError as error:
            del self._moving[key]
            # Most that fail send nothing, and are tried again: checkpoints are to have their share.
            moving.booking.sent_bytes = done_bytes
            await self._failed(key, error)
            return
        if sent_bytes is None:
            return
        del self._moving[key]
        self._failures.pop(key, None)
        moving.booking.sent_bytes = sent_bytes
        self._view.apply_image(name, region, is_there=True)
        self._wake.add(self._who_wants(key))
        await self._pacer.measured(
            CopyKind.IMAGE,
            self._source(name, moving.origin),
            region,
            sent_bytes=sent_bytes,
            began_s=moving.booking.began_s,
        )

    async def _failed(self, key: _Key, error: ContentError) -> None:
        name, region = key
        self._failures[key] += 1
        if len(self._failures) > FAILURES_KEPT:
            self._failures.clear()  # what is forgotten begins at its own registry again
        said = self._later.failed(key, region, error)
        if isinstance(error, RegistryBusy) and error.retry_after_s is not None:
            self._later.put_off(key, error.retry_after_s)
        word = f"{name} could not be copied to {region}: {error}"[:MESSAGE_MAX]
        self._view.tell_image(name, region, (Reason.IMAGE_NOT_THERE, word))
        for run in sorted(self._who_wants(key)):
            await self._desk.tell(run, *said)

    def _who_wants(self, key: _Key) -> set[str]:
        name, region = key
        return {
            run
            for run, wish in self._wishes.items()
            if wish.image.name == name and region in wish.regions
        }


def _waits_in(run: Run) -> tuple[str, ...]:
    """Return the regions in which a run has a leg that could still be granted."""
    return tuple(dict.fromkeys(leg.site.region for leg in run.waiting_placements))
