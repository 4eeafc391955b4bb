"""How the demo looks: narrated lines that stay, and below them what changes.

The rule: on a terminal the lower part is redrawn; anywhere else only the lines are written.
Read ``Screen`` first.
"""

import time
from collections.abc import Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from broker.v1 import placement_pb2, run_pb2

BARS = "▁▂▃▄▅▆▇█"
CURVE_WIDTH = 60
_STATES = {
    placement_pb2.PLACEMENT_STATE_PREPARING: "content on its way",
    placement_pb2.PLACEMENT_STATE_QUEUED: "in the queue",
    placement_pb2.PLACEMENT_STATE_PROVISIONING: "machines coming",
    placement_pb2.PLACEMENT_STATE_AT_GATE: "whole, at the gate",
    placement_pb2.PLACEMENT_STATE_RUNNING: "running",
}


class Screen:
    """Writes the demo to a terminal, or to whatever stands in its place."""

    def __init__(self, regions: Sequence[str]) -> None:
        self.console = Console(highlight=False)
        self._regions = regions
        self._began_s = time.monotonic()
        self._run: run_pb2.Run | None = None
        self._losses: Mapping[int, float] = {}
        self._step = 0
        self._note = ""
        self._live = Live(
            console=self.console, refresh_per_second=4, transient=True, get_renderable=self._lower
        )

    def __enter__(self) -> "Screen":
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def title(self, text: str) -> None:
        """Write the head of a chapter."""
        self.console.print()
        self.console.print(Text(text, style="bold"))

    def say(self, text: str, style: str = "") -> None:
        """Write one line that stays, with the seconds since the demo began."""
        at = Text(f"{time.monotonic() - self._began_s:6.1f}s  ", style="dim")
        self.console.print(at + Text(text, style=style), soft_wrap=not self.console.is_terminal)

    def show(self, renderable: RenderableType) -> None:
        """Write something larger that stays."""
        self.console.print(renderable)

    def update(
        self, run: run_pb2.Run | None, losses: Mapping[int, float], step: int, note: str
    ) -> None:
        """Take in what the lower part is to show; ``note`` stands for a run that is not known."""
        self._run, self._losses, self._step, self._note = run, losses, step, note

    def _lower(self) -> RenderableType:
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        table.add_column(width=14, style="bold")
        table.add_column(width=22)
        table.add_column(overflow="ellipsis", no_wrap=True)
        for region in self._regions:
            table.add_row(region, *self._cells(region))
        parts: list[RenderableType] = [Text("─" * min(78, self.console.width), style="dim"), table]
        if self._losses:
            last = list(self._losses.values())[-1]
            parts.append(Text(f"step {self._step:>4}  loss {last:.3f}  {curve(self._losses)}"))
        if self._note:
            parts.append(Text(self._note, style="yellow"))
        return Group(*parts)

    def _cells(self, region: str) -> tuple[Text, Text]:
        placements = self._run.placements if self._run is not None else ()
        for placement in placements:
            ended = placement.state == placement_pb2.PLACEMENT_STATE_ENDED
            if placement.place.region == region and not ended:
                return _here(placement)
        return Text("-", style="dim"), Text("")


def curve(losses: Mapping[int, float]) -> str:
    """Draw the losses, first to last, as one line of bars."""
    values = list(losses.values())
    width = min(CURVE_WIDTH, len(values))
    picked = [values[i * len(values) // width] for i in range(width)]
    low, high = min(picked), max(picked)
    span = (high - low) or 1.0
    return "".join(BARS[int((v - low) / span * (len(BARS) - 1))] for v in picked)


def _here(placement: placement_pb2.Placement) -> tuple[Text, Text]:
    arrival = placement.arrival
    state = _STATES.get(placement.state, "")
    wanted = arrival.nodes_wanted or placement.nodes
    is_coming = placement.state == placement_pb2.PLACEMENT_STATE_PROVISIONING
    if is_coming:
        here = arrival.nodes_here
        machines = Text("■" * here, style="green") + Text("□" * (wanted - here), style="dim")
    elif placement.state == placement_pb2.PLACEMENT_STATE_RUNNING:
        machines = Text("■" * wanted, style="bold green")
    elif placement.state == placement_pb2.PLACEMENT_STATE_AT_GATE:
        machines = Text("■" * wanted, style="cyan")
    else:
        machines = Text("□" * wanted, style="dim")
    leaving = placement.HasField("withdrawal")
    return machines, Text("leaving" if leaving else state, style="dim" if leaving else "")
