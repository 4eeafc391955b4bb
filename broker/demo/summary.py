"""What a run took, drawn: its timeline, and where the time and the money went.

The rule: pure drawing of what the broker's timeline says. Read ``chart`` first.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal

from google.protobuf.duration_pb2 import Duration
from google.type.money_pb2 import Money
from rich.table import Table
from rich.text import Text

from broker.v1.placement_pb2 import PhaseDurations, PlacementEnd
from broker.v1.run_pb2 import Spending
from broker.v1.run_service_pb2 import PlacementSpending

_PHASES = (
    ("waiting", "·", "dim"),
    ("machines coming", "░", "yellow"),
    ("at the gate", "▒", "cyan"),
    ("training", "█", "green"),
)
NAME_WIDTH = 14


def chart(placements: Sequence[PlacementSpending], width: int) -> Text:
    """Draw each placement as a bar over the run's time, with what it did meanwhile."""
    spans = [(_began_s(p), [_seconds(d) for d in _parts(p.phases)]) for p in placements]
    first_s = min(began_s for began_s, _ in spans)
    whole_s = max(began_s + sum(parts) for began_s, parts in spans) - first_s
    room = width - NAME_WIDTH
    per_s = room / max(whole_s, 1.0)
    text = Text(no_wrap=True)
    for placement, (began_s, parts) in zip(placements, spans, strict=True):
        at_s = began_s - first_s
        text.append(f"{placement.place.region:<{NAME_WIDTH}}", style="bold")
        text.append(" " * round(at_s * per_s))
        for (_, bar, style), part_s in zip(_PHASES, parts, strict=True):
            count = round((at_s + part_s) * per_s) - round(at_s * per_s)
            text.append(bar * count, style=style)
            at_s += part_s
        text.append("\n")
    text.append(f"{'':<{NAME_WIDTH}}0 s{whole_s:>{room - 5}.0f} s\n", style="dim")
    for name, bar, style in _PHASES:
        text.append(f"{bar} ", style=style).append(f"{name}   ", style="dim")
    return text


def table(placements: Sequence[PlacementSpending]) -> Table:
    """Tell each placement's time by phase, and what each phase cost."""
    found = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("region", "ended", "waiting", "coming", "gate", "training", "cost"):
        side: Literal["left", "right"] = "left" if heading in ("region", "ended") else "right"
        found.add_column(heading, justify=side, no_wrap=True)
    for placement in placements:
        end = PlacementEnd.Name(placement.end).removeprefix("PLACEMENT_END_").lower()
        times = (f"{_seconds(part):.1f} s" for part in _parts(placement.phases))
        cost = f"${dollars(placement.cost):.3f}"
        found.add_row(placement.place.region, end, *times, cost)
    return found


def cost_by_phase(spending: Spending) -> dict[str, float]:
    """Return US dollars by phase, as the broker tells them; they add up to the cost."""
    by_phase = spending.cost_by_phase
    parts = (by_phase.provisioning, by_phase.at_gate, by_phase.running)
    return {name: dollars(part) for (name, _, _), part in zip(_PHASES[1:], parts, strict=True)}


def dollars(money: Money) -> float:
    """Return an amount of US dollars, for people to read."""
    return float(money.units) + money.nanos / 1e9


def _parts(phases: PhaseDurations) -> tuple[Duration, ...]:
    waiting = Duration()
    waiting.FromTimedelta(_delta(phases.preparing) + _delta(phases.queued))
    return waiting, phases.provisioning, phases.at_gate, phases.running


def _began_s(placement: PlacementSpending) -> float:
    return placement.create_time.seconds + placement.create_time.nanos / 1e9


def _seconds(duration: Duration) -> float:
    return _delta(duration).total_seconds()


def _delta(duration: Duration) -> timedelta:
    return timedelta(seconds=duration.seconds, microseconds=duration.nanos // 1000)
