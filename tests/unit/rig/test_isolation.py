"""What the rig holds of the machine: processes that never outlive it, ports that no two have."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.rig.__main__ import held, holder
from tests.cluster.rig.children import ProcessEndedError, Warden
from tests.cluster.rig.leases import Leases, is_free
from tests.cluster.rig.waiting import wait_until
from tests.house.tree import ROOT

# A pod-like process: a session of its own, deaf to SIGTERM, with a child in yet another session.
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
below = subprocess.Popen(["sleep", "600"], start_new_session=True)
print(os.getpid(), below.pid, flush=True)
time.sleep(600)
"""
OWNER = """
import sys, time
from pathlib import Path
from tests.cluster.rig.children import Warden
warden = Warden(Path(sys.argv[1]))
warden.start("stubborn", [sys.executable, "-c", sys.argv[2]], cwd=Path(sys.argv[1]))
time.sleep(600)
"""


@pytest.fixture
def warden(tmp_path: Path) -> Iterator[Warden]:
    made = Warden(tmp_path)
    yield made
    made.close()


def pids(log: Path) -> list[int]:
    """Return what a stubborn process says of itself, once it has said it."""
    wait_until(lambda: log.exists() and log.read_text().endswith("\n"), 30, "the stubborn process")
    return [int(pid) for pid in log.read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.alone
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_outlives_who_asked_for_it(tmp_path: Path, number: signal.Signals) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path), STUBBORN],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    started = pids(tmp_path / "stubborn.log")
    assert [is_alive(pid) for pid in started] == [True, True]
    owner.send_signal(number)
    owner.wait(30)
    wait_until(lambda: not any(map(is_alive, started)), 30, "the end of all")


@pytest.mark.alone
def test_what_a_killed_process_leaves_dies_with_the_rig(tmp_path: Path, warden: Warden) -> None:
    warden.start("stubborn", [sys.executable, "-c", STUBBORN], cwd=tmp_path)
    started = pids(tmp_path / "stubborn.log")
    warden.kill("stubborn")
    assert [is_alive(pid) for pid in started] == [False, True]
    warden.close()
    assert [is_alive(pid) for pid in started] == [False, False]


@pytest.mark.alone
def test_a_process_is_stopped_resumed_and_started_again(tmp_path: Path, warden: Warden) -> None:
    first = warden.start("sleeper", ["sleep", "600"], cwd=tmp_path)
    assert warden.pid_of("sleeper") == first
    with pytest.raises(ProcessEndedError, match="is running"):
        warden.start("sleeper", ["sleep", "600"], cwd=tmp_path)
    warden.signal("sleeper", signal.SIGSTOP)
    warden.stop("sleeper")  # a stopped process hears SIGTERM only once it goes on
    assert warden.pid_of("sleeper") is None
    assert warden.start("sleeper", ["sleep", "600"], cwd=tmp_path) != first


@pytest.mark.alone
def test_who_ended_is_named_with_its_last_words(tmp_path: Path, warden: Warden) -> None:
    warden.start("talker", ["sh", "-c", "echo no such file; exit 3"], cwd=tmp_path)
    wait_until(lambda: warden.pid_of("talker") is None, 30, "its end")
    with pytest.raises(ProcessEndedError, match="talker ended:\nno such file"):
        warden.check("talker")


@pytest.mark.alone
def test_what_cannot_start_is_said(tmp_path: Path, warden: Warden) -> None:
    with pytest.raises(ProcessEndedError, match="No such file"):
        warden.start("nothing", [str(tmp_path / "nothing")], cwd=tmp_path)


def test_two_rigs_have_no_port_and_no_network_in_common(tmp_path: Path) -> None:
    one, other = Leases(tmp_path), Leases(tmp_path)
    taken = {("port", one.port()) for _ in range(20)} | {("port", other.port()) for _ in range(20)}
    taken |= {("network", one.network()), ("network", other.network())}
    assert len(taken) == 42
    one.release()
    other.release()


def test_what_was_given_back_is_had_again(tmp_path: Path) -> None:
    one, other = Leases(tmp_path), Leases(tmp_path)
    number = one.network()
    one.release()
    assert other.network() == number
    other.release()


def test_a_port_on_which_somebody_listens_is_not_given() -> None:
    with socket.socket() as somebody:
        somebody.bind(("127.0.0.1", 0))
        somebody.listen()
        assert not is_free(somebody.getsockname()[1])


def test_who_comes_second_leaves_the_first_to_be_found(tmp_path: Path) -> None:
    with held(tmp_path):
        with pytest.raises(BlockingIOError), held(tmp_path):
            pass
        assert holder(tmp_path) == os.getpid()
    assert holder(tmp_path) is None
    with held(tmp_path):
        assert holder(tmp_path) == os.getpid()
