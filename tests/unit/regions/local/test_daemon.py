"""A real daemon with real processes: what no contract of the port can see."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from regions.cluster import Cause, ClusterUnreachableError, NoSuchLogError, Stage
from regions.launcher.store import DirectoryStore
from regions.local import faults, processes
from regions.local.client import LocalCluster
from regions.local.spawn import (
    ClusterDidNotStartError,
    ensure_running,
    socket_of,
    stop_all,
)
from tests.contract.cluster.local_world import LocalWorld, make_config
from tests.contract.cluster.world import (
    Shape,
    Stagehand,
    make_grant,
    make_queue,
    make_withdraw,
    script,
)

pytestmark = pytest.mark.alone

IDLE = ("/bin/sleep", "600")


@pytest.fixture
def root() -> Iterator[Path]:
    """A short path, for a socket stands in it."""
    path = Path(tempfile.mkdtemp(prefix="local-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
async def stage(root: Path) -> AsyncIterator[Stagehand]:
    world = LocalWorld(root, Shape())
    await world.start_control_plane()
    yield Stagehand(world)
    await world.end()


def world_of(stage: Stagehand) -> LocalWorld:
    assert isinstance(stage.world, LocalWorld)
    return stage.world


def running(directory: Path) -> list[int]:
    return sorted(found.pid for found in processes.find(str(directory.resolve())))


def sleeping(seconds: str) -> list[str]:
    """The processes of this machine that sleep for so long."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if (folder / "cmdline").read_bytes().split(b"\0")[:2] == [b"sleep", seconds.encode()]:
                found.append(folder.name)
    return found


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def until(is_so: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + 30.0
    while not is_so():
        assert time.monotonic() < give_up_s
        await asyncio.sleep(0.05)


async def test_processes_of_a_lost_state_are_shown_and_left_until_somebody_withdraws_them(
    stage: Stagehand,
) -> None:
    world = world_of(stage)
    queue = make_queue(script(world, "exec sleep 600"))
    epoch = await stage.start(queue)
    before = (await stage.see()).placements["p1"]
    pids = running(world.directory)
    await world.kill_control_plane()
    (world.directory / "state.json").unlink()
    await world.start_control_plane()
    after = (await stage.see()).placements["p1"]
    assert (after.stage, after.cause) == (Stage.STANDING, Cause.UNKNOWN)
    assert (after.uid, after.run_key, after.members) == (
        before.uid,
        before.run_key,
        before.members,
    )
    assert running(world.directory) == pids
    await stage.done(make_withdraw(queue, uid=after.uid, epoch=epoch, is_closed=True))
    await stage.ended("p1")
    assert running(world.directory) == []


async def test_a_state_that_cannot_be_read_starts_nothing_and_ends_nothing(
    stage: Stagehand,
) -> None:
    world = world_of(stage)
    await stage.start(make_queue(script(world, "exec sleep 600")))
    pids = running(world.directory)
    await world.kill_control_plane()
    (world.directory / "state.json").write_bytes(b'{"schema_version": 1')
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "regions.local", *world.options()],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    assert "state.json" in done.stderr
    assert "Traceback" not in done.stderr
    assert running(world.directory) == pids


async def test_a_second_daemon_of_a_directory_is_refused(stage: Stagehand) -> None:
    world = world_of(stage)
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "regions.local", *world.options()],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, "another cluster runs" in done.stderr) == (2, True)
    await stage.see()


async def test_what_a_member_leaves_behind_ends_with_it(stage: Stagehand) -> None:
    world = world_of(stage)
    # In another session, and without a trace of this cluster in its environment.
    seconds = str(600_000 + os.getpid())
    leave = (
        f"setsid sleep {seconds} & env -i setsid sh -c 'sleep {seconds} & exec sleep {seconds}' & "
        "sleep 0.5; exit 0"
    )
    queue = make_queue(script(world, leave))
    await stage.done(queue, make_grant(queue))
    ended = await stage.ended("p1")
    assert ended.cause is Cause.NONE
    assert running(world.directory) == []
    assert sleeping(seconds) == []


async def test_a_launcher_that_is_killed_takes_its_command_with_it(stage: Stagehand) -> None:
    world = world_of(stage)
    epoch = await stage.start(make_queue(script(world, "exec sleep 600")))
    first = min(found.pid for found in processes.find(str(world.directory.resolve())))
    os.kill(first, signal.SIGKILL)
    ended = await stage.ended("p1")
    assert ended.cause is Cause.MEMBER_EXITED
    assert 9 in [member.signal for member in ended.members]
    assert running(world.directory) == []
    seen = await stage.epoch(epoch, lambda one: len(one.gone) + len(one.ends) == 2)
    assert len(seen.gone) == 1


async def test_what_a_user_sets_cannot_override_the_protocol(stage: Stagehand) -> None:
    world = world_of(stage)
    out = world.root / "environment"
    dump = "import json,os,sys; json.dump(dict(os.environ), open(sys.argv[1], 'w'))"
    env = {"RANK": "7", "BROKER_STORE": "/elsewhere", "BROKER_MEMBER": "x", "MINE": "yes"}
    queue = make_queue(("python", "-c", dump, str(out)), ranks=1, env=env)
    await stage.done(queue, make_grant(queue))
    await stage.ended("p1")
    seen = json.loads(out.read_text())
    assert (seen["MINE"], seen["RANK"], seen["BROKER_EPOCH"]) == ("yes", "0", "1")
    assert seen["BROKER_MEMBER"] != "x"
    assert seen["BROKER_CHECKPOINT_URI"].startswith(f"file://{world.store}/runs/run1/")
    assert seen["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)
    assert seen["PYTHON"] == sys.executable
    assert "PYTEST_CURRENT_TEST" not in seen


async def test_gangs_that_live_at_once_meet_at_different_ports(stage: Stagehand) -> None:
    world = world_of(stage)
    for name in ("p1", "p2"):
        queue = make_queue(script(world, "sleep 1"), placement=name, run_key=name)
        await stage.done(queue, make_grant(queue))
    await stage.ended("p1")
    await stage.ended("p2")
    ports = [line["MASTER_PORT"] for line in stage.lines()]
    assert (len(ports), len(set(ports))) == (4, 2)


async def test_an_idle_cluster_leaves_nothing_of_what_is_over(stage: Stagehand) -> None:
    world = world_of(stage)
    queue = make_queue(script(world, "exit 0"))
    await stage.done(queue, make_grant(queue))
    await stage.ended("p1")
    assert list((world.directory / "members").iterdir()) == []


@pytest.mark.parametrize(
    "raw",
    [
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x02{}",
        b"\x00\x00\x00\x05hello",
        b'\x00\x00\x00\x11{"type":"unknown"',
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00",
    ],
)
async def test_a_frame_that_is_none_harms_nothing(stage: Stagehand, raw: bytes) -> None:
    world = world_of(stage)
    reader, writer = await asyncio.open_unix_connection(world.socket)
    writer.write(raw)
    writer.write_eof()
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    assert answer == b"" or b'"failed"' in answer
    assert (await stage.see()).is_whole


async def test_names_in_questions_reach_no_file_outside(stage: Stagehand) -> None:
    world = world_of(stage)
    secret = world.root / "rank-0.log"
    secret.write_text("secret")
    for name in ("..", "../..", "/etc/passwd", "p1/../..", "\0", ""):
        with pytest.raises(NoSuchLogError):
            await anext(world.cluster.logs(name, 0, 0, False))
        await stage.apply(make_withdraw(make_queue(IDLE, placement=name)))
    assert (await stage.see()).is_whole
    assert secret.read_text() == "secret"


async def test_slow_answers_are_slow_and_late_ones_are_silence(stage: Stagehand) -> None:
    world = world_of(stage)
    await world.cluster.inject(faults.Slow(delay_ms=300))
    began_s = time.monotonic()
    await stage.see()
    assert time.monotonic() - began_s >= 0.3
    await world.cluster.inject(faults.Slow(delay_ms=60_000))
    with pytest.raises(ClusterUnreachableError):
        await stage.see()
    await world.restore()
    await stage.see()


async def test_news_wake_whoever_waits_for_them(stage: Stagehand) -> None:
    world = world_of(stage)
    await stage.see()
    waiting = asyncio.ensure_future(world.cluster.wait_for_news(25.0))
    await asyncio.sleep(0)
    other = world.connect()
    outcomes = await other.apply((make_queue(IDLE),))
    assert outcomes[0].is_done
    assert await waiting
    assert (await stage.see()).placements["p1"].placement == "p1"


async def test_a_sigterm_ends_the_daemon_and_no_gang(stage: Stagehand) -> None:
    world = world_of(stage)
    await stage.start(make_queue(script(world, "exec sleep 600")))
    pids = running(world.directory)
    os.kill(world.pid, signal.SIGTERM)
    assert await asyncio.to_thread(world.wait) == 0
    assert running(world.directory) == pids
    await world.start_control_plane()
    await stage.placed("p1", lambda one: one.stage is Stage.STANDING)


class Spawned:
    """A cluster as a broker starts it."""

    def __init__(self, root: Path) -> None:
        self.store = root / "store"
        DirectoryStore.create(str(self.store))
        self.directory = root / "west"
        self.config = make_config(self.store, Shape())
        self.cluster = LocalCluster(
            cluster="west",
            region="eu-west4",
            socket=socket_of(self.directory),
            store=DirectoryStore(str(self.store)),
        )

    async def start_gang(self) -> list[int]:
        outcomes = await self.cluster.apply((make_queue(IDLE),))
        assert outcomes[0].is_done
        state = self.directory / "state"
        await until(lambda: len(running(state)) == 2)
        return running(state)


async def test_a_cluster_is_started_found_again_and_ended_without_a_trace(root: Path) -> None:
    spawned = Spawned(root)
    process = await ensure_running(spawned.cluster, spawned.directory, spawned.config)
    assert process is not None
    assert await ensure_running(spawned.cluster, spawned.directory, spawned.config) is None
    await spawned.start_gang()
    await stop_all({spawned.directory: spawned.cluster})
    assert await asyncio.to_thread(process.wait) == 0
    assert names(root) == ["store"]


async def test_a_dead_cluster_is_ended_without_a_trace_too(root: Path) -> None:
    spawned = Spawned(root)
    process = await ensure_running(spawned.cluster, spawned.directory, spawned.config)
    assert process is not None
    pids = await spawned.start_gang()
    process.kill()
    await asyncio.to_thread(process.wait)
    assert running(spawned.directory / "state") == pids
    await stop_all({spawned.directory: spawned.cluster})
    assert running(spawned.directory / "state") == []
    assert names(root) == ["store"]


async def test_everything_ends_when_the_lifeline_is_cut(root: Path) -> None:
    spawned = Spawned(root)
    inner, outer = os.pipe()
    process = await ensure_running(spawned.cluster, spawned.directory, spawned.config, inner)
    os.close(inner)
    assert process is not None
    await spawned.start_gang()
    os.close(outer)
    assert await asyncio.to_thread(process.wait) == 0
    assert running(spawned.directory / "state") == []
    assert not (spawned.directory / "state").exists()


async def test_a_cluster_that_cannot_start_says_why(root: Path) -> None:
    spawned = Spawned(root)
    state = spawned.directory / "state"
    state.mkdir(parents=True)
    (state / "state.json").write_text("{}")
    with pytest.raises(ClusterDidNotStartError, match=r"state\.json"):
        await ensure_running(spawned.cluster, spawned.directory, spawned.config)


def test_a_long_directory_gets_a_short_socket(root: Path) -> None:
    short, long = socket_of(root), socket_of(root / ("d" * 120))
    assert short == root.resolve() / "run" / "socket"
    assert len(os.fsencode(long)) <= 107
    assert socket_of(root / ("e" * 120)) != long


async def test_what_cannot_be_written_down_is_not_done_and_said(stage: Stagehand) -> None:
    world = world_of(stage)
    # A folder where the state's next version would be written: as good as a full disk.
    obstacle = world.directory / ".state.json.new"
    obstacle.mkdir()
    (outcome,) = await stage.apply(make_queue(IDLE))
    assert (outcome.is_done, outcome.cause) == (False, Cause.UNKNOWN)
    assert outcome.retry_after_s is not None
    seen = await stage.see()
    assert (seen.is_whole, len(seen.blind)) == (False, 1)
    assert running(world.directory) == []
    obstacle.rmdir()
    await stage.done(make_queue(IDLE))
    await stage.placed("p1", lambda one: one.stage is Stage.STANDING)
    assert (await stage.see()).blind == ()
