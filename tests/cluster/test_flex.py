"""Runs on flex capacity, seen through brokerd on real Kueue: booked, given up, and its planned end.

The rule: what trains, and from what it goes on, is read from the gangs' own diary; of requests and
machines the cluster is asked. A machine's week is a minute here. Read ``Scene`` of ``scene`` first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from broker.cli.status import rendered
from broker.v1 import placement_pb2
from tests.cluster.conftest import ZONES, equip
from tests.cluster.harm import Harm
from tests.cluster.overhearing import Ear
from tests.cluster.remains import wait_gone
from tests.cluster.rig import fleet
from tests.cluster.rig.rig import Rig
from tests.cluster.rig.waiting import wait_until
from tests.cluster.scene import Scene, reason_of, scene_of, trainer
from tests.killed import laws

pytestmark = pytest.mark.cluster

HERE, THERE = list(ZONES)[:2]
CHEAP = {HERE: {"flex": "1.00"}}  # so that it is the first choice
FLEX = fleet.KINDS["FLEX"].flavor
SAID_S = 90.0
WEEK_S = 60.0


@pytest.fixture
def scene(began: Rig) -> Iterator[Scene]:
    """A brokerd on two regions whose flex machines come when they are booked."""
    equip(began, HERE, THERE)
    with scene_of(began, (HERE, THERE), nodes=0, prices=CHEAP) as made:
        yield made
        assert made.brokerd.failures() == []


def change_flex(scene: Scene, region: str, **fields: object) -> None:
    """Change what a region's cloud does to who asks for flex machines."""
    place = scene.places[region]
    place.region.change_pool(fleet.pool("FLEX", place.zone).name, **fields)


def test_a_gang_whose_booking_runs_out_while_a_check_keeps_it_trains_elsewhere(
    scene: Scene,
) -> None:
    harm = Harm(scene.places[HERE])
    harm.ask("inspection", FLEX)
    change_flex(scene, HERE, booking_s=2.0, idle_s=3.0)
    with contextlib.closing(Ear(scene.brokerd)) as ear:
        name = scene.submit("booked", capacity_types=("flex",))
        said = ear.hear(name, "FLEX_BOOKING_EXPIRED", "BOOKING_EXPIRED", SAID_S)
    assert "flex capacity came, and was taken back before the gang could use it" in said.status
    assert "FLEX_BOOKING_EXPIRED (class: resource)" in said.explained
    assert "It takes the gang out of this cluster and tries another place" in said.explained
    assert trained(scene, name) == [THERE]
    harm.undo()
    wait_gone(scene.places[HERE])


def test_a_gang_leaves_its_machines_before_their_planned_end_for_a_place_that_stands(
    scene: Scene,
) -> None:
    change_flex(scene, HERE, max_run_s=WEEK_S)
    command = trainer(scene.diary, steps=400)
    name = scene.submit("crossing", command=command, capacity_types=("flex",))
    scene.wait_for_step(name, 10)
    # Machines of the same kind would do, and end as soon: it is to go on elsewhere.
    assert scene.brokerd.cli("regions", "cordon", HERE).returncode == 0
    read: dict[str, str] = {}

    def is_crossed() -> bool:
        run = scene.run(name)
        own = run.epochs[-1].placement
        ended = placement_pb2.PLACEMENT_STATE_ENDED
        waiting = [each for each in run.placements if each.state != ended and each.name != own]
        assert len(waiting) <= 1  # no second one comes to bill beside it
        for each in waiting:
            is_next = each.purpose == placement_pb2.PURPOSE_SUCCESSOR
            assert (each.place.region, is_next) == (THERE, True)
            read.setdefault("beside", rendered(run, each.state_time.seconds))
        return len(run.epochs) == 2

    wait_until(is_crossed, 2 * WEEK_S, f"the second start of {name}", every_s=0.3)
    assert "its machines end in" in read["beside"]
    assert "the run goes on there when its present machines end" in read["beside"]
    assert trained(scene, name) == [HERE, THERE]
    run = scene.run(name)
    [left] = [each for each in run.placements if each.place.region == HERE]
    assert reason_of(left.why) == "PLANNED_END"
    assert (run.restarts.infrastructure_losses, run.restarts.user_failures) == (0, 0)
    resumed = [line for line in scene.lines(name) if line.what == "start" and line.resumed]
    assert {line.rank for line in resumed} == {0, 1}


def trained(scene: Scene, name: str) -> list[str]:
    """Wait until a run has trained to its end; return where, in order."""
    scene.wait_for(name, "SUCCEEDED", "FAILED", within_s=150)
    lines = scene.lines(name)
    assert laws.finished(lines) == {name: {0, 1}}
    assert [*laws.started_twice(lines), *laws.gangs_at_once(lines), *laws.wrong_states(lines)] == []
    regions = {each.folder: each.region for each in scene.run(name).epochs}
    return [regions[each] for each in dict.fromkeys(line.epoch for line in lines)]
