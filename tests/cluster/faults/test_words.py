"""What a cluster says is in the way of a gang, or ended it: what people read, and what is done.

The rule: one brokerd on one region, to which all runs are submitted at once; each meets one thing,
done to the cluster as it happens there. What is read is the command line's own words; what the
broker did is read from the run and its places afterwards. Read ``Case``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from broker.cli.status import has_ended
from broker.cli.words import kind
from broker.v1 import placement_pb2
from regions.kueue.names import RUN
from tests.cluster.conftest import SHARES, ZONES, Place, equip
from tests.cluster.harm import Harm
from tests.cluster.overhearing import Ear
from tests.cluster.rig import fleet
from tests.cluster.rig.machines.pools import GPU
from tests.cluster.rig.rig import Rig
from tests.cluster.rig.waiting import wait_until
from tests.cluster.scene import Scene, reason_of, scene_of, state_of, trainer

pytestmark = pytest.mark.cluster

HERE = next(iter(ZONES))
SAID_S, DONE_S = 90.0, 120.0
DIGEST = "@sha256:" + "0" * 64
ABSENT, CLOSED, FOREIGN = (f"registry.invalid/{name}" for name in ("absent", "closed", "foreign"))
REFUSED = {ABSENT: "not-found", CLOSED: "no-right", FOREIGN: "wrong-architecture"}
PROFILES = {
    "on-demand": f"""sidecars = [{{name = "agent", image = "registry.invalid/agent{DIGEST}", """
    """command = ["/no/such/agent"], cpu_millis = 100, memory_bytes = 1048576}]""",
    "reserved": """volumes = [STORE, {name = "data", mount_path = "/data", """
    """host_path = "/no/such/folder"}]""",
}
HIGHEST = max(fleet.PRIORITIES.values()) + 1
KEPT_FOR_OTHERS = {"key": "dedicated", "value": "others", "effect": "NoSchedule"}
HUNG = """"$@" && exit 0; code=$?
echo '[rank0]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)' >&2; exit $code"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a run meets, and what comes of it.

    ``word`` is said with its ``reason`` while the gang stands there, and ``sentence`` in its
    status; ``fault`` and ``deed`` are whose it is and what is told that the broker does. There is
    no other place, so it is given back for what it is ``judged`` to be. ``asks`` is how the run
    differs from one that trains.
    """

    word: str
    reason: str
    sentence: str
    fault: str
    deed: str
    judged: str
    asks: Mapping[str, Any] = field(default_factory=dict)


MOVES = "It tries elsewhere too, and then gives back what is held here"
LEAVES = "It takes the gang out of this cluster and tries another place"
TRIES = (
    "It takes the gang out, counts the try as a failure of the run and tries other places first;"
    " once the run's restarts are spent it ends"
)
ENDS = "It ends the run unless it has a checkpoint and restarts left"
JUDGES = "It starts the run again from a complete checkpoint, as often as its limits allow"
WAITS = "It waits, and tries elsewhere too when this takes too long"

CASES = {
    "absent": Case(
        word="IMAGE_NOT_FOUND",
        reason="IMAGE_PULL_FAILING",
        sentence="the image is not in its registry",
        fault="user",
        deed=TRIES,
        judged="IMAGE_PULL_FAILING",
        asks={"image": f"{ABSENT}/x{DIGEST}"},
    ),
    "closed": Case(
        word="IMAGE_NO_RIGHT",
        reason="IMAGE_PULL_FAILING",
        sentence="the cluster may not read the image",
        fault="orchestration",
        deed=MOVES,
        judged="IMAGE_PULL_FAILING",
        asks={"image": f"{CLOSED}/x{DIGEST}"},
    ),
    "foreign": Case(
        word="IMAGE_WRONG_ARCHITECTURE",
        reason="IMAGE_PULL_FAILING",
        sentence="the image is not made for the machines' processors",
        fault="user",
        deed=TRIES,
        judged="IMAGE_PULL_FAILING",
        asks={"image": f"{FOREIGN}/x{DIGEST}"},
    ),
    "secret": Case(
        word="SECRET_MISSING",
        reason="REFUSED_BY_CLUSTER",
        sentence="a secret that the run names is not in this cluster: nobodys",
        fault="user",
        deed=TRIES,
        judged="REFUSED_BY_CLUSTER",
        asks={"secrets": {"TOKEN": "nobodys"}},
    ),
    "mount": Case(
        word="VOLUME_MISSING",
        reason="REFUSED_BY_CLUSTER",
        sentence="a volume that it needs is not there: data",
        fault="orchestration",
        deed=LEAVES,
        judged="REFUSED_BY_CLUSTER",
        asks={"capacity_types": ("reserved",)},
    ),
    "full": Case(
        word="NODES_FULL",
        reason="NODES_COMING",
        sentence="no machine has room for it yet: nvidia.com/gpu",
        fault="resource",
        deed=WAITS,
        judged="NODES_DO_NOT_COME",
        asks={"capacity_types": ("reserved",), "gpus": 8},
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What ends a gang by its own doing, and what comes of it.

    ``word``, ``fault`` and ``deed`` are as in Case; ``sentence`` is said of its end. One that saved
    goes on from there, and how many ends are counted against the limits of the command and of lost
    machines are its ``losses``; without a checkpoint the run ends, and counts nothing.
    """

    word: str
    fault: str
    deed: str
    sentence: str
    losses: tuple[int, int] = (0, 0)
    is_saved: bool = False


ENDINGS = {
    "code": Ending(
        word="COMMAND_FAILED", fault="user", deed=ENDS, sentence="Rank 0 ended with exit code 3"
    ),
    "nowhere": Ending(
        word="COMMAND_NOT_FOUND",
        fault="user",
        deed=ENDS,
        sentence="its command is not in the image or the bundle: no-such-command",
    ),
    "crash": Ending(
        word="CRASHED", fault="user", deed=ENDS, sentence="Rank 0 ended with signal 11"
    ),
    "memory": Ending(
        word="OUT_OF_MEMORY",
        fault="user",
        deed=ENDS,
        sentence="it used more memory than it asked for",
    ),
    "hung": Ending(
        word="NCCL_TIMEOUT",
        fault="transient",
        deed=JUDGES,
        sentence="a collective operation between the GPUs timed out",
        losses=(0, 1),
        is_saved=True,
    ),
}


def commands(scene: Scene) -> dict[str, list[str]]:
    """Return what each run of ENDINGS runs."""
    stumbling = trainer(scene.diary, steps=20, way="stumbles")
    return {
        "code": shell("exit 3"),
        "nowhere": ["no-such-command"],
        "crash": shell("kill -SEGV $$"),
        "memory": trainer(scene.diary, steps=10_000, save_every=10_000),
        "hung": shell(HUNG, *stumbling),
    }


def shell(script: str, *arguments: str) -> list[str]:
    return ["/bin/sh", "-c", script, "sh", *arguments]


@pytest.fixture(scope="module")
def scene(began: Rig) -> Iterator[Scene]:
    """A brokerd on one region: spot machines that stand, and others on which nothing starts."""
    equip(began, HERE)
    with scene_of(began, (HERE,), nodes=3, profiles=PROFILES) as made:
        place = made.places[HERE]
        for beginning, error in REFUSED.items():
            place.region.fail_images(beginning, error)
        covered(place)
        occupied(place, "RESERVED", 7)
        made.bear(image_pull=1, capacity=1)
        yield made
        for beginning in REFUSED:
            place.region.fail_images(beginning, "")
        assert made.brokerd.failures() == []


@pytest.fixture(scope="module")
def ear(scene: Scene) -> Iterator[Ear]:
    """Who hears what is said, from when the runs of all cases are submitted."""
    made = Ear(scene.brokerd)
    for run_id, case in CASES.items():
        scene.submit(run_id, **{"command": ["true"], "nodes": 1, "gpus": 1, **case.asks})
    for run_id, command in commands(scene).items():
        scene.submit(run_id, command=command, nodes=1, gpus=1)
    yield made
    made.close()


@pytest.mark.parametrize("run_id", CASES)
def test_what_keeps_a_gang_from_starting_is_said_and_acted_on(
    scene: Scene, ear: Ear, run_id: str
) -> None:
    case, name = CASES[run_id], f"teams/team-a/runs/{run_id}"
    said = ear.hear(name, case.word, case.reason, SAID_S)
    assert case.sentence in said.status
    assert f"{case.word} (class: {case.fault})" in said.explained
    assert case.deed in said.explained
    given_back(scene, name, case.judged, is_users=case.fault == "user")


def test_what_its_profile_leaves_out_and_what_it_adds_is_said(scene: Scene, ear: Ear) -> None:
    place = scene.places[HERE]
    pool = fleet.pool("ON_DEMAND", place.zone)
    place.region.change_pool(pool.name, taints=[*pool.taints, KEPT_FOR_OTHERS])
    [node] = place.region.add_nodes(pool.name, 1)
    name = scene.submit("marked", nodes=1, gpus=1, capacity_types=("on-demand",))
    marked = ear.hear(name, "NODES_TAINTED", "NODES_COMING", SAID_S)
    assert "kept for others by a mark that it does not carry: dedicated: others" in marked.status
    assert "NODES_TAINTED (class: orchestration)" in marked.explained
    assert MOVES in marked.explained
    place.region.api.patch("v1", "Node", node, {"spec": {"taints": pool.taints}})
    beside = ear.hear(name, "SIDECAR_FAILING", "REFUSED_BY_CLUSTER", SAID_S)
    assert "a process that has to be up before the gang fails: agent" in beside.status
    assert "SIDECAR_FAILING (class: orchestration)" in beside.explained
    assert LEAVES in beside.explained
    given_back(scene, name, "REFUSED_BY_CLUSTER")
    assert scene.brokerd.cli("cancel", "marked").returncode == 0


def test_a_queue_that_names_a_check_which_is_not_there_is_named(scene: Scene, ear: Ear) -> None:
    harm = Harm(scene.places[HERE])
    scene.fill(HERE, 64, "flex-start", priority=HIGHEST)
    name = scene.submit("unchecked", nodes=1, gpus=1, capacity_types=("flex",))
    ear.hear(name, "WAITING_FOR_QUOTA", "WAITING_FOR_QUOTA", SAID_S)
    harm.name_check("nobodys")
    said = ear.hear(name, "CHECK_MISSING", "QUEUE_STOPPED", SAID_S)
    assert "lets nobody in, because a check that it names is not there" in said.status
    assert "CHECK_MISSING (class: orchestration)" in said.explained
    assert MOVES in said.explained
    harm.undo()
    scene.free(HERE)
    scene.wait_for(name, "SUCCEEDED", within_s=DONE_S)


@pytest.mark.usefixtures("ear")
@pytest.mark.parametrize("run_id", ENDINGS)
def test_what_ended_a_gang_is_said_and_counted(scene: Scene, run_id: str) -> None:
    case, name = ENDINGS[run_id], f"teams/team-a/runs/{run_id}"
    if run_id == "memory":
        scene.wait_for_step(name, 3)
        place = scene.places[HERE]
        [pod] = place.region.api.all("v1", "Pod", place.namespace, labelSelector=f"{RUN}={run_id}")
        place.region.run_out_of_memory(place.namespace, pod["metadata"]["name"])
    run = scene.wait_for(name, "SUCCEEDED", "FAILED", within_s=DONE_S)
    assert case.sentence in scene.brokerd.cli("timeline", run_id).stdout
    [ended] = [each for each in run.placements if each.end != placement_pb2.PLACEMENT_END_SUCCEEDED]
    word = ended.cluster_word
    assert (word.word, kind(word, "failure_class")) == (case.word, case.fault)
    assert word.action == case.deed
    assert (run.restarts.user_failures, run.restarts.infrastructure_losses) == case.losses
    if case.is_saved:
        assert state_of(run) == "SUCCEEDED"
        assert len(run.epochs) == 2
    else:
        assert (state_of(run), reason_of(run.why)) == ("FAILED", "FAILED_BEFORE_CHECKPOINT")
        assert case.sentence in scene.brokerd.cli("status", run_id).stdout


def covered(place: Place) -> None:
    """Have the queue hold quota of all that a sidecar asks for."""
    body = fleet.cluster_queue(place.namespace, SHARES, cohort="research")
    [group] = body["spec"]["resourceGroups"]
    more = {"cpu": "1000", "memory": "1Ti"}
    group["coveredResources"] += more
    for flavor in group["flavors"]:
        flavor["resources"] += [{"name": each, "nominalQuota": most} for each, most in more.items()]
    place.region.api.apply(body)


def occupied(place: Place, kind: str, gpus: int) -> None:
    """Have one machine of a kind stand, and others' process on it."""
    [node] = place.region.add_nodes(fleet.pool(kind, place.zone).name, 1)
    container = {"name": "main", "image": "none", "command": ["sleep", "3600"]}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "others", "namespace": place.namespace},
        "spec": {
            "nodeName": node,
            "containers": [{**container, "resources": {"limits": {GPU: str(gpus)}}}],
        },
    }
    place.region.api.create(body)


def given_back(scene: Scene, name: str, judged: str, *, is_users: bool = False) -> None:
    """Wait until a run's first place is over: given back, while it goes on looking for another.

    ``is_users``: only its user can mend it, so that it is counted, and the run goes on for a while.
    """

    def ended() -> list[placement_pb2.Placement]:
        over = placement_pb2.PLACEMENT_STATE_ENDED
        return [each for each in scene.run(name).placements if each.state == over]

    [leg, *_] = wait_until(ended, DONE_S, f"the end of a place of {name}", every_s=0.5)
    assert (leg.end, reason_of(leg.why)) == (placement_pb2.PLACEMENT_END_REVOKED, judged)
    run = scene.run(name)
    if is_users:
        assert run.restarts.user_failures > 0
    else:
        assert not has_ended(run)
