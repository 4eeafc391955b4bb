"""A brokerd that is joined to regions of a rig: its configuration, its process, and who asks it.

The rule: it is the program as anywhere, told of the regions by its configuration alone; its data,
its socket and its log are in one folder. It ends with whoever started it, killed or not, by a pipe
that only they hold. Read ``joined``, then ``Brokerd``.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from broker.sdk import BrokerError, Client
from broker.sdk.settings import find
from broker.v1 import region_pb2
from tests.cluster.rig.children import ROOT
from tests.cluster.rig.waiting import wait_until

PROGRAM = (sys.executable, "-m", "broker.daemon")
CLIENT = (sys.executable, "-m", "broker.cli")
TEAM = "team-a"
# Pods of the rig are processes of this machine, whatever image they name; it is only not empty.
IMAGE = "registry.invalid/trainer@sha256:" + "0" * 64
START_S, STOP_S = 60.0, 30.0
AWAY_S = 60.0
MOUNT = "/stores/region"
# What the rig's machines cost; the regions of the shipped list are others.
PRICES = {"reserved": "1.10", "on-demand": "11.06", "spot": "2.37", "flex": "4.79"}
CLASSES = ("waiting", "low", "normal", "high")


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """One region, as brokerd is told of it. ``prices`` are by flavor, in US dollars.

    ``profiles`` are fields of the pod profiles of single flavors, as TOML; STORE stands for the
    volume of the region's store, which a list of volumes must have.
    """

    region: str
    kubeconfig: Path
    namespace: str
    queue: str
    store: Path
    prices: Mapping[str, str]
    gate_poll_s: float = 0.2
    accelerators_per_node: int = 8
    profiles: Mapping[str, str] = field(default_factory=dict)

    @property
    def cluster(self) -> str:
        """What brokerd calls it."""
        return cluster_of(self.region)

    def text(self, profiles: Path) -> str:
        """Return its part of the configuration."""
        lines = [
            "[[clusters]]",
            'kind = "kueue"',
            f"name = {json.dumps(self.cluster)}",
            f"region = {json.dumps(self.region)}",
            f"namespace = {json.dumps(self.namespace)}",
            f"queues = [{json.dumps(self.queue)}]",
            f"priority_classes = {json.dumps(CLASSES)}",
            f"store = {json.dumps(str(self.store))}",
            f"profiles = {json.dumps(str(profiles))}",
            f"kubeconfig = {json.dumps(str(self.kubeconfig))}",
            "allows_host_paths = true",
            "has_gke_nodes = true",
            f"gate_poll_s = {self.gate_poll_s}",
        ]
        for flavor, price in self.prices.items():
            lines += [
                f"[clusters.flavors.{flavor}]",
                # While no node stands nobody else tells.
                f"accelerators_per_node = {self.accelerators_per_node}",
                f"price_per_gpu_hour = {price}",
            ]
        return "\n".join(lines) + "\n"

    def profile_book(self) -> str:
        """Return the pod profiles: on the rig a store is a directory of the machine."""
        path = json.dumps(str(self.store))
        store = f'{{name = "store", mount_path = "{MOUNT}", host_path = {path}}}'
        lines = ["[default]", f'store = "{MOUNT}"', f"volumes = [{store}]"]
        for flavor, fields in self.profiles.items():
            lines += [f"[flavors.{flavor}]", fields.replace("STORE", store)]
        return "\n".join(lines) + "\n"


def cluster_of(region: str) -> str:
    """Return what brokerd calls the cluster of a region."""
    return f"gke-{region}"


class Brokerd:
    """One brokerd over a folder; it can be killed and started again."""

    def __init__(self, folder: Path, members: Iterable[Joined], more: str = "") -> None:
        """Write its configuration; ``more`` are sections of it that the test is about."""
        self.folder = folder
        self.members = tuple(members)
        self.address = f"unix:{folder / 'brokerd.sock'}"
        self.log = folder / "brokerd.log"
        self._config = folder / "brokerd.toml"
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline, self._held = os.pipe()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        parts = [more]
        for each in self.members:
            each.store.mkdir(parents=True, exist_ok=True)
            profiles = folder / f"profiles-{each.region}.toml"
            profiles.write_text(each.profile_book())
            parts.append(each.text(profiles))
        self._config.write_text("\n".join(parts))

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    def start(self, *, sees_all: bool = True) -> None:
        """Start it; return once it has seen every region, or, if some are away, only answers."""
        self.launch()
        ready = self._is_ready if sees_all else self._answers
        wait_until(ready, START_S, f"that brokerd is ready (see {self.log})")

    def launch(self) -> None:
        """Start it, without a wait."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*PROGRAM, *self.options(), "--lifeline", str(self._lifeline)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                pass_fds=(self._lifeline,),
                start_new_session=True,
            )

    def options(self) -> tuple[str, ...]:
        """Return the options that every tool of it is given."""
        return ("--data-dir", str(self.folder), "--config", str(self._config))

    def tool(self, *words: str) -> str:
        """Run one of brokerd's own tools over its data; return what it says."""
        argv = [*PROGRAM, *words, *self.options()]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def kill(self) -> None:
        """End it as a loss of power would."""
        assert self._process is not None
        assert self._process.poll() is None, self.last_words()
        self._process.kill()
        self._process.wait()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to stop; return its exit status."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(STOP_S)

    def close(self) -> None:
        """Leave no process of it: it is asked to stop, and killed where it does not."""
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.stop()
            self._process.kill()
            self._process.wait()
        for end in (self._lifeline, self._held):
            os.close(end)

    def client(self, retry_for_s: float = AWAY_S) -> Client:
        """Return a client of it, that bears its being killed and started again."""
        found = find(server=self.address, team=TEAM, environ={"HOME": str(self.folder)})
        return Client(found, retry_for_s=retry_for_s)

    def cli(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the command line against it, from an empty folder."""
        here = self.folder / "cli"
        here.mkdir(exist_ok=True)
        return subprocess.run(
            [*CLIENT, "--server", self.address, "--team", TEAM, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            cwd=here,
            env={**os.environ, "HOME": str(here), "COLUMNS": "200", "PYTHONPATH": str(ROOT)},
        )

    def failures(self) -> list[str]:
        """Return what it logged as its own failures, in all of its lives."""
        text = self.log.read_text(errors="replace")
        return [line for line in text.splitlines() if "level=error" in line or "Traceback" in line]

    def last_words(self) -> str:
        """Return the end of its log."""
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""

    def _is_ready(self) -> bool:
        return self.sees(self._regions() or ())

    def _answers(self) -> bool:
        return self._regions() is not None

    @property
    def runs(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    def sees(self, found: Sequence[region_pb2.Region]) -> bool:
        """Whether, by what it tells of its regions, it has seen every one of them."""
        seen = [one for region in found for one in region.clusters if one.reachable]
        return len(seen) == len(self.members) and all(one.flavors for one in seen)

    def _regions(self) -> Sequence[region_pb2.Region] | None:
        assert self._process is not None
        assert self._process.poll() is None, self.last_words()
        try:
            with self.client(0.0) as client:
                return client.regions.find().regions
        except BrokerError:
            return None
