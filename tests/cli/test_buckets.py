"""Three regions whose stores are buckets: a run trains, moves, and resumes, and no byte of its
checkpoints comes through the broker on its way from one bucket to another."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from broker.embedded import default_worlds
from broker.sdk import Client, find
from broker.v1 import run_pb2
from regions.local.config import dump
from tests.cli.brokerd import TREE, Daemon, running, until
from tests.fakes.gcs import FakeGcs, serve
from tests.fakes.metadata_server import FakeMetadata, serve_tokens

pytestmark = pytest.mark.alone
WITHIN_S = 120.0
TEAM, RUN = "sky", "teams/sky/runs/digits"
HOME, NEXT = "us-east4", "europe-west1"


@pytest.fixture
def cloud() -> Iterator[tuple[FakeGcs, FakeMetadata]]:
    known: set[str] = set()
    with serve() as fake, serve_tokens(known.add) as metadata:
        fake.tokens = known
        yield fake, metadata


@pytest.fixture
def daemon(cloud: tuple[FakeGcs, FakeMetadata]) -> Iterator[Daemon]:
    fake, metadata = cloud

    def configure(data: Path) -> Path:
        text = f'[buckets]\nendpoint = "{fake.url}"\ntokens = "{metadata.url}"\n'
        for directory, world in default_worlds(data).items():
            fake.cloud.make_bucket(f"of-{world.region}", world.region, "STANDARD")
            moved = msgspec.structs.replace(
                world,
                store=f"gs://of-{world.region}/broker",
                store_endpoint=fake.url,
                store_tokens=metadata.url,
            )
            file = data / f"{world.region}.json"
            file.write_bytes(dump(moved))
            text += f'[[clusters]]\ndirectory = "{directory}"\nworld = "{file}"\n'
        config = data / "brokerd.toml"
        config.write_text(text)
        return config

    with running(configure) as daemon:
        yield daemon


def broker(daemon: Daemon, *words: str) -> str:
    """Run a command of the broker's in the folder with the training; return what it says."""
    mine = daemon.environment(TEAM)
    done = daemon.typed(*words, environment=mine, folder=daemon.data / "work")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_when(client: Client, is_so: Callable[[run_pb2.Run], bool], what: str) -> run_pb2.Run:
    """Return the run as soon as something holds of it."""
    found = client.runs.get(RUN)

    def holds() -> bool:
        nonlocal found
        found = client.runs.get(RUN)
        return is_so(found)

    until(holds, WITHIN_S, what)
    return found


def where(run: run_pb2.Run) -> str:
    """Return the region that it trains in."""
    return run.epochs[-1].region if run.epochs else ""


def submit(daemon: Daemon, **env: str) -> None:
    work, meeting = daemon.data / "work", daemon.data / "meeting"
    work.mkdir()
    meeting.mkdir()
    (work / "train.py").write_text((TREE / "tests" / "cli" / "train.py").read_text())
    said = {"PYTHONPATH": str(TREE), "MEETING": str(meeting), **env}
    words = [word for name, value in said.items() for word in ("--env", f"{name}={value}")]
    regions = ("--region", HOME, "--region", NEXT)
    asked = ("submit", "--name", "digits", "--hardware", "2x1xH100", "--capacity", "spot")
    broker(daemon, *asked, *regions, *words, "--", sys.executable, "train.py")


def test_a_run_moves_between_buckets_and_resumes(
    daemon: Daemon, cloud: tuple[FakeGcs, FakeMetadata]
) -> None:
    fake, _ = cloud
    submit(daemon, STEPS="100000", PAUSE_S="0.02")
    with Client(find(server=daemon.server, team=TEAM, user="ann")) as client:
        run = run_when(client, lambda run: run.state == run_pb2.RUN_STATE_RUNNING, "it trains")
        first = where(run)
        other = NEXT if first == HOME else HOME

        def has_copy() -> bool:
            found = {one.region: one for one in client.runs.replicas(RUN).replicas}
            return other in found and found[other].step > 0

        until(has_copy, WITHIN_S, "a checkpoint stands in the other bucket")
        fake.faults.asked.clear()
        broker(daemon, "regions", "drain", first)
        run = run_when(
            client,
            lambda run: run.state == run_pb2.RUN_STATE_RUNNING and where(run) == other,
            "it trains in the other region",
        )
        assert re.search(r"begins after step [1-9]", broker(daemon, "logs", "digits"))
        assert "did not answer its drain" not in broker(daemon, "timeline", "digits")
        broker(daemon, "cancel", "digits")
    stored = fake.cloud.bucket(f"of-{other}").objects
    assert any(name.endswith("/_REPLICA.json") for name in stored)
    assert fake.faults.calls("objects.rewrite") > 0
    log = (daemon.data / "brokerd.log").read_text()
    assert "level=error" not in log, log[-3000:]
    assert "token-" not in log
