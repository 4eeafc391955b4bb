"""The parts of the simulated world that a planted fault can replace: production's own otherwise.

The rule: what stands here is called where production is, and nowhere else. Read ``Pieces``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regions.launcher import rules
from regions.launcher.rules import Standing, Step


def _nothing(path: Path) -> None:
    """Leave the log as it is."""


def _same(thing: Any, *_: Any) -> Any:
    return thing


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """What may be wrapped: the launcher's rule, the broker's log, its ports, its content.

    ``wrap_log(log, stage)`` and ``wrap_port(port, place, stage)`` get what they wrap and the stage
    of the play; ``before_life(path)`` is told where the log is before each life.
    """

    next_step: Callable[[Standing], Step] = rules.next_step
    wrap_log: Callable[..., Any] = _same
    wrap_port: Callable[..., Any] = _same
    before_life: Callable[[Path], None] = _nothing


PRODUCTION = Pieces()
