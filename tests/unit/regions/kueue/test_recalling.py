"""A broker that starts anew learns who went while nobody looked: in the end, never too early."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from regions.cluster import Cause, ClusterObservation, EpochSeen, Stage
from regions.kueue import names
from regions.kueue.cluster import KueueCluster
from regions.kueue.objects.kinds import decode
from regions.kueue.recalling import AGAIN_S, MOST_PAGES
from regions.launcher import codec, layout
from regions.launcher.store import DirectoryStore
from tests.unit.regions.kueue import kube
from tests.unit.regions.kueue.ports import ported, seen
from tests.unit.regions.kueue.servers import Server, serving
from tests.unit.regions.kueue.shelf import make_grant
from tests.unit.regions.kueue.test_sight import OURS, Cluster, until

GANG = "uid-of-gang"
PODS = "/api/v1/pods"
ASKED = f"/api/v1/namespaces/{OURS}/pods"
JOB_SETS = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{OURS}/jobsets"
GRANT = make_grant()
NONCES = ("a" * 12, "b" * 12)


def silent(name: str) -> kube.Json:
    return kube.node(name, is_ready=False)


def pod(rank: int, node: str) -> kube.Json:
    """A process of the gang, as JobSet and the Job controller mark it."""
    found = kube.pod(f"pod-{rank}", node_name=node)
    found["metadata"] |= {
        "uid": f"member-{rank}",
        "namespace": OURS,
        "labels": {names.MANAGED_BY: names.MANAGER, names.GANG_UID: GANG},
        "annotations": {names.RANK_ANNOTATION: str(rank)},
    }
    return found


def job_set(state: str = "") -> kube.Json:
    found = kube.meta(names.jobset_name(GRANT.placement), namespace=OURS, uid=GANG)
    found |= {
        "labels": {names.MANAGED_BY: names.MANAGER},
        "annotations": {names.PLACED: GRANT.placement, names.KEYED: GRANT.epoch.run_key},
    }
    job = {"name": names.GANG, "replicas": 1, "template": {"spec": {"parallelism": 2}}}
    status = {"terminalState": state} if state else {}
    return {"metadata": found, "spec": {"replicatedJobs": [job]}, "status": status}


@dataclass
class Story:
    """A started gang of two ranks in the store, a cluster, and a broker that just came to both."""

    server: Server
    cluster: Cluster
    port: KueueCluster
    store: DirectoryStore

    async def look(self) -> ClusterObservation:
        """Look, and wait until what follows from it is done."""
        found = await seen(self.port)
        await until(lambda: self.port._upkeep._found is None)
        return found

    async def sought(self) -> ClusterObservation:
        """Look until everybody was asked for, and then once more."""
        await self.look()
        self.server.clock.now_s += AGAIN_S
        await self.look()
        return await self.look()

    def change(self, name: str, *found: kube.Json) -> None:
        """Have a kind be as it is now, as its watch would tell."""
        informer = self.port._sight.informer(name)
        assert informer is not None
        for key in list(informer.cache.objects):
            informer.cache.drop(key)
        for each in found:
            informer.cache.put(
                each["metadata"]["name"], decode(informer.kind, informer.version, each)
            )

    def asked(self) -> int:
        return sum(path == ASKED and "watch" not in path for path, _ in self.cluster.asked)


@contextlib.asynccontextmanager
async def returning(
    root: Path, objects: dict[str, list[Any]], *, theirs: str = "west"
) -> AsyncIterator[Story]:
    store = DirectoryStore.create(str(root / "store"))
    write(store, theirs)
    cluster = Cluster()
    cluster.objects = objects
    async with serving() as server, ported(server, cluster, root) as port:
        yield Story(server, cluster, port, store)


def write(store: DirectoryStore, cluster: str) -> None:
    """What a gang that started leaves in its store."""
    keys, epoch = layout.RunKeys(GRANT.epoch.run_key), layout.EpochId(1, GRANT.epoch.nonce)
    grant = layout.Grant(
        placement=GRANT.placement,
        epoch=epoch,
        world_size=2,
        incarnation=1,
        resume_from=None,
        bundle=None,
        seals=(),
    )
    store.put(keys.grant(GRANT.placement), codec.write_grant(grant))
    for rank, nonce in enumerate(NONCES):
        gate = layout.Gate(rank, nonce, 1, f"member-{rank}", f"node-{rank}", GANG, cluster)
        store.put(keys.gate(GRANT.placement, nonce), codec.write_gate(gate))
    owner = layout.Started(epoch.nonce, GRANT.placement, NONCES)
    store.put(keys.owner(1), codec.write_owner(owner))


def epoch_of(seen: ClusterObservation) -> EpochSeen:
    return seen.epochs[GRANT.epoch]


async def test_a_pod_that_went_from_a_working_machine_while_nobody_looked_is_gone(
    tmp_path: Path,
) -> None:
    objects = {
        "/api/v1/nodes": [kube.node("node-0"), kube.node("node-1")],
        JOB_SETS: [job_set("Failed")],
    }
    async with returning(tmp_path, objects) as story:
        first = await story.look()
        assert epoch_of(first).gone == frozenset()
        assert first.placements[GRANT.placement].stage is not Stage.ENDED
        seen = await story.sought()
        assert epoch_of(seen).gone == {0, 1}
        found = seen.placements[GRANT.placement]
        assert (found.stage, [one.is_alive for one in found.members]) == (
            Stage.ENDED,
            [False, False],
        )
        before = story.asked()
        await story.sought()
        assert story.asked() == before == 1


async def test_a_pod_that_went_from_a_silent_machine_may_run_on_until_the_machine_is_heard_of(
    tmp_path: Path,
) -> None:
    objects = {
        "/api/v1/nodes": [kube.node("node-0"), silent("node-1")],
        JOB_SETS: [job_set("Failed")],
    }
    async with returning(tmp_path, objects) as story:
        seen = await story.sought()
        assert epoch_of(seen).gone == {0}
        found = seen.placements[GRANT.placement]
        assert found.stage is not Stage.ENDED
        assert {one.rank: one.is_alive for one in found.members} == {0: False, 1: True}
        story.change("nodes", kube.node("node-0"))
        seen = await story.look()
        assert seen.placements[GRANT.placement].stage is Stage.ENDED
        assert epoch_of(await story.look()).gone == {0, 1}


async def test_a_gang_whose_object_went_too_is_shown_until_its_machines_tell(
    tmp_path: Path,
) -> None:
    async with returning(tmp_path, {"/api/v1/nodes": [silent("node-1")]}) as story:
        assert (await story.look()).placements == {}
        seen = await story.sought()
        found = seen.placements[GRANT.placement]
        assert (found.stage, found.cause, found.uid) == (Stage.STANDING, Cause.WITHDRAWN, GANG)
        assert (found.run_key, "node-1" in found.message) == (GRANT.epoch.run_key, True)
        assert epoch_of(seen).gone == {0}
        story.change("nodes")
        assert (await story.look()).placements[GRANT.placement].stage is Stage.ENDED
        assert epoch_of(await story.look()).gone == {0, 1}


async def test_a_gang_that_went_on_is_found_as_it_is(tmp_path: Path) -> None:
    pods = [pod(0, "node-0"), pod(1, "node-1")]
    objects = {
        "/api/v1/nodes": [kube.node("node-0"), kube.node("node-1")],
        JOB_SETS: [job_set()],
        PODS: pods,
        ASKED: pods,
    }
    async with returning(tmp_path, objects) as story:
        seen = await story.sought()
        assert epoch_of(seen).gone == frozenset()
        members = seen.placements[GRANT.placement].members
        assert [(one.rank, one.member, one.is_alive) for one in members] == [
            (0, "member-0", True),
            (1, "member-1", True),
        ]
        assert story.asked() == 0


async def test_a_pod_of_which_only_the_watch_is_late_is_not_missed(tmp_path: Path) -> None:
    objects = {
        "/api/v1/nodes": [kube.node("node-0"), kube.node("node-1")],
        JOB_SETS: [job_set()],
        ASKED: [pod(0, "node-0"), pod(1, "node-1")],
    }
    async with returning(tmp_path, objects) as story:
        seen = await story.sought()
        assert epoch_of(seen).gone == frozenset()
        assert story.asked() > 0


async def test_processes_of_another_cluster_at_the_same_store_are_not_this_ones_to_miss(
    tmp_path: Path,
) -> None:
    objects = {"/api/v1/nodes": [kube.node("node-0"), kube.node("node-1")]}
    async with returning(tmp_path, objects, theirs="east") as story:
        assert epoch_of(await story.sought()).gone == frozenset()
        assert story.asked() == 0


@pytest.mark.parametrize("answer", [{"items": 3}, {"items": [{"metadata": {}}]}])
async def test_an_answer_that_tells_nothing_ends_nobody(tmp_path: Path, answer: Any) -> None:
    objects = {"/api/v1/nodes": [kube.node("node-0"), kube.node("node-1")]}
    async with returning(tmp_path, objects) as story:
        before = story.cluster.told
        story.cluster.told = lambda path: answer if path == ASKED else before(path)  # type: ignore[method-assign]
        assert epoch_of(await story.sought()).gone == frozenset()
        story.cluster.told = before  # type: ignore[method-assign]
        assert epoch_of(await story.sought()).gone == {0, 1}


async def test_a_list_that_has_no_end_is_given_up_and_ends_nobody(tmp_path: Path) -> None:
    objects = {"/api/v1/nodes": [kube.node("node-0"), kube.node("node-1")]}
    async with returning(tmp_path, objects) as story:
        before, asked = story.cluster.told, []

        def endless(path: str) -> object:
            if path != ASKED:
                return before(path)
            asked.append(path)
            return {"items": [], "metadata": {"continue": "more"}}

        story.cluster.told = endless  # type: ignore[method-assign]
        await story.look()
        assert epoch_of(await story.look()).gone == frozenset()
        assert len(asked) == MOST_PAGES
