"""The program as a process: interrupted, cut off, outlived by its broker, asked to complete."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.cli import exits
from broker.sdk import Client, find
from broker.v1 import run_pb2
from tests.cli.brokerd import Daemon

pytestmark = pytest.mark.alone
WITHIN_S = 90.0
SLEEPER = ("--no-workdir", "--hardware", "1xH100", "--capacity", "spot")


@contextmanager
def started(daemon: Daemon, home: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "broker.cli", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=daemon.environment("process", home),
    ) as process:
        try:
            yield process
        finally:
            process.kill()  # what fails a test must not be waited for


def done(daemon: Daemon, home: Path, *arguments: str, **more: str) -> tuple[int, str, str]:
    mine = daemon.environment("process", home) | more
    found = daemon.typed(*arguments, environment=mine, folder=home)
    return found.returncode, found.stdout, found.stderr


def state_of(daemon: Daemon, run: str) -> int:
    with Client(find(server=daemon.server, team="process", user="ann")) as client:
        return client.runs.get(f"teams/process/runs/{run}").state


def lines_until(process: subprocess.Popen[str], text: str) -> list[str]:
    """Read lines until one holds the text; a line that never comes ends the test by its timeout."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            break
    return lines


def test_an_interrupted_watch_says_how_to_go_on_and_ends_no_run(
    daemon: Daemon, tmp_path: Path
) -> None:
    with started(
        daemon, tmp_path, "submit", "--name", "long", *SLEEPER, "--wait", "--", "sleep", "600"
    ) as process:
        lines_until(process, "gang running")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=WITHIN_S)
    assert process.returncode == exits.INTERRUPTED
    assert "long goes on without you. Watch on: broker watch process/long --after " in said
    assert "Traceback" not in said
    assert state_of(daemon, "long") == run_pb2.RUN_STATE_RUNNING
    assert done(daemon, tmp_path, "cancel", "long", "--grace", "0", "--wait")[0] == exits.OK


DEAF = """
import time
from broker.cli import __main__ as cli
def main():
    while True:
        try:
            print("goes on", flush=True)
            time.sleep(60)
        except KeyboardInterrupt:
            pass
cli.main, cli.LEAVES_WITHIN_S = main, 1
cli.program()
"""


def test_what_goes_on_although_it_was_interrupted_is_ended() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", DEAF], stdout=subprocess.PIPE, text=True
    ) as process:
        lines_until(process, "goes on")
        process.send_signal(signal.SIGINT)
        assert process.wait(WITHIN_S) == -signal.SIGALRM


def test_a_trial_that_is_ended_leaves_no_run(daemon: Daemon, tmp_path: Path) -> None:
    assert done(daemon, tmp_path, "regions", "cordon", "europe-west1")[0] == exits.OK
    try:
        with started(daemon, tmp_path, "doctor", "--try", "europe-west1") as process:
            assert process.stderr is not None
            run = next(line for line in process.stderr if "submitted" in line)
            name = run.split("/runs/")[1].split(":")[0]
            process.terminate()
            process.communicate(timeout=WITHIN_S)
        assert process.returncode == 128 + signal.SIGTERM
        assert state_of(daemon, name) == run_pb2.RUN_STATE_CANCELLED
    finally:
        assert done(daemon, tmp_path, "regions", "uncordon", "europe-west1")[0] == exits.OK


def test_a_watch_outlives_its_broker_and_tells_each_event_once(
    daemon: Daemon, tmp_path: Path
) -> None:
    submitted = ("submit", "--name", "outlives", *SLEEPER, "--wait", "-o", "json")
    with started(daemon, tmp_path, *submitted, "--", "sleep", "600") as process:
        lines = lines_until(process, "GANG_RUNNING")
        daemon.stop(signal.SIGKILL)
        daemon.start()
        cancelled = done(daemon, tmp_path, "cancel", "outlives", "--grace", "0")
        rest, said = process.communicate(timeout=WITHIN_S)
    assert cancelled[0] == exits.OK
    assert process.returncode == exits.RUN_FAILED
    assert "trying again" in said
    whole = "".join(lines) + rest
    numbers = [int(part.split(",")[0]) for part in whole.split('"event": {"sequence": ')[1:]]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_reader_that_goes_away_ends_it_quietly(daemon: Daemon, tmp_path: Path) -> None:
    shell = f"{sys.executable} -m broker.cli --help | head -1; echo ${{PIPESTATUS[0]}}"
    found = subprocess.run(
        ["bash", "-c", shell],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=True,
        env=daemon.environment("process", tmp_path),
    )
    assert found.stdout.splitlines()[0] == "Usage: broker [OPTIONS] COMMAND [ARGS]..."
    assert found.stdout.splitlines()[1] in {str(exits.OK), str(exits.PIPE_CLOSED)}
    assert found.stderr == ""


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("broker st", ["status"]),
        ("broker regions co", ["cordon"]),
        ("broker regions cordon us-e", ["us-east4"]),
        ("broker status compl", ["completes"]),
    ],
)
def test_verbs_runs_and_regions_are_completed(
    daemon: Daemon, tmp_path: Path, typed: str, offered: list[str]
) -> None:
    done(daemon, tmp_path, "submit", "--name", "completes", *SLEEPER, "--", "true")
    words = typed.split(" ")
    _, told, _ = done(
        daemon,
        tmp_path,
        _BROKER_COMPLETE="bash_complete",
        COMP_WORDS=typed,
        COMP_CWORD=str(len(words) - 1),
    )
    assert [line.removeprefix("plain,") for line in told.splitlines()] == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_is_told_how_to_complete(daemon: Daemon, tmp_path: Path, shell: str) -> None:
    code, told, _ = done(daemon, tmp_path, "completion", shell)
    assert code == exits.OK
    assert f"_BROKER_COMPLETE={shell}_complete" in told
