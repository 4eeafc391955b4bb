"""The sides that are compared: who is asked for a start, and how it is seen to be over.

The rule: each asks for the same command on the same machines, and holds nothing any more before
another side is asked. Read ``Side``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from broker.sdk.intent import parse_intent
from broker.v1 import run_pb2
from tests.bench.clusters.diary import Asked, Diary
from tests.bench.clusters.ground import QUEUE, Ground
from tests.bench.clusters.multikueue import Manager, handed_on
from tests.cluster.rig import fleet
from tests.cluster.rig.api import Api
from tests.cluster.rig.brokerd import IMAGE, TEAM, Brokerd
from tests.cluster.rig.waiting import wait_until

JOBSET = "jobset.x-k8s.io/v1alpha2"
WITHIN_S = 1800.0
CREATE_AT_ONCE = 8
"""Who asks for many starts at once asks for so many at a time, whichever side it is."""


class Side(Asked, Protocol):
    """One way to a start."""

    @property
    def name(self) -> str:
        """What it is called, as the beginning of a name."""

    def clear(self) -> None:
        """Wait until nothing that was asked for holds anything any more."""


class Straight:
    """JobSets, created straight in the worker clusters in turn."""

    name = "straight"

    def __init__(self, ground: Ground, regions: Sequence[str]) -> None:
        self._apis = [ground.regions[name].api for name in regions]
        self._diary = ground.diary

    def ask(self, names: Sequence[str]) -> None:
        create(
            (self._apis[number % len(self._apis)], jobset(name, self._diary))
            for number, name in enumerate(names)
        )

    def clear(self) -> None:
        for api in self._apis:
            remove(api)


class MultiKueue:
    """JobSets, created at MultiKueue's manager."""

    name = "multikueue"

    def __init__(self, manager: Manager, ground: Ground) -> None:
        self._api = manager.region.api
        self._workers = [region.api for region in ground.regions.values()]
        self._diary = ground.diary

    def ask(self, names: Sequence[str]) -> None:
        create((self._api, handed_on(jobset(name, self._diary))) for name in names)

    def clear(self) -> None:
        remove(self._api)
        for api in self._workers:
            wait_over(api, TEAM)


class Ours:
    """Runs, submitted to a brokerd."""

    def __init__(self, name: str, brokerd: Brokerd, ground: Ground, space: str) -> None:
        """``name`` is as in ``Side``; ``space`` the namespace of its gangs."""
        self.name = name
        self._client = brokerd.client()
        self._apis = [region.api for region in ground.regions.values()]
        self._diary = ground.diary
        self._space = space
        self._asked: list[str] = []

    def ask(self, names: Sequence[str]) -> None:
        with ThreadPoolExecutor(CREATE_AT_ONCE) as pool:
            self._asked += pool.map(self._submit, names)

    def _submit(self, name: str) -> str:
        text = (
            f"workload:\n  command: {self._diary.command(name)}\n  image: {IMAGE}\n"
            "  hardware: [1x8xH100]\nterms:\n  capacity_types: [spot]\n"
        )
        intent = parse_intent(text.encode(), "bench", {}).message
        return self._client.runs.submit(TEAM, intent, run_id=name).name

    def clear(self) -> None:
        while self._asked:
            self._wait_ended(self._asked.pop())
        for api in self._apis:
            wait_over(api, self._space)

    def regions_of(self, name: str) -> set[str]:
        """Return the regions in which a run waited or ran."""
        found = self._client.runs.get(f"teams/{TEAM}/runs/{name}").placements
        return {each.place.region for each in found}

    def close(self) -> None:
        """Hang up."""
        self._client.close()

    def _wait_ended(self, name: str) -> None:
        def is_over() -> bool:
            return self._client.runs.get(name).state == run_pb2.RUN_STATE_SUCCEEDED

        wait_until(is_over, WITHIN_S, f"the success of {name}", every_s=0.2)


def create(made: Iterable[tuple[Api, fleet.Object]]) -> None:
    """Create objects, some at once."""
    with ThreadPoolExecutor(CREATE_AT_ONCE) as pool:
        list(pool.map(lambda one: one[0].create(one[1]), made))


def jobset(name: str, diary: Diary) -> fleet.Object:
    """Return the JobSet that does what a run does."""
    selected = {"nodeSelector": {fleet.PROVISIONING: "spot"}}
    return fleet.gang(name, TEAM, QUEUE, diary.command(name), ranks=1, pod=selected)


def remove(api: Api) -> None:
    """Remove the JobSets that were created here, once they are over; wait until they are gone."""
    wait_over(api, TEAM)
    for one in ours(api):
        api.delete(JOBSET, "JobSet", one, TEAM)
    wait_until(lambda: not ours(api), WITHIN_S, "that JobSets are gone", every_s=0.5)


def ours(api: Api) -> list[str]:
    names = (one["metadata"]["name"] for one in api.all(JOBSET, "JobSet", TEAM))
    return [name for name in names if name.startswith((Straight.name, MultiKueue.name))]


def wait_over(api: Api, space: str) -> None:
    """Wait until no workload of a namespace waits or holds anything, and no pod of it runs.

    A leg that was withdrawn takes its machine until its processes are gone.
    """

    def are_over() -> bool:
        pods = api.all("v1", "Pod", space)
        return all(is_over(one) for one in api.all(fleet.KUEUE, "Workload", space)) and all(
            one["status"]["phase"] in ("Succeeded", "Failed") for one in pods
        )

    wait_until(are_over, WITHIN_S, f"the end of all in {space}", every_s=0.5)


def is_over(workload: Mapping[str, object]) -> bool:
    status = workload.get("status")
    held = status.get("conditions", []) if isinstance(status, dict) else []
    return any(c["type"] == "Finished" and c["status"] == "True" for c in held)
