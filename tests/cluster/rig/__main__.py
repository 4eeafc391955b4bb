"""The rig by hand: ``build`` its programs, ``up`` three regions with a brokerd, ``down`` again.

``up`` leaves all of it running under a process of its own, ``serve``; its folder says where. Read
``main``.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from broker.cli.main import main as cli
from tests.cluster.rig import fleet
from tests.cluster.rig.brokerd import IMAGE, PRICES, TEAM, Brokerd, Joined
from tests.cluster.rig.building import RigNotBuiltError, build
from tests.cluster.rig.certificates import PLAIN_USERS
from tests.cluster.rig.children import ROOT, last_lines
from tests.cluster.rig.region import Region
from tests.cluster.rig.rig import Rig
from tests.cluster.rig.waiting import wait_until

REGIONS = {
    "us-central1": "us-central1-a",
    "europe-west4": "europe-west4-b",
    "asia-east1": "asia-east1-c",
}
QUEUE = "training"
NODES = {"RESERVED": 2, "ON_DEMAND": 2, "SPOT": 4}
SHARES = (
    fleet.Share(capacity_type="RESERVED", nominal=16),
    fleet.Share(capacity_type="ON_DEMAND", nominal=16),
    fleet.Share(capacity_type="SPOT", nominal=32),
    fleet.Share(capacity_type="FLEX", nominal=64),
)
READY, LOCK, LOG = "ready", "lock", "rig.log"
UP_WITHIN_S, DOWN_WITHIN_S = 600.0, 60.0


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.rig", description=__doc__)
    parser.add_argument("command", choices=("build", "up", "down", "serve"))
    parser.add_argument("--folder", type=Path, default=standard_folder())
    options = parser.parse_args(arguments)
    try:
        match options.command:
            case "build":
                print(f"ready in {build(say).folder}")
            case "up":
                up(options.folder)
            case "down":
                down(options.folder)
            case "serve":
                serve(options.folder)
    except (RigNotBuiltError, TimeoutError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def say(words: str) -> None:
    print(words, flush=True)


def up(folder: Path) -> None:
    """Build what is missing, start the regions, and say where they are."""
    build(say)
    if holder(folder) is not None:
        say(f"already up in {folder}")
    else:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / READY).unlink(missing_ok=True)
        say(f"starting {len(REGIONS)} regions in {folder}")
        with (folder / LOG).open("wb") as log:
            started = subprocess.Popen(
                [sys.executable, "-m", "tests.cluster.rig", "serve", f"--folder={folder}"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                start_new_session=True,
            )
        wait_until(
            lambda: (folder / READY).exists() or started.poll() is not None,
            UP_WITHIN_S,
            f"the regions (see {folder / LOG})",
        )
        if started.poll() is not None:
            raise TimeoutError(f"the regions did not start:\n{last_lines(folder / LOG)}")
    say((folder / READY).read_text().rstrip())
    say("end them with: make cluster-down")


def down(folder: Path) -> None:
    """End the regions that are up, if any are."""
    pid = holder(folder)
    if pid is None:
        say("nothing is up")
        return
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: holder(folder) is None, DOWN_WITHIN_S, "the end of the regions")
    say("down")


def serve(folder: Path) -> None:
    """Run the regions until SIGTERM. What ``up`` starts."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with held(folder):
        state = Path(tempfile.mkdtemp(prefix="run-", dir=folder))
        try:
            with Rig(tuple(REGIONS), state) as rig:
                members = [member(region) for region in rig.regions.values()]
                brokerd = Brokerd(state / "broker", members)
                try:
                    brokerd.start()
                    admins = {name: one.kubeconfig() for name, one in rig.regions.items()}
                    (folder / READY).write_text(next_steps(brokerd, admins))
                    while True:
                        time.sleep(3600)
                finally:
                    brokerd.close()
        finally:
            (folder / READY).unlink(missing_ok=True)
            shutil.rmtree(state, ignore_errors=True)


def member(region: Region) -> Joined:
    """Equip a region as a platform team would, and return how a brokerd joins it.

    The broker is a user that has the rights of ``broker regions bootstrap``, and no others.
    """
    fleet.equip(region, REGIONS[region.name], NODES)
    region.api.apply(fleet.cluster_queue(QUEUE, SHARES, cohort="research"))
    broker, admin = PLAIN_USERS[0], str(region.kubeconfig())
    code = cli(
        [
            *("regions", "bootstrap", "--kubeconfig", admin, "--namespace", TEAM, "--user", broker),
            # Its gangs find the store in a directory of their machine.
            *("--queue", f"{QUEUE}={QUEUE}", "--pod-security", "privileged", "--apply", "--yes"),
        ]
    )
    assert code == 0, f"{region.name} could not be set up"
    return Joined(
        region=region.name,
        kubeconfig=region.kubeconfig(broker),
        namespace=TEAM,
        queue=QUEUE,
        store=region.store,
        prices=PRICES,
    )


def next_steps(brokerd: Brokerd, admins: Mapping[str, Path]) -> str:
    """Say where everything is, and what to type next. ``admins`` are kubeconfigs by region."""
    client = str(Path(sys.executable).parent / "broker")
    submit = (
        f"{client} submit --name first --image {IMAGE} --hardware 2x8xH100 --capacity spot"
        " --workdir deploy/examples/plain -- python3 train.py --steps 300 --step-seconds 0.1"
    )
    lines = [
        f"brokerd runs on {len(brokerd.members)} regions; its log is {brokerd.log}",
        *(f"export KUBECONFIG={path}  # {region}, as its admin" for region, path in admins.items()),
        "",
        "in a shell of your own:",
        f"  export BROKER_SERVER={brokerd.address} BROKER_TEAM={TEAM}",
        f"  {client} regions",
        f"  {submit}",
        f"  {client} watch first",
        f"  {client} logs first --follow",
    ]
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a folder as the one who serves in it. Raises BlockingIOError when somebody does."""
    # Nothing is emptied before the lock is ours: there stands the pid of who has it.
    with (folder / LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def holder(folder: Path) -> int | None:
    """Return the pid of who serves in a folder, or None."""
    with contextlib.suppress(FileNotFoundError), (folder / LOCK).open("r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(lock.read())
    return None


def standard_folder() -> Path:
    """Return where ``up`` keeps its regions unless told otherwise."""
    return Path(tempfile.gettempdir(), f"capacity-broker-rig-{os.getuid()}", "up")


if __name__ == "__main__":
    sys.exit(main())
