"""Why an intent cannot run, found where the network had to be asked."""

from dataclasses import dataclass

from broker.model.reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why an intent cannot run; ``field`` is a proto path."""

    field: str
    reason: Reason
    message: str
