"""Which logs of ended placements are let go: the oldest, beyond a cluster's bytes and age. Pure.

The rule: what runs keeps its log; of what ended the newest are kept. Read ``to_let_go``.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedLogs:
    """The logs of one ended object. ``ended_s`` is on the cluster's clock."""

    uid: str
    ended_s: float
    size_bytes: int


def to_let_go(
    ended: Iterable[EndedLogs], now_s: float, *, keep_bytes: int, keep_s: float
) -> tuple[str, ...]:
    """Return whose logs are let go so that the rest is in its bytes and no older than ``keep_s``.

    The newest is always within ``keep_bytes``: what ended last is what people look at.
    """
    gone, kept_bytes = [], 0
    for number, one in enumerate(sorted(ended, key=lambda one: one.ended_s, reverse=True)):
        kept_bytes += one.size_bytes
        is_too_much = number > 0 and kept_bytes > keep_bytes
        if is_too_much or now_s - one.ended_s > keep_s:
            gone.append(one.uid)
    return tuple(gone)
