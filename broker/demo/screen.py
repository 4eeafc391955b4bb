"""How the demo looks: narrated lines that stay, and below them what changes.

The rule: on a terminal the lower part is redrawn and lines are wrapped to its width; anywhere else
only the lines are written, each as one. Read ``Screen`` first.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from broker.v1 import placement_pb2, run_pb2
from broker.v1.why_pb2 import Why

BARS = "▁▂▃▄▅▆▇█"
CURVE_WIDTH = 48
WIDTH_MAX = 100
REDRAWS_PER_S = 4
_WAITING = {
    placement_pb2.PLACEMENT_STATE_PREPARING: "content on its way",
    placement_pb2.PLACEMENT_STATE_QUEUED: "in the queue",
    placement_pb2.PLACEMENT_STATE_PROVISIONING: "machines are coming",
    placement_pb2.PLACEMENT_STATE_AT_GATE: "whole, at the gate",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What the lower part shows."""

    run: run_pb2.Run | None
    losses: Mapping[int, float]
    step: int
    steps: int
    newest: Mapping[str, int]  # the newest complete checkpoint by region
    note: str  # stands for what a dead broker would say; empty while one answers


NOTHING_YET = Sight(run=None, losses={}, step=0, steps=0, newest={}, note="")


class Screen:
    """Writes the demo to a terminal, or to whatever stands in its place."""

    def __init__(self, regions: Sequence[str], console: Console) -> None:
        self._console = console
        self._regions = regions
        self._began_s = time.monotonic()
        self._sight = NOTHING_YET
        self._live = Live(
            console=console,
            refresh_per_second=REDRAWS_PER_S,
            transient=True,
            get_renderable=self.lower,
        )

    def __enter__(self) -> "Screen":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    @property
    def width(self) -> int:
        """How many columns a drawing may take."""
        return min(self._console.width, WIDTH_MAX)

    def head(self, title: str, *lines: str) -> None:
        """Write what all of this is."""
        self._line(Text(title, style="bold"))
        for line in lines:
            self._line(Text(line, style="dim"))

    def title(self, text: str) -> None:
        """Write the head of a chapter."""
        self._console.print()
        self._line(Text(text, style="bold"))

    def say(self, text: str, style: str = "") -> None:
        """Write one line that stays, with the seconds since the demo began."""
        at = f"{time.monotonic() - self._began_s:6.1f}s  "
        if not self._console.is_terminal:
            self._line(Text(at + text))
            return
        row = Table.grid()
        row.add_column(width=len(at), style="dim")
        row.add_column(max_width=self.width - len(at), overflow="fold")
        row.add_row(at, Text(text, style=style))
        self._console.print(row)

    def show(self, renderable: RenderableType) -> None:
        """Write something larger that stays."""
        self._console.print(Padding(renderable, (1, 0, 0, 2)), width=self.width)

    def update(self, sight: Sight) -> None:
        """Take in what the lower part is to show."""
        self._sight = sight

    def lower(self) -> RenderableType:
        """Draw the part that changes; always of the same height."""
        sight = self._sight
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for heading in ("region", "machines", "", "newest checkpoint"):
            table.add_column(heading, no_wrap=True, min_width=14 if heading == "region" else None)
        table.columns[2].min_width = 23  # so that the table does not jump
        for region in self._regions:
            newest = sight.newest.get(region)
            held = Text("-", style="dim") if newest is None else Text(f"step {newest}")
            table.add_row(Text(region, style="bold"), *_cells(sight.run, region), held)
        parts: list[RenderableType] = [
            Text("─" * self.width, style="dim"),
            table,
            _training(sight),
            *_standing(sight),
        ]
        return Padding(Group(*parts), (1, 0, 0, 0))

    def still(self) -> None:
        """Take the lower part away: nothing changes any more."""
        self._live.stop()

    def _line(self, text: Text) -> None:
        self._console.print(text, soft_wrap=not self._console.is_terminal)


def curve(losses: Mapping[int, float], width: int = CURVE_WIDTH) -> str:
    """Draw the losses, first to last, as one line of bars."""
    values = [losses[step] for step in sorted(losses)]
    if not values:
        return ""
    width = min(width, len(values))
    picked = [values[i * len(values) // width] for i in range(width)]
    low, high = min(picked), max(picked)
    span = (high - low) or 1.0
    return "".join(BARS[int((v - low) / span * (len(BARS) - 1))] for v in picked)


def _training(sight: Sight) -> Text:
    if not sight.losses:
        return _one_line("no step yet", "dim")
    last = sight.losses[max(sight.losses)]
    line = _one_line(f"step {sight.step:>3} of {sight.steps}  loss {last:.2f}  ", "")
    return line.append(curve(sight.losses), style="green")


def _standing(sight: Sight) -> list[Text]:
    """Where the run stands and what comes next, in the broker's words; always two lines."""
    if sight.note:
        return [_one_line(sight.note, "bold yellow"), _one_line("", "")]
    if sight.run is None:
        return [_one_line("", ""), _one_line("", "")]
    state = run_pb2.RunState.Name(sight.run.state).removeprefix("RUN_STATE_").lower()
    why = sight.run.why
    return [_one_line(f"{state}: {why.message}", ""), _one_line(_next(why), "dim")]


def _next(why: Why) -> str:
    if not why.next_action:
        return ""
    left_s = why.next_time.seconds - time.time()
    when = f", in {left_s:.0f} s" if why.HasField("next_time") and left_s >= 1 else ""
    return f"next: {why.next_action}{when}"


def _one_line(text: str, style: str) -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _cells(run: run_pb2.Run | None, region: str) -> tuple[Text, Text]:
    for placement in run.placements if run is not None else ():
        has_ended = placement.state == placement_pb2.PLACEMENT_STATE_ENDED
        if run is not None and placement.place.region == region and not has_ended:
            return _machines(placement), _what(run, placement)
    return Text("-", style="dim"), Text("")


def _machines(placement: placement_pb2.Placement) -> Text:
    wanted = placement.arrival.nodes_wanted or placement.nodes
    match placement.state:
        case placement_pb2.PLACEMENT_STATE_RUNNING:
            here, style = wanted, "bold green"
        case placement_pb2.PLACEMENT_STATE_AT_GATE:
            here, style = wanted, "cyan"
        case _:
            here, style = placement.arrival.nodes_here, "yellow"
    return Text("■" * here, style=style) + Text("□" * (wanted - here), style="dim")


def _what(run: run_pb2.Run, placement: placement_pb2.Placement) -> Text:
    if placement.HasField("withdrawal"):
        return Text("is given back", style="dim")
    if placement.state != placement_pb2.PLACEMENT_STATE_RUNNING:
        return Text(_WAITING.get(placement.state, ""))
    if run.draining:
        return Text("saving before it leaves", style="yellow")
    is_training = run.state == run_pb2.RUN_STATE_RUNNING
    return Text("training" if is_training else "starting", style="green")
