"""Whether a region's registry has an image, looked up before anything rests on it.

The rule: it is checked, and not remembered: a registry's own cleaning can take an image at any
time. Silence is unknown, neither there nor gone, and is waited for with its reason. Read
``ImageVoucher.is_there`` first.
"""

from dataclasses import dataclass, field

from broker.loops.content import ContentError
from broker.loops.desk import Clock
from broker.loops.images import Images
from broker.loops.later import MESSAGE_MAX, Later
from broker.model.image import PinnedImage
from broker.model.reasons import Reason
from broker.model.run import Run
from broker.placement.view import View

AGAIN_S = 5.0  # until a registry that was silent is asked again
KEPT = 10_000

_Key = tuple[str, str]


@dataclass(slots=True)
class ImageVoucher:
    """Asks the registries, and keeps the view in step with what they say."""

    images: Images
    view: View
    clock: Clock
    _asked_s: dict[_Key, float] = field(default_factory=dict)
    _there_s: dict[_Key, float] = field(default_factory=dict)
    _later: Later[_Key] = field(init=False)

    def __post_init__(self) -> None:
        self._later = Later(self.clock)

    def may_start(self, run: Run, region: str, *, within_s: float) -> bool | None:
        """Return whether a start of the run in the region would find its image; None: unknown."""
        image = run.image
        if image is None or not self.images.book.is_pulled_in(region):
            return True
        return self.is_there(image, region, within_s=within_s)

    def is_put_off(self, run: Run, region: str) -> bool:
        """Whether the region's registry was silent of late, and is not asked for a while."""
        return run.image is not None and self._later.is_too_soon((run.image.name, region))

    def is_asking(self, image: PinnedImage, region: str) -> bool:
        """Whether a region's registry was asked for an image, and its answer is to be collected."""
        return (image.name, region) in self._asked_s

    def is_there(self, image: PinnedImage, region: str, *, within_s: float) -> bool | None:
        """Return whether an image answers in a region by a look that is no older; None: not known.

        What was asked longer ago than that is asked anew, whenever its answer is collected.
        """
        key = (image.name, region)
        now_s = self.clock.now().elapsed_s
        there_s = self._there_s.get(key)
        if there_s is not None and now_s - there_s < within_s:
            return True
        if self.images.book.source(image.name) is None:
            # Its registry is configured no more: nobody is asked, and it is run by its name.
            self.view.apply_image(image.name, region, is_there=True)
            return True
        if self._later.is_too_soon(key):
            return None
        asked_s = self._asked_s.setdefault(key, now_s)
        while len(self._asked_s) > KEPT:
            # Who asked is over; the answer is long forgotten, for of those fewer are kept.
            del self._asked_s[next(iter(self._asked_s))]
        try:
            found = self.images.is_there(image.name, region)
        except ContentError as error:
            self._forget(key)
            self._later.put_off(key, AGAIN_S)
            self.view.tell_image(image.name, region, _word(error))
            return None
        if found is None:
            return None
        self._forget(key)
        if found:
            self._there_s[key] = asked_s
            while len(self._there_s) > KEPT:
                del self._there_s[next(iter(self._there_s))]
        if found and now_s - asked_s >= within_s:
            return None
        self.view.apply_image(image.name, region, is_there=found)
        return found

    def _forget(self, key: _Key) -> None:
        self._asked_s.pop(key, None)
        self._there_s.pop(key, None)


def _word(error: ContentError) -> tuple[Reason, str]:
    reason = Reason.REGISTRY_UNREACHABLE if error.can_retry else Reason.IMAGE_NOT_THERE
    return reason, f"{error}"[:MESSAGE_MAX]
