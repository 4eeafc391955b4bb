"""The validator: checks what an intent needs that the edge could not check at once.

The rule: what is missing is named by the field that asks for it, and ends the run before anything
was spent. Read ``problem`` first.
"""

import re
from typing import Protocol
from urllib.parse import urlsplit

from broker.history.commands import AcceptRun, ExplainWait, RejectRun
from broker.loops.desk import Desk
from broker.loops.image_book import ImageBook
from broker.loops.image_check import ImageCheck
from broker.loops.roster import Roster
from broker.model.image import PinnedImage
from broker.model.intent import Intent
from broker.model.problem import Problem
from broker.model.reasons import Reason

PINNED = re.compile(r"@sha256:[0-9a-f]{64}\Z")


class Bundles(Protocol):
    """The bundles of this brokerd."""

    def size_bytes(self, digest: str) -> int | None:
        """Return the size of a bundle, None when it is not there."""
        ...


def problem(
    intent: Intent, bundles: Bundles, regions_needing_image: frozenset[str], book: ImageBook | None
) -> Problem | None:
    """Return the first thing that is missing for an intent, or None.

    ``regions_needing_image`` are those with a cluster that runs images only. A tag is no problem
    where its registry can be asked what it means: ``book`` knows which can, None: there is none.
    """
    workload = intent.workload
    digest = workload.bundle_digest
    if digest and bundles.size_bytes(digest) is None:
        return Problem(
            field="intent.workload.bundle_digest",
            reason=Reason.BUNDLE_MISSING,
            message=f"the bundle {digest[:12]} was not uploaded to this broker",
        )
    asking = sorted(r for r in regions_needing_image if intent.terms.accepts_region(r))
    if asking and not PINNED.search(workload.image):
        is_known = book is not None and book.source(workload.image) is not None
        if not is_known:
            return _unpinned(workload.image, ", ".join(asking), has_registries=book is not None)
    for index, one in enumerate(workload.inputs):
        parts = urlsplit(one.uri)
        if not parts.scheme or not (parts.netloc or parts.path.strip("/")):
            return Problem(
                field=f"intent.workload.inputs[{index}].uri",
                reason=Reason.INVALID_FIELD,
                message=f"{one.uri[:200]!r} names no place that could be read",
            )
    return None


def _unpinned(image: str, where: str, *, has_registries: bool) -> Problem:
    if not image:
        reason = Reason.IMAGE_REQUIRED
        message = f"an image is needed to run in {where}"
    else:
        reason = Reason.INVALID_FIELD
        nobody = ", and its registry is none that the broker may ask" if has_registries else ""
        message = (
            f"{image[:200]!r} names no digest{nobody}, and a tag is another image tomorrow: only"
            f" NAME@sha256:DIGEST runs in {where}"
        )
    return Problem(field="intent.workload.image", reason=reason, message=message)


class Validator:
    """Accepts or rejects every run that waits for it."""

    def __init__(
        self,
        *,
        desk: Desk,
        roster: Roster,
        bundles: Bundles,
        regions_needing_image: frozenset[str],
        images: ImageCheck | None,
    ) -> None:
        """Make it; ``images`` None: no registry is configured, and none is asked."""
        self._desk = desk
        self._roster = roster
        self._bundles = bundles
        self._regions_needing_image = regions_needing_image
        self._images = images
        self.changes = desk.log.feed.subscribe()

    async def tick(self) -> None:
        """Check all runs that are being validated."""
        self.changes.take()
        self._roster.refresh()
        await self._desk.for_each(sorted(self._roster.validating), self._check)

    @property
    def is_busy(self) -> bool:
        """Whether an answer is on its way that the next tick should collect soon."""
        return self._images is not None and bool(self._roster.validating)

    async def _check(self, name: str) -> None:
        run = self._desk.log.run(name)
        if run is None:
            return
        images = self._images
        book = None if images is None else images.images.book
        found = problem(run.intent, self._bundles, self._regions_needing_image, book)
        if found is not None:
            await self._desk.tell(name, _rejected(found))
            return
        if images is None or images.images.book.source(run.intent.workload.image) is None:
            await self._desk.tell(name, AcceptRun())
            return
        match images.look(run):
            case Problem() as missing:
                await self._desk.tell(name, _rejected(missing))
            case ExplainWait() as wait:
                await self._desk.tell(name, wait)
            case PinnedImage() as image:
                await self._desk.tell(name, AcceptRun(image=image))
            case None:
                pass


def _rejected(found: Problem) -> RejectRun:
    return RejectRun(reason=found.reason, message=found.message, field=found.field)
