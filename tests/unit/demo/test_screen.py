"""What the demo draws: on a narrow terminal, without colours, and where there is no terminal."""

from __future__ import annotations

import io
import re

import pytest
from google.type.money_pb2 import Money
from rich.console import Console

from broker.demo.screen import NOTHING_YET, Screen, Sight, curve
from broker.demo.summary import chart, cost_by_phase, dollars
from broker.v1 import placement_pb2, run_pb2
from broker.v1.run_pb2 import Spending
from broker.v1.run_service_pb2 import PlacementSpending

LONG = "five of eight machines are here in the first region, and the rest of them are out of stock"


def test_without_a_terminal_a_line_is_written_as_one() -> None:
    out = io.StringIO()
    with Screen(["a"], Console(file=out)) as screen:
        screen.say(LONG, style="red")
        screen.update(NOTHING_YET)
    assert re.fullmatch(rf" +\d+\.\ds  {LONG}\n", out.getvalue())


def test_on_a_terminal_a_line_is_wrapped_under_its_beginning() -> None:
    screen, out = terminal()
    screen.say(LONG)
    first, *rest = out.getvalue().splitlines()
    assert len(first) <= 80
    assert [line[:9] for line in rest] == [" " * 9]
    assert " ".join([first[9:].rstrip(), *(line.strip() for line in rest)]) == LONG


def test_the_lower_part_keeps_its_height_and_width_whatever_it_shows() -> None:
    placement = placement_pb2.Placement(
        nodes=8,
        state=placement_pb2.PLACEMENT_STATE_PROVISIONING,
        arrival=placement_pb2.Arrival(nodes_here=5, nodes_wanted=8),
    )
    placement.place.region = "us-east4"
    run = run_pb2.Run(state=run_pb2.RUN_STATE_QUEUED, placements=[placement])
    run.why.message, run.why.next_action = LONG, LONG
    waiting = Sight(run=run, losses={}, step=0, steps=300, newest={}, note="")
    dead = Sight(
        run=run,
        losses={step: 4 - step / 100 for step in range(300)},
        step=299,
        steps=300,
        newest={"us-east4": 140},
        note="brokerd is dead",
    )
    pictures = [drawn(sight) for sight in (NOTHING_YET, waiting, dead)]
    assert {len(picture) for picture in pictures} == {len(pictures[0])}
    assert max(len(line) for picture in pictures for line in picture) <= 80
    assert any("■■■■■□□□  machines are coming" in line for line in pictures[1])
    assert any("step 140" in line for line in pictures[2])


@pytest.mark.parametrize(
    ("losses", "expected"),
    [({}, ""), ({1: 2.0}, "▁"), ({1: 4.0, 3: 1.0, 2: 2.5}, "█▄▁"), ({1: 3.0, 2: 3.0}, "▁▁")],
)
def test_the_curve_goes_from_the_first_step_to_the_last(
    losses: dict[int, float], expected: str
) -> None:
    assert curve(losses) == expected


def test_the_chart_draws_each_placement_where_it_was_in_time() -> None:
    first = spending("a", began_s=100, coming_s=5, gate_s=5, running_s=0)
    second = spending("b", began_s=105, coming_s=5, gate_s=0, running_s=10)
    rows = chart([first, second], width=14 + 20).plain.splitlines()[:2]
    assert rows == ["a             ░░░░░▒▒▒▒▒", "b                  ░░░░░██████████"]


def test_the_cost_by_phase_adds_up() -> None:
    spent = Spending(cost=Money(units=2))
    spent.cost_by_phase.provisioning.nanos = 750_000_000
    spent.cost_by_phase.at_gate.nanos = 500_000_000
    spent.cost_by_phase.running.nanos = 750_000_000
    by_phase = cost_by_phase(spent)
    assert by_phase == {"machines coming": 0.75, "at the gate": 0.5, "training": 0.75}
    assert sum(by_phase.values()) == dollars(spent.cost)


def terminal() -> tuple[Screen, io.StringIO]:
    out = io.StringIO()
    return Screen(["us-east4", "b"], console_on(out, is_terminal=True)), out


def console_on(out: io.StringIO, *, is_terminal: bool) -> Console:
    return Console(file=out, force_terminal=is_terminal, width=80, no_color=True, color_system=None)


def drawn(sight: Sight) -> list[str]:
    screen, out = terminal()
    screen.update(sight)
    console_on(out, is_terminal=False).print(screen.lower())
    return out.getvalue().splitlines()


def spending(
    region: str, *, began_s: int, coming_s: int, gate_s: int, running_s: int
) -> PlacementSpending:
    spent = PlacementSpending()
    spent.place.region = region
    spent.create_time.FromSeconds(began_s)
    spent.phases.provisioning.FromSeconds(coming_s)
    spent.phases.at_gate.FromSeconds(gate_s)
    spent.phases.running.FromSeconds(running_s)
    spent.cost.units = 1
    return spent
