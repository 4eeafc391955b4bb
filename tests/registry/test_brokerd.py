"""brokerd over real registries: a tag is kept by digest, copied, and its run starts then.

The rule it keeps: the daemon, its clusters and the registries are real processes, and what lies in
a registry is read from its disk.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.fleet.registries import BLOBS_AT_ONCE
from broker.sdk import Client, find
from broker.v1 import errors_pb2, run_pb2
from tests.cli.brokerd import Daemon, running, until
from tests.registry.conftest import Town
from tests.registry.pushing import Pusher, large, multi_arch

WITHIN_S = 120.0
TEAM, HOME = "sky", "us-east4"
LAYERS, LAYER_MIB = 24, 4
OVER = (run_pb2.RUN_STATE_SUCCEEDED, run_pb2.RUN_STATE_REJECTED, run_pb2.RUN_STATE_FAILED)
Name = Callable[[], str]


@pytest.fixture(scope="module")
def daemon(town: Town) -> Iterator[Daemon]:
    def configure(data: Path) -> Path:
        config = data / "brokerd.toml"
        config.write_text(
            f"[[registries]]\nprefix = '{town.near.name}'\nplain_http = true\n"
            f"[[registries]]\nprefix = '{town.locked.name}'\nplain_http = true\n"
            f"[[registries]]\nprefix = '{town.far.name}/copies'\nplain_http = true\n"
            f"region = '{HOME}'\n"
        )
        return config

    with running(configure) as daemon:
        yield daemon


def broker(daemon: Daemon, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the broker's."""
    return daemon.typed(*words, environment=daemon.environment(TEAM))


def submit(daemon: Daemon, name: str, image: str) -> subprocess.CompletedProcess[str]:
    """Submit a gang that does nothing; return what its image was found to be, in words."""
    asked = ("--name", name, "--no-workdir", "--image", image, "--region", HOME)
    machines = ("--hardware", "1xH100", "--capacity", "spot")
    return broker(daemon, "submit", *asked, *machines, "--", "true")


def when_over(daemon: Daemon, name: str) -> run_pb2.Run:
    """Return a run once it is over."""
    found = run_pb2.Run()
    with Client(find(server=daemon.server, team=TEAM, user="ann")) as client:

        def is_over() -> bool:
            found.CopyFrom(client.runs.get(f"teams/{TEAM}/runs/{name}"))
            return found.state in OVER

        until(is_over, WITHIN_S, f"{name} is over")
    return found


def test_a_tag_is_kept_by_digest_and_copied_and_its_run_starts(
    town: Town, daemon: Daemon, repository: Name
) -> None:
    here = repository()
    digest = multi_arch(Pusher(town.near, here), tag="v1")["digest"]
    said = submit(daemon, "tagged", f"{town.near.name}/{here}:v1")
    assert (said.returncode, said.stdout) == (0, f"teams/{TEAM}/runs/tagged\n")
    assert f"it runs {town.near.name}/{here}@{digest}" in said.stderr
    run = when_over(daemon, "tagged")
    assert (run.state, run.image) == (
        run_pb2.RUN_STATE_SUCCEEDED,
        f"{town.near.name}/{here}@{digest}",
    )
    assert digest in town.far.manifests(f"copies/{here}")
    assert town.far.blobs(f"copies/{here}") == town.near.blobs(here)


def test_a_copy_goes_on_after_brokerd_was_killed(
    town: Town, daemon: Daemon, repository: Name
) -> None:
    here = repository()
    pusher = Pusher(town.near, here)
    layers = [pusher.layer(b"".join(large(LAYER_MIB, 100 * n))) for n in range(LAYERS)]
    digest = pusher.image(*layers, tag="v1")["digest"]
    copies = f"copies/{here}"
    sent_before = town.far.uploads()
    submit(daemon, "killed", f"{town.near.name}/{here}:v1")
    until(lambda: town.far.blobs(copies), WITHIN_S, "a first layer is there")
    daemon.stop(signal.SIGKILL)
    # What is half there is no image to anybody.
    assert digest not in town.far.manifests(copies) or town.far.blobs(copies) == town.near.blobs(
        here
    )
    daemon.start()
    assert when_over(daemon, "killed").state == run_pb2.RUN_STATE_SUCCEEDED
    assert town.far.blobs(copies) == town.near.blobs(here)
    assert digest in town.far.manifests(copies)
    # Only what was on its way when brokerd was killed may have been sent twice; the configuration,
    # which another image of that registry has too, is mounted by who still knows of that.
    sent = town.far.uploads() - sent_before
    assert LAYERS <= sent <= LAYERS + 1 + BLOBS_AT_ONCE


def test_ways_not_to_run_are_told_apart(town: Town, daemon: Daemon, repository: Name) -> None:
    here = repository()
    Pusher(town.near, here).image(platform="linux/arm64", tag="arm")
    images = {
        "missing": f"{town.near.name}/{here}:other",
        "arm": f"{town.near.name}/{here}:arm",
        "locked": f"{town.locked.name}/{here}:v1",
    }
    said = {name: submit(daemon, name, image) for name, image in images.items()}
    assert {name: one.returncode for name, one in said.items()} == dict.fromkeys(images, 6)
    assert all("rejected: " in one.stderr for one in said.values())
    told = {name: when_over(daemon, name).why for name in images}
    assert {name: why.reason for name, why in told.items()} == {
        "missing": errors_pb2.REASON_IMAGE_MISSING,
        "arm": errors_pb2.REASON_IMAGE_NOT_FOR_PLATFORM,
        "locked": errors_pb2.REASON_REGISTRY_LOGIN_REFUSED,
    }
    assert "linux/amd64; it is for linux/arm64" in told["arm"].message


def test_doctor_finds_the_login_that_lacks_and_leaves_nothing_behind(
    town: Town, daemon: Daemon
) -> None:
    checks = json.loads(broker(daemon, "doctor", "--output", "json").stdout)["checks"]
    found = {each["what"]: each["is_well"] for each in checks if " registry " in each["what"]}
    assert found == {
        f"{HOME} registry {town.far.name}/copies": True,
        f"{HOME} registry {town.near.name}": True,
        f"{HOME} registry {town.locked.name}": False,
    }
    probed = "copies/broker-doctor"
    assert (town.far.manifests(probed), town.far.blobs(probed)) == (set(), set())
    shown = broker(daemon, "regions", "show", HOME).stdout
    assert f"images are pulled from {town.far.name}/copies" in shown
