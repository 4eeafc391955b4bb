"""A brokerd on regions of a rig, gangs that keep a diary, and what that diary has to say.

The rule: what ran is read from what the processes themselves wrote: each line of the diary is one
append of one process, with its run, epoch and rank (``tests.killed.gang``); what the broker says of
it is compared with that, never the other way round. Read ``Scene``.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from broker.sdk.intent import parse_intent
from broker.v1 import errors_pb2, run_pb2, why_pb2
from tests.cluster.conftest import NUMBERS, ZONES, Place, leave, settle
from tests.cluster.rig import fleet
from tests.cluster.rig.brokerd import IMAGE, PRICES, TEAM, Brokerd, Joined
from tests.cluster.rig.children import ROOT
from tests.cluster.rig.rig import Rig
from tests.cluster.rig.waiting import wait_until
from tests.cluster.views import bare_workload
from tests.killed import laws

OTHERS = "others"
JOBSET = "jobset.x-k8s.io/v1alpha2"
GANG = ROOT / "tests" / "killed" / "gang.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A brokerd, its regions by name, and the diary that all gangs write to."""

    brokerd: Brokerd
    places: Mapping[str, Place]
    diary: Path

    def submit(
        self,
        run_id: str = "",
        *,
        command: Sequence[str] = (),
        nodes: int = 2,
        gpus: int = 8,
        image: str = IMAGE,
        secrets: Mapping[str, str] | None = None,
        capacity_types: Sequence[str] = ("spot",),
        **terms: object,
    ) -> str:
        """Submit a run of a gang that keeps a diary, or of another command; return its name.

        ``secrets`` are the names of secrets by the variables that are to show them.
        """
        named = [{"name": name, "env": variable} for variable, name in (secrets or {}).items()]
        lines = [
            "workload:",
            f"  command: {json.dumps(list(command or trainer(self.diary)))}",
            f"  image: {image}",
            f"  hardware: [{nodes}x{gpus}xH100]",
            f"  secrets: {json.dumps(named)}",
            "terms:",
            f"  capacity_types: {list(capacity_types)}",
            *(f"  {key}: {value}" for key, value in terms.items()),
        ]
        intent = parse_intent("\n".join(lines).encode(), "scene", {})
        with self.brokerd.client() as client:
            return client.runs.submit(TEAM, intent.message, run_id=run_id).name

    def hedge_after(self, seconds: int) -> None:
        """Have a run that waits for quota in one region wait in another one too, after so long."""
        self.bear(quota=seconds)

    def bear(self, **seconds: int) -> None:
        """Have waits be borne for so long in every region, by causes as policies name them."""
        with self.brokerd.client() as client:
            for region in self.places:
                policy = client.regions.policy(region)
                for cause, borne_s in seconds.items():
                    getattr(policy.patience, cause).FromSeconds(borne_s)
                client.regions.set_policy(region, policy)

    def change_pool(self, region: str, **fields: object) -> None:
        """Change what a region's cloud does to who asks for spot machines."""
        place = self.places[region]
        place.region.change_pool(fleet.pool("SPOT", place.zone).name, **fields)

    def fill(self, region: str, gpus: int = 32, kind: str = "spot", priority: int = 0) -> None:
        """Have somebody else hold the quota of a kind of machine; return when they do.

        A run with one leg alone waits with its own priority, and asks those below it to leave.
        """
        place = self.places[region]
        body = bare_workload(OTHERS, place.namespace, place.queue, gpus)
        body["spec"]["priority"] = priority
        spec = body["spec"]["podSets"][0]["template"]["spec"]
        spec["nodeSelector"] = {fleet.PROVISIONING: kind}
        spec["tolerations"] = [{"operator": "Exists"}]
        place.region.api.create(body)

        def holds() -> bool:
            found = place.region.api.find(fleet.KUEUE, "Workload", OTHERS, place.namespace) or {}
            held = found.get("status", {}).get("conditions", [])
            return any(c["type"] == "QuotaReserved" and c["status"] == "True" for c in held)

        wait_until(holds, 30, f"that others hold the quota of {region}")

    def free(self, region: str) -> None:
        """Have them give it back."""
        place = self.places[region]
        place.region.api.delete(fleet.KUEUE, "Workload", OTHERS, place.namespace)

    def run(self, name: str) -> run_pb2.Run:
        """Return a run as it stands."""
        with self.brokerd.client() as client:
            return client.runs.get(name)

    def wait_for(self, name: str, *states: str, within_s: float = 90.0) -> run_pb2.Run:
        """Wait until a run is in one of some states, such as RUNNING; return it."""
        with self.brokerd.client() as client:

            def is_so() -> bool:
                return state_of(client.runs.get(name)) in states

            try:
                wait_until(is_so, within_s, f"{' or '.join(states)} of {name}")
            except TimeoutError as error:
                said = self.brokerd.cli("timeline", name).stdout
                raise AssertionError(f"{error}\n{said}\n{self.brokerd.last_words()}") from error
            return client.runs.get(name)

    def lines(self, name: str) -> list[laws.Line]:
        """Return what a run's processes wrote into the diary."""
        return [line for line in laws.read_diary(self.diary) if line.run == name]

    def gangs(self, region: str) -> list[str]:
        """Return the names of the gangs that wait or run in a region, as its API server has them.

        One that ended is kept there for a while, with its logs.
        """
        place = self.places[region]
        found = place.region.api.all(JOBSET, "JobSet", place.namespace)
        is_over = "terminalState"
        return [one["metadata"]["name"] for one in found if not one.get("status", {}).get(is_over)]

    def wait_gone(self, region: str, within_s: float = 60.0) -> None:
        """Wait until a region holds no gang of ours any more."""
        wait_until(lambda: not self.gangs(region), within_s, f"the gangs' end in {region}")

    def wait_for_step(self, name: str, step: int, within_s: float = 60.0) -> None:
        """Wait until each rank that started has come to a step."""

        def is_there() -> bool:
            lines = self.lines(name)
            ranks = {line.rank for line in lines if line.what == "start"}
            there = {line.rank for line in lines if line.what == "step" and line.step >= step}
            return bool(ranks) and ranks == there

        wait_until(is_there, within_s, f"step {step} of {name}", every_s=0.3)


def state_of(run: run_pb2.Run) -> str:
    """Return a run's state as people read it."""
    return run_pb2.RunState.Name(run.state).removeprefix("RUN_STATE_")


def reason_of(why: why_pb2.Why) -> str:
    """Return a stable reason as people read it."""
    return errors_pb2.Reason.Name(why.reason).removeprefix("REASON_")


def trainer(
    diary: Path, *, steps: int = 20, save_every: int = 5, step_s: float = 0.1, way: str = "steady"
) -> list[str]:
    """Return the command of a gang that keeps a diary; see ``tests.killed.gang``."""
    return [
        *("python", str(GANG), "--diary", str(diary), "--steps", str(steps)),
        *("--save-every", str(save_every), "--step-seconds", str(step_s), "--way", way),
    ]


@contextlib.contextmanager
def scene_of(
    rig: Rig,
    regions: Sequence[str],
    *,
    nodes: int = 2,
    prices: Mapping[str, Mapping[str, str]] | None = None,
    profiles: Mapping[str, str] | None = None,
    more: str = "",
) -> Iterator[Scene]:
    """Join a brokerd to some regions of a rig, each with some spot nodes that stand.

    ``nodes`` are of each region; with none its pool makes them when they are asked for.
    ``prices`` are by region and flavor, in the place of PRICES; ``profiles`` are those of Joined;
    ``more`` are sections of brokerd's configuration. At the end nothing of it is left.
    """
    number = next(NUMBERS)
    places: dict[str, Place] = {}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scene-")))
        for name in regions:
            region = rig.regions[name]
            places[name] = settle(region, f"scene-{number}", ZONES[name])
            stack.callback(leave, places[name])
            pool = fleet.pool("SPOT", ZONES[name]).name
            if nodes:
                region.add_nodes(pool, nodes)
            else:
                region.change_pool(pool, is_autoscaled=True, delay_s=1.0)
        members = [
            Joined(
                region=name,
                kubeconfig=place.region.kubeconfig(),
                namespace=place.namespace,
                queue=place.queue,
                store=place.region.store / place.namespace,
                prices={**PRICES, **(prices or {}).get(name, {})},
                profiles=profiles or {},
            )
            for name, place in places.items()
        ]
        brokerd = Brokerd(folder, members, more)
        stack.callback(brokerd.close)
        diary = folder / "diary"
        diary.touch()
        brokerd.start()
        yield Scene(brokerd=brokerd, places=places, diary=diary)
