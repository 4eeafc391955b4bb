"""What goes wrong on real Kueue, seen through brokerd: named, acted on within its bound, let go.

The rule: each fault is done to the cluster behind brokerd's back. It is named by a stable reason
and in words that need no Kubernetes; what the run held is looked for in the cluster's own books.
How long a wait is borne is the policy's: a test shortens it once it has read what is said of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from broker.cli.status import lines_of, rendered
from broker.sdk.errors import Invalid
from broker.v1 import placement_pb2
from tests.cluster.conftest import ZONES, equip
from tests.cluster.harm import Harm
from tests.cluster.remains import GONE_S, left, wait_gone
from tests.cluster.rig.rig import Rig
from tests.cluster.rig.waiting import wait_until
from tests.cluster.scene import Scene, reason_of, scene_of, trainer
from tests.killed import laws

pytestmark = pytest.mark.cluster

HERE, THERE = list(ZONES)[:2]
CHEAP = {HERE: {"spot": "1.00"}}  # so that it is the first choice
NAMED_S = 90.0


@pytest.fixture
def scene(began: Rig) -> Iterator[Scene]:
    """A brokerd on two regions whose machines come when they are asked for, and go when idle."""
    equip(began, HERE, THERE)
    with scene_of(began, (HERE, THERE), nodes=0, prices=CHEAP) as made:
        for region in made.places:
            made.change_pool(region, delay_s=0.5, idle_s=3.0)
        yield made
        assert made.brokerd.failures() == []


@pytest.fixture
def harm(scene: Scene) -> Iterator[Harm]:
    """What can be done to the queue HERE; undone at the end."""
    made = Harm(scene.places[HERE])
    yield made
    made.undo()


def test_a_gang_that_fits_nowhere_holds_nothing(scene: Scene) -> None:
    with pytest.raises(Invalid, match=r"no place can ever take it; .* and would take 4x8xH100"):
        scene.submit("huge", nodes=9)
    assert [left(place) for place in scene.places.values()] == [[], []]


def test_a_gang_that_does_not_fit_any_more_trains_elsewhere(scene: Scene, harm: Harm) -> None:
    scene.fill(HERE)
    name = scene.submit("grown")
    assert "waiting for quota" in said(scene, name, "WAITING_FOR_QUOTA")
    harm.shrink(8)
    scene.wait_for(name, "SUCCEEDED", "FAILED")
    told = scene.brokerd.cli("timeline", "grown").stdout
    assert "its queue can never have so much quota" in told
    harm.undo()
    scene.free(HERE)
    assert trained(scene, name) == [THERE]


def test_of_a_gang_whose_machines_come_in_part_nobody_trains(scene: Scene) -> None:
    scene.change_pool(HERE, supply=1)
    name = scene.submit("part")
    assert "1 of 2 machines are here" in said(scene, name, "PARTIAL_ARRIVAL")
    scene.bear(partial=1)
    assert trained(scene, name) == [THERE]


def test_a_gang_is_not_stuck_on_a_pool_that_is_out_of_stock(scene: Scene) -> None:
    scene.change_pool(HERE, answer="stockout")
    name = scene.submit("dry")
    assert "no such machines left" in said(scene, name, "STOCKOUT")
    scene.bear(capacity=1)
    assert trained(scene, name) == [THERE]


def test_a_gang_that_its_cluster_put_out_is_not_put_there_again_at_once(scene: Scene) -> None:
    """By the bound of Kueue's waitForPodsReady, which here is shorter than the broker's own."""
    scene.change_pool(HERE, answer="silent")
    name = scene.submit("late")
    before(scene, name, "The cluster put it out, because not all of its processes had started in")
    assert trained(scene, name) == [THERE]
    told = scene.brokerd.cli("timeline", "late").stdout
    assert "not all of its processes had started in time" in told


def test_a_gang_whose_queue_is_stopped_trains_elsewhere(scene: Scene, harm: Harm) -> None:
    scene.fill(HERE)
    name = scene.submit("held")
    assert "waiting for quota" in said(scene, name, "WAITING_FOR_QUOTA")
    harm.stop("Hold")
    assert "stopped by its operators" in said(scene, name, "QUEUE_STOPPED")
    scene.bear(quota=1)
    scene.wait_for(name, "SUCCEEDED", "FAILED")
    scene.free(HERE)
    assert trained(scene, name) == [THERE]


def test_a_gang_whose_flavor_is_removed_trains_elsewhere(scene: Scene, harm: Harm) -> None:
    scene.fill(HERE)
    name = scene.submit("gone")
    assert "waiting for quota" in said(scene, name, "WAITING_FOR_QUOTA")
    harm.remove_flavor()
    told = said(scene, name, "QUEUE_STOPPED")
    assert "a kind of machine that it names is not there" in told
    assert "FLAVOR_MISSING" in told
    scene.bear(quota=1)
    scene.wait_for(name, "SUCCEEDED", "FAILED")
    harm.undo()
    scene.free(HERE)
    assert trained(scene, name) == [THERE]


def test_a_gang_that_a_check_keeps_waiting_trains_elsewhere(scene: Scene, harm: Harm) -> None:
    harm.ask("inspection")
    name = scene.submit("asked")
    assert "waits for a check of the cluster: inspection" in said(scene, name, "CHECK_NOT_RERUN")
    scene.bear(wedged=1)
    assert trained(scene, name) == [THERE]


def test_a_gang_goes_on_elsewhere_when_its_place_goes_to_a_higher_priority(
    scene: Scene, harm: Harm
) -> None:
    name = training(scene, "low")
    harm.preempt()
    assert "A run of higher priority in its queue took its place." in said(
        scene, name, "WAITING_FOR_QUOTA"
    )
    scene.bear(quota=1)
    scene.wait_for(name, "SUCCEEDED", "FAILED")
    harm.undo()
    assert trained(scene, name) == [HERE, THERE]


def test_a_gang_goes_on_elsewhere_when_its_queue_is_stopped_and_drained(
    scene: Scene, harm: Harm
) -> None:
    name = training(scene, "drained")
    harm.stop("HoldAndDrain")
    before(scene, name, "The operators stopped its queue and put out all that ran in it.")
    assert trained(scene, name) == [HERE, THERE]
    told = scene.brokerd.cli("timeline", "drained").stdout
    assert "The operators stopped its queue and put out all that ran in it." in told


def test_a_gang_goes_on_when_a_machine_is_lost_with_its_processes(scene: Scene) -> None:
    name = training(scene, "lost")
    place, region = scene.places[HERE], scene.places[HERE].region
    # Others may stand there that came for nothing, and go again.
    lost = max(pod["spec"]["nodeName"] for pod in region.api.all("v1", "Pod", place.namespace))
    region.lose_node(lost)
    wait_until(lambda: reason_of(scene.run(name).why) == "STOPPING", NAMED_S, "the gang's stop")
    assert "does not answer" in scene.brokerd.cli("status", "lost").stdout
    assert "marked as out of service" in scene.brokerd.cli("explain", "lost").stdout
    region.remove_node(lost)  # as the cloud does, sooner or later; its processes are gone for sure
    assert trained(scene, name) == [HERE, HERE]


def said(scene: Scene, name: str, reason: str) -> str:
    """Wait until a run waits HERE for a reason, and return what its status says of it."""

    def is_named() -> bool:
        here = [each for each in scene.run(name).placements if each.place.region == HERE]
        return bool(here) and reason_of(here[-1].why) == reason

    run_id = name.rpartition("/")[2]
    try:
        wait_until(is_named, NAMED_S, f"{reason} of {name}")
    except TimeoutError as error:
        raise AssertionError(f"{error}\n{scene.brokerd.cli('status', run_id).stdout}") from error
    return scene.brokerd.cli("status", run_id).stdout


def before(scene: Scene, name: str, words: str) -> None:
    """Wait until a run's status says how it lost the place that it had HERE."""

    def is_said() -> bool:
        lines = dict(lines_of(scene.run(name), time.time()))
        return words in lines.get("before", "")

    try:
        wait_until(is_said, NAMED_S, f"the words of the end of {name} HERE")
    except TimeoutError as error:
        raise AssertionError(f"{error}\n{rendered(scene.run(name), time.time())}") from error


def training(scene: Scene, run_id: str) -> str:
    """Submit a run, and wait until it trains HERE and has saved something; return its name."""
    name = scene.submit(run_id, command=trainer(scene.diary, steps=150))
    scene.wait_for_step(name, 12)
    assert trained_in(scene, name) == [HERE]
    return name


def trained(scene: Scene, name: str) -> list[str]:
    """Wait until a run has trained to its end, and until nothing of it is left; return where.

    It began from what it had saved, and each start was one gang.
    """
    scene.wait_for(name, "SUCCEEDED", "FAILED", within_s=150)
    lines = scene.lines(name)
    assert laws.finished(lines) == {name: {0, 1}}
    assert [*laws.started_twice(lines), *laws.gangs_at_once(lines), *laws.wrong_states(lines)] == []
    for place in scene.places.values():
        wait_gone(place)
    wait_until(lambda: live(scene, name) == 0, GONE_S, f"the end of all placements of {name}")
    return trained_in(scene, name)


def live(scene: Scene, name: str) -> int:
    """Return how many placements of a run brokerd holds to be there, and bills."""
    ended = placement_pb2.PLACEMENT_STATE_ENDED
    return sum(each.state != ended for each in scene.run(name).placements)


def trained_in(scene: Scene, name: str) -> list[str]:
    """Return the regions in which a run's gangs trained, by their own diary, in order."""
    regions = {each.folder: each.region for each in scene.run(name).epochs}
    return [regions[each] for each in dict.fromkeys(line.epoch for line in scene.lines(name))]
