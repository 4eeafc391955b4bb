"""brokerd with a cluster of Kubernetes that does not answer: it serves, and says so."""

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.sdk import Client
from tests.cli.brokerd import until
from tests.service.test_daemon import START_S, Brokerd
from tests.unit.test_assembly import PROFILES

pytestmark = pytest.mark.alone

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:%d"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


@pytest.fixture
def nobody() -> Iterator[int]:
    """A port at which nobody listens, and nobody else will."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def configure(folder: Path, port: int) -> Path:
    """Write down a cluster that cannot be reached, and return the configuration."""
    (folder / "kubeconfig").write_text(KUBECONFIG % port)
    (folder / "profiles.toml").write_text(PROFILES)
    (folder / "store").mkdir()
    config = folder / "brokerd.toml"
    config.write_text(
        f"""
        [[clusters]]
        kind = "kueue"
        name = "research"
        region = "eu-west4"
        namespace = "team-a"
        store = "{folder / "store"}"
        profiles = "{folder / "profiles.toml"}"
        kubeconfig = "{folder / "kubeconfig"}"
        """
    )
    return config


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_cluster_that_does_not_answer_is_an_outage_of_its_region(
    tmp_path_factory: pytest.TempPathFactory, nobody: int, number: signal.Signals
) -> None:
    folder = tmp_path_factory.mktemp("d")
    brokerd = Brokerd(folder / "data")
    try:
        process = brokerd.start("--config", str(configure(folder, nobody)))
        with brokerd.client() as client:
            said = silence_of(client)
        assert said.startswith("it does not answer now (research did not answer: ")
        assert str(nobody) in said
        process.send_signal(number)
        words, log = process.communicate(timeout=START_S)
        assert process.returncode == 0, log
        assert words == "brokerd stops; what trains and what waits goes on\n"
        assert "level=error" not in log
        assert "Unclosed" not in log
    finally:
        brokerd.close()


def silence_of(client: Client) -> str:
    """Wait until the cluster was looked at, and return what is said of it."""
    message = ""

    def is_said() -> bool:
        nonlocal message
        (region,) = client.regions.find().regions
        (cluster,) = region.clusters
        assert not cluster.reachable
        message = cluster.silence_message
        return cluster.HasField("silent_time")

    until(is_said, START_S, "the cluster was looked at")
    return message
