"""What brokerd's command line and configuration come to, checked, with the defaults filled in.

The rule: nothing heavy is imported here, so that a mistake is said at once. Read ``Options``.
"""

from dataclasses import dataclass
from pathlib import Path

from broker.config import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to serve. ``metrics`` is (host, port) or None; ``lifeline`` a pipe's reading end.

    ``tokens`` is the file of tokens, there or not.
    """

    data: Path
    config: Config
    address: str
    metrics: tuple[str, int] | None
    lifeline: int | None
    tokens: Path


class StartError(Exception):
    """brokerd cannot start; the sentence says why, and what to do."""
