"""``make bench-cluster``: the figures of real Kueue regions, in build/bench-cluster.json.

What is compared: our way and a JobSet created straight in the worker cluster, in the same queue, on
the same machines, by the same command, one pod each; the command's first word is the end of both.

python -m tests.bench.clusters             all of them
python -m tests.bench.clusters --runs 10   fewer, to see that they work

Not measured yet: a run hedged over three regions, and MultiKueue beside both.
Read ``main`` first.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker.sdk.intent import parse_intent
from tests.bench.figure import Figure, median, show, write
from tests.cluster.rig import fleet
from tests.cluster.rig.brokerd import IMAGE, TEAM, Brokerd, Joined
from tests.cluster.rig.building import build
from tests.cluster.rig.machines.pools import GPU
from tests.cluster.rig.manifests import namespace
from tests.cluster.rig.region import Region
from tests.cluster.rig.rig import Rig
from tests.cluster.rig.waiting import wait_until

OUT = Path(__file__).parents[2] / "build" / "bench-cluster.json"
ZONES = {
    "us-central1": "us-central1-a",
    "europe-west4": "europe-west4-b",
    "asia-east1": "asia-east1-c",
}
NEAR = next(iter(ZONES))
QUEUE, USER = "training", "broker"
REST_S = 60.0
WITHIN_S = 600.0
WATCHES, OTHERS = "bench-watches", "bench-others"
FLOW = "flowcontrol.apiserver.k8s.io/v1"
RBAC = "rbac.authorization.k8s.io"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    singles: int
    runs: int  # at once
    workloads: int


class Ground:
    """Three equipped regions, a brokerd over them, and the diary that all commands write to."""

    def __init__(self, rig: Rig, folder: Path, size: Size) -> None:
        self.regions: Mapping[str, Region] = rig.regions
        self.folder = folder
        self.diary = folder / "diary"
        self.diary.touch()
        per_region = -(-size.runs // len(ZONES))
        with ThreadPoolExecutor(len(ZONES)) as side_by_side:
            list(side_by_side.map(lambda one: equip(one, per_region), rig.regions.values()))

    def brokerd(self, name: str, *regions: str) -> Brokerd:
        """Return a brokerd that is joined to some of the regions, with data of its own."""
        members = [
            Joined(
                region=one,
                kubeconfig=self.regions[one].kubeconfig(USER),
                namespace=TEAM,
                queue=QUEUE,
                store=self.regions[one].store / name,
                prices={"spot": f"{1 + number / 10:.2f}"},
            )
            for number, one in enumerate(regions)
        ]
        return Brokerd(self.folder / name, members)

    def command(self, name: str) -> list[str]:
        return ["sh", "-c", f"echo {name} $(date +%s.%N) >> {self.diary}"]

    def began(self) -> dict[str, float]:
        """Return when each command said its first word, in Unix seconds."""
        lines = (line.split() for line in self.diary.read_text().splitlines())
        return {line[0]: float(line[1]) for line in lines}

    def wait(self, names: Sequence[str]) -> list[float]:
        """Return when each of the commands began."""
        wait_until(lambda: self.began().keys() >= set(names), WITHIN_S, f"{len(names)} starts")
        found = self.began()
        return [found[name] for name in names]

    def straight(self, names: Sequence[str], regions: Sequence[str]) -> None:
        """Create a JobSet for each name, over the regions in turn."""
        with ThreadPoolExecutor(8) as pool:
            list(
                pool.map(
                    lambda numbered: self.regions[regions[numbered[0] % len(regions)]].api.create(
                        jobset(numbered[1], self.command(numbered[1]))
                    ),
                    enumerate(names),
                )
            )

    def submit(self, brokerd: Brokerd, names: Sequence[str]) -> None:
        """Submit a run for each name."""
        with brokerd.client() as client:
            for name in names:
                text = (
                    f"workload:\n  command: {self.command(name)}\n  image: {IMAGE}\n"
                    "  hardware: [1x8xH100]\nterms:\n  capacity_types: [spot]\n"
                )
                intent = parse_intent(text.encode(), "bench", {}).message
                client.runs.submit(TEAM, intent, run_id=name)

    def clear(self) -> None:
        """Wait until no gang holds anything any more."""
        for region in self.regions.values():
            for one in region.api.all("jobset.x-k8s.io/v1alpha2", "JobSet", TEAM):
                if one["metadata"]["name"].startswith("straight"):
                    name = one["metadata"]["name"]
                    region.api.delete(one["apiVersion"], "JobSet", name, TEAM)

            def is_free(region: Region = region) -> bool:
                found = region.api.all(fleet.KUEUE, "Workload", TEAM)
                return all(is_over(one) for one in found)

            wait_until(is_free, WITHIN_S, f"that {region.name} is free")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.clusters", description=__doc__)
    parser.add_argument("--singles", type=int, default=15)
    parser.add_argument("--runs", type=int, default=150)
    parser.add_argument("--workloads", type=int, default=5_000)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    size = Size(singles=options.singles, runs=options.runs, workloads=options.workloads)
    figures: list[Figure] = []
    build(lambda words: print(words, flush=True))
    with (
        tempfile.TemporaryDirectory(prefix="bench-cluster-") as name,
        Rig(tuple(ZONES), Path(name) / "rig") as rig,
    ):
        ground = Ground(rig, Path(name), size)
        brokerd = ground.brokerd("first", *ZONES)
        try:
            brokerd.start()
            for measured in (at_rest, singly, at_once):
                began_s = time.monotonic()
                figures += measured(ground, brokerd, size)
                sys.stderr.write(f"{measured.__name__}: {time.monotonic() - began_s:.0f} s\n")
                write(figures, options.out)
        finally:
            brokerd.close()
        figures += memory(ground, size)
        write(figures, options.out)
    show(figures)
    return 0


def singly(ground: Ground, brokerd: Brokerd, size: Size) -> list[Figure]:
    """One at a time: from SubmitRun, or the JobSet's creation, to the command's first word."""
    ours, straight = [], []
    for number in range(size.singles + 1):
        taken = []
        for side in ("straight", "ours"):
            name = f"{side}-one-{number}"
            began_s = time.time()
            if side == "ours":
                ground.submit(brokerd, [name])
            else:
                ground.straight([name], [NEAR])
            taken.append(ground.wait([name])[0] - began_s)
            ground.clear()
        if number:  # the first round warms up
            straight.append(taken[0])
            ours.append(taken[1])
    return [
        Figure(
            name="SubmitRun to training, one region is enough",
            value=median([one / base for one, base in zip(ours, straight, strict=True)]),
            aim="<= 2.5",
            unit="ratio",
            anchor=f"{median(ours):g} s over a JobSet's {median(straight):g} s",
        )
    ]


def at_once(ground: Ground, brokerd: Brokerd, size: Size) -> list[Figure]:
    """Many at once over three regions: started per second, and what that took of ours."""
    names = {s: [f"{s}-many-{n}" for n in range(size.runs)] for s in ("straight", "ours")}
    began_s = time.time()
    ground.straight(names["straight"], list(ZONES))
    straight = size.runs / (max(ground.wait(names["straight"])) - began_s)
    ground.clear()
    asked, used_s, began_s = requests(ground), cpu_s(brokerd.pid), time.time()
    ground.submit(brokerd, names["ours"])
    rate = size.runs / (max(ground.wait(names["ours"])) - began_s)
    used_s = cpu_s(brokerd.pid) - used_s
    calls = requests(ground)[OTHERS] - asked[OTHERS]
    ground.clear()
    return [
        Figure(
            name=f"{size.runs} runs at once over three regions",
            value=median([rate / straight]),
            aim=">= 0.85",
            unit="ratio",
            anchor=f"{rate:.2f}/s over {straight:.2f}/s of JobSets",
        ),
        Figure(
            name="brokerd's CPU for a run, of these",
            value=median([used_s / size.runs]),
            aim="< 1",
            unit="s",
            anchor="user and system, from the first submit to the last start",
        ),
        Figure(
            name="API requests for a run, of these",
            value=median([calls / size.runs]),
            aim="<= 12",
            unit="requests",
            anchor="counted by the API servers, from the first submit to the last start, no watch",
        ),
    ]


def at_rest(ground: Ground, brokerd: Brokerd, size: Size) -> list[Figure]:
    """What is asked of a cluster while nothing happens."""
    time.sleep(10)  # what the start asks is over
    before = requests(ground)
    time.sleep(REST_S)
    after = requests(ground)
    per_minute = (after[OTHERS] - before[OTHERS]) / len(ZONES) * 60 / REST_S
    watches = (after[WATCHES] - before[WATCHES]) / len(ZONES) * 60 / REST_S
    return [
        Figure(
            name="API requests a minute and cluster, at rest",
            value=median([per_minute]),
            aim="< 6",
            unit="requests",
            anchor=f"beside {watches:.1f} watches begun anew; counted by the API servers",
        )
    ]


def memory(ground: Ground, size: Size) -> list[Figure]:
    """What one more watched cluster takes, when it has many workloads: two fresh processes."""
    region = ground.regions[NEAR]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: region.api.create(workload(n)), range(size.workloads)))
    others = [name for name in ZONES if name != NEAR]
    taken = [settled(ground.brokerd("without", *others))]
    taken.append(settled(ground.brokerd("with", *others, NEAR)))
    return [
        Figure(
            name=f"memory of a watched cluster with {size.workloads} workloads",
            value=median([(taken[1] - taken[0]) / 2**20]),
            aim="< 60",
            unit="MiB",
            anchor=f"resident, of two fresh processes: {taken[1] / 2**20:.0f} MiB with it,"
            f" {taken[0] / 2**20:.0f} MiB without",
        )
    ]


def settled(brokerd: Brokerd) -> int:
    """Start a brokerd, and return the bytes it holds once it has seen everything for a while."""
    try:
        brokerd.start()
        time.sleep(15)
        status = Path(f"/proc/{brokerd.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024
    finally:
        brokerd.close()


def equip(region: Region, machines: int) -> None:
    """Give a region its queue and its machines, and count what brokerd asks of it."""
    region.api.apply(*fleet.everything())
    made = fleet.pool("SPOT", ZONES[region.name])
    region.set_pool(made)
    shares = (fleet.Share(capacity_type="SPOT", nominal=8 * machines),)
    region.api.apply(
        namespace(TEAM),
        fleet.cluster_queue(QUEUE, shares),
        fleet.local_queue(QUEUE, TEAM, QUEUE),
        role_binding(),
        flow(WATCHES, 100, ["watch"]),
        flow(OTHERS, 101, ["*"]),
    )
    region.add_nodes(made.name, machines)


def role_binding() -> dict[str, Any]:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "bench"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": USER}],
    }


def flow(name: str, precedence: int, verbs: list[str]) -> dict[str, Any]:
    """Return a FlowSchema of some requests of brokerd's user: the API server counts them."""
    rules = {
        "subjects": [{"kind": "User", "user": {"name": USER}}],
        "resourceRules": [
            {
                "verbs": verbs,
                "apiGroups": ["*"],
                "resources": ["*"],
                "namespaces": ["*"],
                "clusterScope": True,
            }
        ],
        "nonResourceRules": [{"verbs": verbs, "nonResourceURLs": ["*"]}],
    }
    spec = {
        "matchingPrecedence": precedence,
        "priorityLevelConfiguration": {"name": "exempt"},
        "rules": [rules],
    }
    return {"apiVersion": FLOW, "kind": "FlowSchema", "metadata": {"name": name}, "spec": spec}


def requests(ground: Ground) -> dict[str, float]:
    """Return how many requests of brokerd all API servers have taken so far, by flow."""
    total = {WATCHES: 0.0, OTHERS: 0.0}
    for region in ground.regions.values():
        text = region.api.raw("GET", "/metrics").decode()
        for line in text.splitlines():
            if line.startswith("apiserver_flowcontrol_dispatched_requests_total{"):
                for flow_name in total:
                    if f'flow_schema="{flow_name}"' in line:
                        total[flow_name] += float(line.rpartition(" ")[2])
    return total


def jobset(name: str, command: list[str]) -> dict[str, Any]:
    selected = {"nodeSelector": {fleet.PROVISIONING: "spot"}}
    return fleet.gang(name, TEAM, QUEUE, command, ranks=1, pod=selected)


def workload(number: int) -> dict[str, Any]:
    """Return somebody's workload that waits in a queue which is not there."""
    container = {"name": "main", "image": "none", "resources": {"requests": {GPU: "8"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return fleet.named(
        fleet.KUEUE,
        "Workload",
        f"waits-{number}",
        {"queueName": "nowhere", "podSets": [{"name": "main", "count": 1, "template": template}]},
        namespace=TEAM,
    )


def is_over(found: Mapping[str, Any]) -> bool:
    held = found.get("status", {}).get("conditions", [])
    return any(c["type"] == "Finished" and c["status"] == "True" for c in held)


def cpu_s(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
