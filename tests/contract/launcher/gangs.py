"""Real gangs of real launchers over a store, for the tests of this folder.

The rule: a test waits for a condition, never for a time. Read ``Gang`` first.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from regions import gatehouse
from regions.launcher import layout
from regions.launcher.pack import pack
from regions.launcher.rules import Evidence
from regions.launcher.store import Store
from tests.contract.launcher.shelves import Shelf

RUN = "run-1"
KEYS = layout.RunKeys(RUN)
PATIENCE_S = 30.0

TRAIN = """
import json, os, sys, time, urllib.parse, urllib.request
trace, rank = sys.argv[1], os.environ["RANK"]
with open(f"{trace}/{os.environ['BROKER_EPOCH']}-{rank}-{os.getpid()}", "w") as out:
    out.write(os.environ["BROKER_RESUME_FROM"])
def put(path, value):
    with open(path + ".tmp", "w") as out:
        json.dump(value, out)
    os.replace(path + ".tmp", path)
def save(step):
    where = os.environ["BROKER_CHECKPOINT_URI"] + f"/step-{step}"
    if where.startswith("file://"):
        os.makedirs(where[len("file://"):])
        put(where[len("file://"):] + "/.complete", {})
        return
    bucket, _, name = where[len("gs://"):].partition("/")
    query = urllib.parse.urlencode({"uploadType": "media", "name": name + "/.complete"})
    headers = {"Authorization": "Bearer " + os.environ["TRAIN_TOKEN"]}
    address = f"{os.environ['TRAIN_ENDPOINT']}/upload/storage/v1/b/{bucket}/o?{query}"
    urllib.request.urlopen(urllib.request.Request(address, b"{}", headers), timeout=5).close()
here, step = os.environ["BROKER_DIR"], 0
while not os.path.exists(f"{trace}/finish"):
    if os.path.exists(f"{here}/drain.json"):
        put(f"{here}/drained.json", {"step": step})
        time.sleep(0.05)
        continue
    step += 1
    put(f"{here}/progress.json", {"step": step, "loss": 1.0 / step, "samples": None, "fields": {}})
    if rank == "0" and os.path.exists(f"{trace}/save"):
        try:
            save(step)
            os.unlink(f"{trace}/save")
        except OSError:
            pass
    time.sleep(0.03)
"""


def until(is_so: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds; fail when patience ends."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline_s, f"waited in vain until {what}"
        time.sleep(0.02)


@dataclass
class Gang:
    """The launchers of one placement, as a cluster would start them."""

    site: Site
    placement: str
    processes: dict[int, subprocess.Popen[bytes]]

    def exits(self) -> list[int]:
        """Wait until every launcher has exited, and return their statuses by rank."""
        return [self.processes[rank].wait(PATIENCE_S) for rank in sorted(self.processes)]

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send every launcher a signal."""
        for process in self.processes.values():
            with suppress(ProcessLookupError):
                process.send_signal(number)


@dataclass
class Site:
    """One region: a store, a place for local files, and what its training traced."""

    home: Path
    shelf: Shelf
    gangs: list[Gang] = field(default_factory=list)

    @property
    def store(self) -> Store:
        """The store."""
        return self.shelf.store

    @property
    def trace(self) -> Path:
        """Where each training process leaves a file named after its epoch, rank and pid."""
        return self.home / "trace"

    def gang(
        self,
        placement: str,
        ranks: tuple[int, ...] = (0, 1),
        env: dict[str, str] | None = None,
        command: tuple[str, ...] | None = None,
    ) -> Gang:
        """Start the launchers of a placement of two ranks."""
        launched = command or (sys.executable, str(self.home / "train.py"), str(self.trace))
        processes = {
            rank: subprocess.Popen(
                [sys.executable, str(self.home / "launcher.pyz"), "--", *launched],
                env={**os.environ, **self._env(placement, rank), **(env or {})},
                start_new_session=True,
            )
            for rank in ranks
        }
        gang = Gang(self, placement, processes)
        self.gangs.append(gang)
        return gang

    def _env(self, placement: str, rank: int) -> dict[str, str]:
        return {
            **self.shelf.env,
            "BROKER_RUN_KEY": RUN,
            "BROKER_PLACEMENT": placement,
            "RANK": str(rank),
            "WORLD_SIZE": "2",
            "BROKER_WORK_DIR": str(self.home / "work" / placement),
            "BROKER_GATE_POLL_S": "0.05",
            "BROKER_GATE_FRESH_S": "1",
            "BROKER_CONTROL_POLL_S": "0.05",
            "BROKER_REPORT_S": "0.1",
            "BROKER_GRACE_S": "3",
            "BROKER_NOTICE_S": "20",
        }

    def see(
        self, known: gatehouse.RunInStore | None = None, closed: gatehouse.Closed | None = None
    ) -> gatehouse.RunInStore:
        """Look at the run."""
        return gatehouse.read_run(
            self.store, RUN, known, closed or gatehouse.Closed(), time.monotonic()
        )

    def epoch(self, epoch: layout.EpochId) -> gatehouse.EpochInStore:
        """Look at one epoch."""
        return self.see().epochs[epoch]

    def wait_whole(self, placement: str) -> tuple[str, ...]:
        """Wait until a gang stands whole at its gate, and return its nonces."""
        seen: list[gatehouse.RunInStore | None] = [None]
        whole: list[tuple[str, ...]] = []

        def is_whole() -> bool:
            seen[0] = run = self.see(seen[0])
            if placement in run.placements:
                gang = run.placements[placement].whole_gang(2, time.monotonic(), 1.0)
                whole.extend([gang] if gang else [])
            return bool(whole)

        until(is_whole, f"{placement} is whole at its gate")
        return whole[0]

    def wait_running(self, epoch: layout.EpochId, ranks: int = 2) -> None:
        """Wait until so many ranks report that they run and have done a step."""
        until(
            lambda: (
                epoch in (run := self.see()).epochs
                and sum(bool(r.step) for r in run.epochs[epoch].reports.values()) == ranks
            ),
            f"{epoch.name} runs",
        )

    def save(self, epoch: layout.EpochId) -> int:
        """Have the training save, and return the newest complete step of the epoch."""
        before = len(self.epoch(epoch).checkpoints)
        (self.trace / "save").touch()
        until(lambda: len(self.epoch(epoch).checkpoints) > before, "a checkpoint is there")
        return self.epoch(epoch).checkpoints[-1]

    def started(self) -> set[tuple[int, int]]:
        """Return the (epoch number, rank) of every training process that ever ran."""
        names = [path.name.split("-") for path in self.trace.iterdir() if "-" in path.name]
        return {(int(epoch), int(rank)) for epoch, rank, _ in names}

    def evidence(self, epoch: layout.EpochId, gone: frozenset[str] = frozenset()) -> Evidence:
        """Return what the store, and the given sight of the cluster, say of an epoch."""
        seen = self.epoch(epoch)
        return Evidence(
            epoch=epoch,
            owner=seen.owner,
            fence=seen.fence,
            ended=frozenset(seen.ends),
            gone=gone,
            is_region_silent=False,
            go_on_by=None,
        )


Sites = Callable[[str], AbstractContextManager[Site]]
"""Makes a region of a name, for as long as it is entered."""


@contextmanager
def site_at(home: Path, shelf: Shelf) -> Iterator[Site]:
    """Make a region, and leave no process of it behind."""
    home.mkdir(parents=True, exist_ok=True)
    site = Site(home, shelf)
    site.trace.mkdir()
    (home / "train.py").write_text(TRAIN)
    (home / "launcher.pyz").write_bytes(pack())
    try:
        yield site
    finally:
        for gang in site.gangs:
            gang.kill()
            gang.exits()


def grant_for(
    placement: str,
    number: int,
    bundle: str | None = None,
    resume_from: str | None = None,
    seals: tuple[layout.Seal, ...] = (),
) -> layout.Grant:
    """Return a grant of a gang of two; its nonce follows from its number."""
    return layout.Grant(
        placement=placement,
        epoch=layout.EpochId(number=number, nonce=f"{number:032x}"),
        world_size=2,
        incarnation=1,
        resume_from=resume_from,
        bundle=bundle,
        seals=seals,
    )


def exchange_of(site: Site, placement: str) -> list[dict[str, object]]:
    """Return the local end record of every process of a placement."""
    files = sorted((site.home / "work" / placement).glob("*/exit.json"))
    return [json.loads(path.read_text()) for path in files]
