"""brokerd as a process on real Kueue: a run from its submit to its end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from regions.kueue.names import MANAGED_BY, MANAGER
from tests.cluster.conftest import ZONES, Place
from tests.cluster.gangs import is_alive
from tests.cluster.rig import fleet
from tests.cluster.rig.rig import Rig
from tests.cluster.rig.waiting import wait_until
from tests.cluster.scene import Scene, scene_of, trainer
from tests.killed import laws

pytestmark = pytest.mark.cluster

HERE, THERE = list(ZONES)[:2]
CHEAP = {HERE: {"spot": "1.00"}}  # so that it is the first choice


@pytest.fixture
def scene(rig: Rig) -> Iterator[Scene]:
    """A brokerd on two regions, in each of which a gang of two has room."""
    with scene_of(rig, (HERE, THERE), prices=CHEAP) as made:
        yield made
        assert made.brokerd.failures() == []


def test_a_run_trains_on_real_kueue_and_what_it_said_is_kept(scene: Scene) -> None:
    name = scene.submit("first")
    scene.wait_for(name, "SUCCEEDED", "FAILED", "REJECTED")
    assert laws.finished(scene.lines(name)) == {name: {0, 1}}
    assert {line.epoch[:7] for line in scene.lines(name)} == {"e000001"}

    word = ["python", "-c", "import os; print('rank', os.environ['RANK'], 'was here')"]
    said = scene.submit("said", command=word)
    scene.wait_for(said, "SUCCEEDED")
    assert scene.brokerd.cli("logs", "said").stdout == "rank 0 was here\n"
    assert scene.brokerd.cli("logs", "said", "--rank", "1").stdout == "rank 1 was here\n"
    for region in scene.places:
        scene.wait_gone(region)


def test_a_run_does_not_notice_that_its_broker_is_killed(scene: Scene) -> None:
    name = scene.submit("long", command=trainer(scene.diary, steps=80))
    scene.wait_for_step(name, 5)
    scene.brokerd.kill()
    at = max(line.step for line in scene.lines(name))
    scene.wait_for_step(name, at + 10)
    scene.brokerd.start()
    scene.wait_for(name, "SUCCEEDED", "FAILED")
    assert laws.finished(scene.lines(name)) == {name: {0, 1}}
    assert laws.started_twice(scene.lines(name)) == []
    assert len({line.epoch for line in scene.lines(name)}) == 1


def test_a_drained_run_goes_on_elsewhere_and_a_cancelled_one_leaves(scene: Scene) -> None:
    name = scene.submit("moved", command=trainer(scene.diary, steps=2000))
    scene.wait_for_step(name, 10)
    [here] = [region for region in scene.places if scene.gangs(region)]
    [there] = scene.places.keys() - {here}
    assert scene.brokerd.cli("regions", "drain", here, "--grace", "20s").returncode == 0

    def is_there() -> bool:
        starts = [line for line in scene.lines(name) if line.what == "start"]
        return {line.rank for line in starts if line.resumed is not None} == {0, 1}

    wait_until(is_there, 90, f"a start from a checkpoint in {there}")
    assert laws.wrong_states(scene.lines(name)) == []
    scene.wait_gone(here)

    pids = {line.pid for line in scene.lines(name) if line.what == "start"}
    assert scene.brokerd.cli("cancel", "moved").returncode == 0
    scene.wait_for(name, "CANCELLED")
    wait_until(lambda: not any(map(is_alive, pids)), 30, "the processes' end")
    scene.wait_gone(there)


def test_of_two_legs_the_first_whole_gang_trains_and_the_other_leaves(rig: Rig) -> None:
    with scene_of(rig, (HERE, THERE), prices=CHEAP) as scene:
        scene.hedge_after(1)
        for region in scene.places:
            scene.fill(region)
        name = scene.submit("hedged")
        wait_until(lambda: all(map(scene.gangs, scene.places)), 60, "a leg in both regions")
        for region in scene.places:
            scene.free(region)
        scene.wait_for(name, "SUCCEEDED", "FAILED")
        assert laws.finished(scene.lines(name)) == {name: {0, 1}}
        assert laws.started_twice(scene.lines(name)) == []
        assert len({line.epoch for line in scene.lines(name)}) == 1
        for region in scene.places:
            scene.wait_gone(region)


def test_a_restored_broker_adopts_what_runs_and_removes_an_orphan_on_a_word_alone(
    scene: Scene, tmp_path: Path
) -> None:
    """Its backup is of when one run had no place and the other was not there; both train by now."""
    for region in scene.places:
        assert scene.brokerd.cli("regions", "cordon", region).returncode == 0
    kept = scene.submit("kept", command=trainer(scene.diary, steps=3000))
    scene.wait_for(kept, "QUEUED")
    backup = str(tmp_path / "backup.db")
    scene.brokerd.tool("backup", backup)
    for region in scene.places:
        assert scene.brokerd.cli("regions", "uncordon", region).returncode == 0
    scene.wait_for_step(kept, 5)
    lost = scene.submit("lost", command=trainer(scene.diary, steps=3000), regions=[THERE])
    scene.wait_for_step(lost, 5)
    [orphan] = scene.gangs(THERE)
    stand_in(scene.places[THERE], "theirs")

    assert scene.brokerd.stop() == 0
    assert "restored as incarnation" in scene.brokerd.tool("restore", backup, "--replace")
    scene.brokerd.start()
    scene.wait_for(kept, "RUNNING")
    told = scene.brokerd.cli("timeline", "kept").stdout
    assert f"start 1 was found running in {HERE}, and kept" in told
    ours, others = f"{THERE}/{orphan.removeprefix('cb-')}", f"{THERE}/jobset/theirs"
    both = {ours: "yes", others: "no"}
    wait_until(lambda: owners(scene) == both, 60, "what is of no run", every_s=1.0)

    # Until it has stood for a while it may be a run that is only just being read, and stays.
    wait_until(
        lambda: "on its way out" in removed(scene, ours), 120, "the orphan's removal", every_s=2.0
    )
    assert "does not carry this log's mark" in removed(scene, others)
    assert at_work(scene, lost) == {0, 1}
    wait_until(lambda: not at_work(scene, lost), 60, "the end of the orphan's processes")
    wait_until(lambda: owners(scene) == {others: "no"}, 60, "the orphan's end", every_s=1.0)
    assert scene.gangs(THERE) == ["theirs"]

    at = max(line.step for line in scene.lines(kept))
    scene.wait_for_step(kept, at + 5)
    assert laws.started_twice(scene.lines(kept)) == []
    assert len({line.epoch for line in scene.lines(kept)}) == 1
    assert scene.brokerd.cli("cancel", "kept").returncode == 0
    scene.wait_for(kept, "CANCELLED")
    scene.wait_gone(HERE)


def stand_in(place: Place, name: str) -> None:
    """Have a gang of somebody else's run that looks like one of a broker's."""
    place.region.add_nodes(fleet.pool("SPOT", place.zone).name, 1)
    spot = {"nodeSelector": {fleet.PROVISIONING: "spot"}, "tolerations": [{"operator": "Exists"}]}
    looks = {MANAGED_BY: MANAGER}
    place.submit(name, ["sleep", "3600"], ranks=1, gpus=1, labels=looks, pod=spot)
    place.wait_running(name, 1)


def owners(scene: Scene) -> dict[str, str]:
    """Return what stands in clusters and is of no run, and whether it is ours."""
    shown = scene.brokerd.cli("orphans").stdout.splitlines()[1:]
    return {line.split()[0]: re.split(r"\s{2,}", line)[3] for line in shown}


def removed(scene: Scene, orphan: str) -> str:
    """Ask for the removal of an orphan, and return the answer."""
    done = scene.brokerd.cli("orphans", "remove", orphan, "--yes")
    return done.stdout + done.stderr


def at_work(scene: Scene, name: str) -> set[int]:
    """Return the ranks of a run of which a process is alive."""
    starts = [line for line in scene.lines(name) if line.what == "start"]
    return {line.rank for line in starts if is_alive(line.pid)}


def test_what_is_wrong_is_named_and_what_is_missing_refused(scene: Scene) -> None:
    well = scene.brokerd.cli("doctor")
    assert well.returncode == 0, well.stdout
    assert f"ok  {HERE}/gke-{HERE}: answers, seen " in well.stdout
    shown = scene.brokerd.cli("regions", "show", HERE).stdout
    assert "training/spot" in shown
    assert "8xH100" in shown

    bare = scene.brokerd.cli(
        *("submit", "--no-workdir", "--name", "bare", "--hardware", "8xH100"),
        *("--capacity", "spot", "--wait", "--", "true"),
    )
    said = bare.stdout + bare.stderr
    assert bare.returncode != 0
    assert "image" in said
    assert HERE in said
    assert THERE in said

    region = scene.places[HERE].region
    region.partition()
    try:
        silent = f"!!  {HERE}/gke-{HERE}: it does not answer now ("
        wait_until(lambda: silent in scene.brokerd.cli("doctor").stdout, 60, "the doctor's word")
        told = scene.brokerd.cli("doctor")
        assert told.returncode == 4
        ill = told.stdout
        assert f"ok  {THERE}/gke-{THERE}: answers" in ill
        assert "has not answered for" in scene.brokerd.cli("regions").stdout
    finally:
        region.heal()
    wait_until(lambda: scene.brokerd.cli("doctor").returncode == 0, 60, "that all is well again")


def test_it_stops_in_order_and_leaves_what_trains(scene: Scene) -> None:
    name = scene.submit("on", command=trainer(scene.diary, steps=2000))
    scene.wait_for_step(name, 5)
    assert scene.brokerd.stop() == 0
    assert "Unclosed" not in scene.brokerd.last_words()
    at = max(line.step for line in scene.lines(name))
    scene.wait_for_step(name, at + 5)
