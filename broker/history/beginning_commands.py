"""Commands about how a run begins: submitted, and checked before it may wait for a start.

Offered by ``history.commands`` with all others.
"""

from dataclasses import dataclass

from broker.model.checkpoint import Checkpoint
from broker.model.image import PinnedImage
from broker.model.intent import Intent
from broker.model.reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitRun:
    """Create a run. ``body_digest`` is the digest of the request, for request-id reuse.

    ``fork_checkpoint`` is the parent's checkpoint that the first start resumes from, its
    ``ref.run_uid`` set to the parent's uid and the parent's copies in ``regions``. The sender pins
    it in the parent first, so that retention leaves it there.
    """

    name: str
    uid: str
    intent: Intent
    request_id: str
    body_digest: str
    forked_from: str = ""
    fork_checkpoint: Checkpoint | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptRun:
    """Validation passed; ``image`` is what the run's image was found to be, None: nobody asked."""

    image: PinnedImage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectRun:
    """Validation failed."""

    reason: Reason
    message: str
    field: str
