"""Runs hedged over three real control planes, with all that can fail failing: each trains once.

The rule: whether a run trained once is judged by what its processes wrote themselves, each into a
file of its own (``tests.cluster.witness``); what brokerd says of it must be the same.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker.sdk import BrokerError, Client
from broker.v1 import placement_pb2, run_pb2
from tests.cluster import testimony, witness
from tests.cluster.conftest import ZONES, Place
from tests.cluster.remains import left, wait_gone
from tests.cluster.rig import fleet
from tests.cluster.rig.rig import Rig
from tests.cluster.rig.waiting import wait_until
from tests.cluster.scene import Scene, scene_of, state_of
from tests.cluster.trouble import troubled

pytestmark = pytest.mark.cluster

AT_ONCE, RANKS = 8, 2
FEW, MANY = range(5), range(5, 30)
GPUS = (1, 2)
"""Of each process: all runs of a round have quota in every region at once."""
LEGS_S, ENDS_S, GONE_S = 160.0, 180.0, 90.0
EAGER_S, PATIENT_S = 1, 60
VERBS = ("status", "timeline")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """A brokerd on all regions, and the folder in which all processes testify."""

    scene: Scene
    folder: Path

    client: Client
    """It bears that brokerd is killed: what asks through it waits until somebody answers."""

    def submit(self, name: str, gpus: int, lasts_s: float) -> str:
        """Submit a run that only testifies; return its name."""
        command = ["python", testimony.__file__, str(self.folder), f"{lasts_s:.1f}"]
        return self.scene.submit(name, command=command, nodes=RANKS, gpus=gpus)

    def wait_at_most(self, wait_s: int) -> None:
        """Have the policy of every region call a leg stuck after so long."""
        for name in self.scene.places:
            policy = self.client.regions.policy(name)
            policy.hedge_width = len(ZONES)
            policy.patience.capacity.FromSeconds(wait_s)
            policy.patience.quota.FromSeconds(wait_s)
            self.client.regions.set_policy(name, policy)

    def wait_everywhere(self, names: list[str]) -> None:
        """Wait until each run has had a leg in each region; in trouble legs come and go."""

        def are_everywhere() -> bool:
            return all(regions_of(self.run(name)) == set(ZONES) for name in names)

        wait_until(are_everywhere, LEGS_S, "a leg of each run in each region", every_s=0.5)

    def wait_ended(self, names: list[str]) -> None:
        """Wait until each run has ended, in whatever way."""
        ended = {"SUCCEEDED", "FAILED", "CANCELLED", "REJECTED"}

        def are_over() -> bool:
            return all(state_of(self.run(name)) in ended for name in names)

        wait_until(are_over, ENDS_S, "the end of all runs", every_s=0.5)

    def wait_all_ended(self, name: str) -> run_pb2.Run:
        """Wait until each placement of a run is seen to be over; return the run."""

        def is_over() -> bool:
            found = self.run(name).placements
            return all(each.state == placement_pb2.PLACEMENT_STATE_ENDED for each in found)

        wait_until(is_over, GONE_S, f"the end of all placements of {name}", every_s=0.5)
        return self.run(name)

    def run(self, name: str) -> run_pb2.Run:
        """Return a run as it stands."""
        return self.client.runs.get(name)


@pytest.fixture(scope="module")
def stand(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """All runs' brokerd: three regions wide, with machines that come and go as they are used."""
    with scene_of(rig, tuple(ZONES), nodes=0) as scene:
        with scene.brokerd.client() as client:
            for place in scene.places.values():
                place.region.change_pool(pool_of(place), delay_s=0.5, idle_s=3.0)
            folder = tmp_path_factory.mktemp("testimonies")
            yield Stand(scene=scene, folder=folder, client=client)
        assert scene.brokerd.failures() == []


@pytest.mark.parametrize("seed", FEW)
def test_runs_hedged_over_three_regions_train_in_exactly_one(stand: Stand, seed: int) -> None:
    assert trained(stand, seed) == []


@pytest.mark.long
@pytest.mark.parametrize("seed", MANY)
def test_many_more_of_them_do(stand: Stand, seed: int) -> None:
    assert trained(stand, seed) == []


def trained(stand: Stand, seed: int) -> list[str]:
    """Have some runs wait in all regions at once, let them in, and return what they did wrong."""
    scene, chance = stand.scene, random.Random(seed)
    for place in scene.places.values():
        place.region.change_pool(pool_of(place), answer="silent")
    regions = {name: place.region for name, place in scene.places.items()}
    gpus = chance.choice(GPUS)
    stand.wait_at_most(EAGER_S)
    runs: list[str] = []
    told: list[str] = []
    try:
        with troubled(seed, scene.brokerd, regions) as trouble:
            told = trouble.told
            runs.extend(
                stand.submit(f"run-{seed}-{number}", gpus, chance.uniform(2.0, 6.0))
                for number in range(AT_ONCE)
            )
            stand.wait_everywhere(runs)
            # Machines come now, in all the time that a busy machine takes for that.
            stand.wait_at_most(PATIENT_S)
            for name in chance.sample(sorted(scene.places), len(scene.places)):
                place = scene.places[name]
                place.region.change_pool(pool_of(place), answer="nodes")
            stand.wait_ended(runs)
    except (TimeoutError, BrokerError) as error:
        raise AssertionError(f"{error}\nafter {told}\n{told_of(stand, runs)}") from error
    found = [each for each in witness.read(stand.folder) if each.run in runs]
    wrong = [*witness.broken(found, dict.fromkeys(runs, RANKS))]
    for name in runs:
        agree(stand.wait_all_ended(name), found)
    for place in scene.places.values():
        wait_gone(place)
    return [*wrong, *told] if wrong else []


def agree(run: run_pb2.Run, found: list[witness.Testimony]) -> None:
    """What brokerd says of a run is what its processes testify."""
    assert state_of(run) == "SUCCEEDED"
    assert regions_of(run) == set(ZONES)
    well = [each for each in run.epochs if is_well(each)]
    said = {(each.folder, each.region) for each in well}
    ended = {(each.epoch, each.region) for each in found if each.run == run.name}
    assert said == ended


def regions_of(run: run_pb2.Run) -> set[str]:
    """Return the regions in which a run has, or had, a placement."""
    return {each.place.region for each in run.placements}


def is_well(epoch: run_pb2.Epoch) -> bool:
    """Whether each of an epoch's ranks ended by itself and well."""
    codes = [end.exit_code for end in epoch.ends if end.HasField("exit_code")]
    return codes == [0] * RANKS


def told_of(stand: Stand, runs: list[str]) -> str:
    """Return what is said of runs that did not end, for whoever reads that a test failed.

    brokerd's own words, the objects of each region behind its back, and what the processes wrote.
    """
    scene = stand.scene
    waiting = [name for name in runs if state_of(stand.run(name)) != "SUCCEEDED"]
    told = [scene.brokerd.cli(verb, name).stdout for name in waiting for verb in VERBS]
    held = [f"{name} holds {left(place)}" for name, place in scene.places.items()]
    wrote = [str(each) for each in witness.read(stand.folder) if each.run in waiting]
    return "\n".join([*told, *held, *wrote, scene.brokerd.last_words()])


def pool_of(place: Place) -> str:
    """Return the name of a place's pool of spot machines."""
    return fleet.pool("SPOT", place.zone).name
