"""What a test of real clusters is given: a rig for the session, and a place of its own in it.

The rule: the control planes are shared, and whatever a test made or broke in a region is undone
before the next: faults healed, its namespace and queue removed, nodes as they were.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import leaving
from tests.cluster.rig import fleet
from tests.cluster.rig.manifests import namespace
from tests.cluster.rig.region import Region
from tests.cluster.rig.rig import Rig
from tests.cluster.rig.waiting import wait_until

ZONES = {
    "us-central1": "us-central1-a",
    "europe-west4": "europe-west4-b",
    "asia-east1": "asia-east1-c",
}
NEAR = next(iter(ZONES))
SHARES = (
    fleet.Share(capacity_type="RESERVED", nominal=16),
    fleet.Share(capacity_type="ON_DEMAND", nominal=16),
    fleet.Share(capacity_type="SPOT", nominal=32),
    fleet.Share(capacity_type="FLEX", nominal=64),
)
Object = dict[str, Any]
NUMBERS = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A test's own corner of a region: a namespace, and a queue with quota of each kind."""

    region: Region
    namespace: str
    queue: str
    zone: str

    def submit(self, name: str, command: list[str], **options: Any) -> None:
        """Create a JobSet of one gang in the queue; see ``fleet.gang``."""
        self.region.api.create(fleet.gang(name, self.namespace, self.queue, command, **options))

    def pods(self, name: str) -> list[Object]:
        """Return the pods of a JobSet, by rank."""
        label = f"jobset.sigs.k8s.io/jobset-name={name}"
        found = self.region.api.all("v1", "Pod", self.namespace, labelSelector=label)
        return sorted(found, key=rank_of)

    def phases(self, name: str) -> list[str]:
        """Return the phases of a JobSet's pods, by rank."""
        return [pod["status"]["phase"] for pod in self.pods(name)]

    def wait_running(self, name: str, ranks: int, within_s: float = 60) -> list[Object]:
        """Wait until so many pods of a JobSet run, and return them by rank."""
        wait_until(
            lambda: self.phases(name) == ["Running"] * ranks, within_s, f"{ranks} pods of {name}"
        )
        return self.pods(name)

    def workload(self, name: str) -> Object | None:
        """Return the Workload of a JobSet, or None while Kueue has made none."""
        for found in self.region.api.all(fleet.KUEUE, "Workload", self.namespace):
            if any(o["name"] == name for o in found["metadata"].get("ownerReferences", [])):
                return found
        return None

    def conditions(self, name: str) -> dict[str, str]:
        """Return the reasons of a JobSet's Workload's conditions that hold."""
        found = self.workload(name) or {}
        held = found.get("status", {}).get("conditions", [])
        return {c["type"]: c["reason"] for c in held if c["status"] == "True"}

    def log(self, pod: Object, **query: str) -> str:
        """Return a pod's output through the API server."""
        return self.region.api.logs(self.namespace, pod["metadata"]["name"], **query)

    def events(self, reason: str) -> list[str]:
        """Return the messages of the namespace's events with some reason."""
        found = self.region.api.all("v1", "Event", self.namespace)
        return [event["message"] for event in found if event["reason"] == reason]


def rank_of(pod: Object) -> int:
    """Return a pod's rank in its Job."""
    found = pod["metadata"].get("annotations", {})
    return int(found.get("batch.kubernetes.io/job-completion-index", "0"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Bear connections that a test leaves to a server that was stopped, and group the tests.

    A TLS handshake that is given up closes its socket in a later turn of the event loop, and a
    test's loop has none after its end. What needs three regions goes to one worker, first of all: a
    region that stands idle takes its share of the machine, too.
    """
    here = Path(__file__).parent
    own = [item for item in items if item.path.is_relative_to(here)]
    wide = {
        item for item in own if isinstance(item, pytest.Function) and "rig" in item.fixturenames
    }
    for item in own:
        item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))
        group = "three regions" if item in wide else item.path.name
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: item not in wide)


@pytest.fixture(scope="session")
def began() -> Iterator[Rig]:
    """A rig without regions: each is started when the first test asks for it."""
    with Rig(()) as made:
        yield made


@pytest.fixture(scope="session")
def rig(began: Rig) -> Rig:
    """Three regions, as a platform team would have set them up."""
    equip(began, *ZONES)
    return began


@pytest.fixture(scope="session")
def region(began: Rig) -> Region:
    """One region, for tests that need no more."""
    equip(began, NEAR)
    return began.regions[NEAR]


def equip(rig: Rig, *names: str) -> None:
    """Have regions run, with what all of a region's queues share."""
    for new in rig.reach(*names):
        new.api.apply(*fleet.everything())


@pytest.fixture
def places(rig: Rig) -> Iterator[dict[str, Place]]:
    """A place in each region."""
    number = next(NUMBERS)
    made = {
        name: settle(region, f"test-{number}", ZONES[name]) for name, region in rig.regions.items()
    }
    yield made
    for place in made.values():
        leave(place)


@pytest.fixture
def place(region: Region) -> Iterator[Place]:
    """A place in one region."""
    made = settle(region, f"test-{next(NUMBERS)}", ZONES[NEAR])
    yield made
    leave(made)


def settle(region: Region, name: str, zone: str) -> Place:
    """Make a namespace, a queue, and pools with no node in them."""
    for capacity_type in fleet.KINDS:
        region.set_pool(fleet.pool(capacity_type, zone))
    region.api.apply(
        namespace(name),
        fleet.cluster_queue(name, SHARES, cohort="research"),
        fleet.local_queue("training", name, name),
    )
    place = Place(region=region, namespace=name, queue="training", zone=zone)
    wait_until(lambda: is_open(place), 30, f"the queue of {name}")
    return place


def is_open(place: Place) -> bool:
    """Whether the place's queue admits."""
    found = place.region.api.find(fleet.KUEUE, "LocalQueue", place.queue, place.namespace) or {}
    held = found.get("status", {}).get("conditions", [])
    return any(c["type"] == "Active" and c["status"] == "True" for c in held)


def leave(place: Place) -> None:
    """Heal the region, remove what the test made, and wait until it is gone."""
    region, api = place.region, place.region.api
    region.mend()
    leaving.leave(region, place.namespace)
    api.delete(fleet.KUEUE, "ClusterQueue", place.namespace)
    wait_until(
        lambda: not api.find(fleet.KUEUE, "ClusterQueue", place.namespace), 60, "the queue's end"
    )
