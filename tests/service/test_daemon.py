"""brokerd as a process: it starts, says where it is, stops in order, and is one at a time."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from broker import endings
from broker.sdk import Client
from broker.sdk.intent import parse_intent
from broker.sdk.settings import find

pytestmark = pytest.mark.alone
START_S = 60.0
INTENT = b"""
team: research
workload:
  command: ["true"]
  hardware: [{accelerator: H100, accelerators_per_node: 1, nodes: 1}]
terms:
  capacity_types: [spot]
  expected_duration: 10h
  budget: 0.01  # so that it waits
"""


class Brokerd:
    """One brokerd over a data directory, with the embedded regions of its own."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.address = f"unix:{data / 'brokerd.sock'}"
        self._processes: list[subprocess.Popen[str]] = []

    def start(self, *more: str) -> subprocess.Popen[str]:
        """Start it and wait until it says where it listens."""
        process = self.run(*more)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(f"brokerd listens on {self.address}, with "), line
        return process

    def run(self, *more: str) -> subprocess.Popen[str]:
        """Start it, and do not wait."""
        command = [sys.executable, "-m", "broker.daemon", "--data-dir", str(self.data), *more]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._processes.append(process)
        return process

    def client(self) -> Client:
        """Return a client of it."""
        return Client(find(server=self.address, team="research"))

    def close(self) -> None:
        """End it and its regions."""
        for process in self._processes:
            with suppress(ProcessLookupError):
                process.kill()
            process.communicate()
        subprocess.run(
            [sys.executable, "-m", "broker.daemon", "stop-embedded", "--data-dir", str(self.data)],
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=START_S,
        )


@pytest.fixture
def brokerd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokerd]:
    brokerd = Brokerd(tmp_path_factory.mktemp("d"))
    try:
        yield brokerd
    finally:
        brokerd.close()


def _submit(client: Client) -> str:
    return client.runs.submit("research", parse_intent(INTENT, "intent", {}).message).name


def test_it_serves_stops_in_order_and_goes_on_after_a_kill(brokerd: Brokerd) -> None:
    first = brokerd.start()
    with grpc.insecure_channel(brokerd.address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)  # the type stubs know no methods
        health = stub.Check(
            health_pb2.HealthCheckRequest(service="broker.v1.RunService"), timeout=10
        )
        assert health.status == health_pb2.HealthCheckResponse.SERVING
        assert "broker.v1.RunService" in _services(channel)
    assert os.stat(brokerd.data / "brokerd.sock").st_mode & 0o777 == 0o600
    with brokerd.client() as client:
        name = _submit(client)

        first.kill()
        first.wait()
        brokerd.start()
        assert client.runs.get(name).name == name

    second = brokerd._processes[-1]
    second.send_signal(signal.SIGTERM)
    said, _ = second.communicate(timeout=START_S)
    assert second.returncode == 0
    assert said.startswith("brokerd stops; what trains and what waits goes on; ")
    assert said.count("\n") == 1


def test_a_second_one_on_the_same_data_is_refused_in_words(brokerd: Brokerd) -> None:
    first = brokerd.start()
    other = brokerd.run("--server", "127.0.0.1:0")
    _, words = other.communicate(timeout=START_S)
    assert other.returncode == endings.IN_THE_WAY
    assert re.fullmatch(
        rf"brokerd: \S+broker\.db is in use by process {first.pid}; stop that brokerd first\n",
        words,
    )


def test_an_address_that_cannot_be_had_is_one_sentence(brokerd: Brokerd) -> None:
    taken = brokerd.data / "notes.txt"
    taken.write_text("precious")
    refused = brokerd.run("--server", f"unix:{taken}")
    _, words = refused.communicate(timeout=START_S)
    assert refused.returncode == endings.USAGE
    assert words == (
        f"brokerd: cannot listen on unix:{taken}: something that is no socket is there\n"
    )


def test_it_ends_with_its_lifeline(brokerd: Brokerd) -> None:
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "broker.daemon", "--data-dir", str(brokerd.data)]
    process = subprocess.Popen(
        [*command, "--lifeline", str(reading)], pass_fds=(reading,), stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"brokerd listens")
    os.close(reading)
    os.close(writing)
    process.stdout.close()
    assert process.wait(START_S) == 0


@pytest.mark.parametrize("address", ["0.0.0.0:7777", "[::]:7777", "10.0.0.1:80", "unix:relative"])
def test_an_address_that_others_could_reach_is_refused(tmp_path: Path, address: str) -> None:
    refused = _tool(tmp_path, "--server", address)
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"brokerd: {address!r}")
    assert list(tmp_path.iterdir()) == []


def test_a_configuration_that_is_wrong_names_its_field(tmp_path: Path) -> None:
    file = tmp_path / "brokerd.toml"
    file.write_text("[loops]\nplace_s = 'soon'\n")
    refused = _tool(tmp_path / "data", "--config", str(file))
    assert (refused.returncode, refused.stderr) == (
        2,
        f"brokerd: {file}: loops.place_s: Expected `float`, got `str`\n",
    )


def test_its_tools_back_up_prove_and_restore(brokerd: Brokerd, tmp_path: Path) -> None:
    brokerd.start()
    with brokerd.client() as client:
        name = _submit(client)
    backup = tmp_path / "backup.db"
    saved = _tool(brokerd.data, "backup", str(backup))
    assert saved.returncode == 0, saved.stderr
    proven = _tool(brokerd.data, "rebuild", "--check")
    assert (proven.returncode, proven.stdout) == (0, "the views follow from the events\n")

    refused = _tool(brokerd.data, "restore", str(backup))
    assert refused.returncode == endings.IN_THE_WAY
    assert "in use" in refused.stderr

    elsewhere = tmp_path / "restored"
    restored = _tool(elsewhere, "restore", str(backup))
    assert restored.returncode == 0, restored.stderr
    assert restored.stdout.startswith("restored as incarnation ")
    again = _tool(elsewhere, "rebuild", "--check")
    assert again.returncode == 0, again.stdout
    remade = _tool(elsewhere, "rebuild")
    assert re.fullmatch(r"rebuilt the views of \d+ streams of events\n", remade.stdout)
    assert name


def test_help_has_examples_and_the_printed_configuration_is_taken(tmp_path: Path) -> None:
    assert "brokerd backup" in _tool(tmp_path, "--help").stdout
    file = tmp_path / "printed.toml"
    file.write_text(_tool(tmp_path, "print-config").stdout)
    assert _tool(tmp_path, "--config", str(file), "--server", "x").stderr.startswith("brokerd: 'x'")


def _services(channel: grpc.Channel) -> set[str]:
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    answer = next(iter(stub.ServerReflectionInfo(iter([request]), timeout=10)))
    return {service.name for service in answer.list_services_response.service}


def _tool(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "broker.daemon", *arguments, "--data-dir", str(data)]
    return subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False)
