"""What the image of a new run is: asked once, and kept by digest.

The rule: an image that cannot be run ends its run before anything was spent, and says which of the
ways it is: not there, of another architecture, not ours to see, or broken. A registry that is
silent is asked again, for a bounded time. Read ``ImageCheck.look`` first.
"""

from dataclasses import dataclass, field

from broker.history.commands import ExplainWait
from broker.loops.content import ContentError
from broker.loops.desk import Clock
from broker.loops.images import Images
from broker.loops.later import MESSAGE_MAX, Later
from broker.model.image import PinnedImage
from broker.model.problem import Problem
from broker.model.reasons import Reason
from broker.model.run import Run
from replicator.errors import ImageMissing, LoginRefused, PlatformMissing, RegistryBusy

FIELD = "intent.workload.image"
WITHIN_S = 120.0  # a person may wait before a terminal; nothing is held meanwhile
AGAIN_S = 5.0
KEPT = 10_000


@dataclass(slots=True)
class ImageCheck:
    """Asks registries what images are. It can forget how long it asked, which only asks longer."""

    images: Images
    clock: Clock
    _since_s: dict[str, float] = field(default_factory=dict)
    _later: Later[str] = field(init=False)

    def __post_init__(self) -> None:
        self._later = Later(self.clock)

    def look(self, run: Run) -> PinnedImage | Problem | ExplainWait | None:
        """Return what a run's image is, why it cannot be run, what it waits for, or None.

        None: the answer is under way.
        """
        now_s = self.clock.now().elapsed_s
        since_s = self._since_s.setdefault(run.name, now_s)
        while len(self._since_s) > KEPT:
            del self._since_s[next(iter(self._since_s))]
        if self._later.is_too_soon(run.name):
            return None
        try:
            found = self.images.resolve(run.name, run.intent.workload.image)
        except ContentError as error:
            left_s = since_s + WITHIN_S - now_s
            if error.can_retry and left_s > 0.0:
                return self._wait(run, error, min(_patience_s(error), left_s))
            self._since_s.pop(run.name, None)
            return _problem(error)
        if found is not None:
            self._since_s.pop(run.name, None)
        return found

    def _wait(self, run: Run, error: ContentError, wait_s: float) -> ExplainWait:
        self._later.put_off(run.name, wait_s)
        return ExplainWait(
            reason=Reason.REGISTRY_UNREACHABLE,
            message=f"{error}"[:MESSAGE_MAX],
            next_action=f"it is asked again, for {WITHIN_S:.0f} s in all; then the run is rejected",
            next_at_s=self.clock.now().elapsed_s + wait_s,
        )


def _patience_s(error: ContentError) -> float:
    asked_s = error.retry_after_s if isinstance(error, RegistryBusy) else None
    return AGAIN_S if asked_s is None else max(AGAIN_S, asked_s)


def _problem(error: ContentError) -> Problem:
    message = f"{error}"[:MESSAGE_MAX]
    match error:
        case ImageMissing():
            reason = Reason.IMAGE_MISSING
        case PlatformMissing():
            reason = Reason.IMAGE_NOT_FOR_PLATFORM
        case LoginRefused():
            reason = Reason.REGISTRY_LOGIN_REFUSED
        case _ if error.can_retry:
            reason = Reason.REGISTRY_UNREACHABLE
            message += f", for {WITHIN_S:.0f} s; submit it again when it does"
        case _:
            reason = Reason.IMAGE_REFUSED
    return Problem(field=FIELD, reason=reason, message=message)
