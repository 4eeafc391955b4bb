"""What a look at one gang makes of it, through the port: what is told, and what is done at once."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from regions.cluster import Cause
from regions.kueue import names
from regions.kueue.scene import JOB_UID
from regions.launcher.pack import pack
from tests.unit.regions.kueue import kube
from tests.unit.regions.kueue.ports import ported, seen
from tests.unit.regions.kueue.servers import Server, serving
from tests.unit.regions.kueue.test_sight import OURS, Cluster, until

GANG = "uid-of-gang"
ADMITTED_S = datetime(2026, 11, 1, tzinfo=UTC).timestamp()
GANGS = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{OURS}/jobsets"
MAPS = f"/api/v1/namespaces/{OURS}/configmaps"


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as found:
        yield found


def holding(*pods: kube.Json, before: tuple[kube.Json, ...] = ()) -> Cluster:
    """A cluster with one gang of ours, which Kueue has let in, and what it said of it before."""
    meta = kube.meta(names.jobset_name("p1"), namespace=OURS, uid=GANG)
    meta |= {
        "labels": {names.MANAGED_BY: names.MANAGER},
        "annotations": {names.PLACED: "p1", names.KEYED: "run1"},
    }
    job = {"name": names.GANG, "replicas": 1, "template": {"spec": {"parallelism": 1}}}
    workload = kube.workload(
        admitted_to="cq",
        conditions=(kube.condition("QuotaReserved"), kube.condition("Admitted"), *before),
    )
    workload["metadata"]["labels"] = {JOB_UID: GANG}
    cluster = Cluster()
    cluster.objects = {
        GANGS: [{"metadata": meta, "spec": {"replicatedJobs": [job]}, "status": {}}],
        "/apis/kueue.x-k8s.io/v1beta2/workloads": [workload],
        "/api/v1/pods": list(pods),
    }
    return cluster


def waiting(why: str) -> kube.Json:
    """The gang's one process, which cannot be created for a reason."""
    state = {"waiting": {"reason": "CreateContainerConfigError", "message": why}}
    found = kube.pod(
        node_name="n", phase="Pending", containerStatuses=[{"name": "train", "state": state}]
    )
    found["metadata"] |= {
        "labels": {names.MANAGED_BY: names.MANAGER, names.GANG_UID: GANG},
        "annotations": {names.RANK_ANNOTATION: "0"},
    }
    return found


def has_asked(server: Server, method: str, where: str) -> bool:
    """Whether the cluster was asked for something, beside all looks."""
    return (method, where) in {(one, path) for one, path, _ in server.asked}


async def test_a_gang_that_misses_its_launcher_is_brought_it(
    server: Server, tmp_path: Path
) -> None:
    missed = names.launcher_name(pack())
    cluster = holding(waiting(f'configmap "{missed}" not found'))
    async with ported(server, cluster, tmp_path) as port:
        found = await seen(port)
        said = found.placements["p1"].said
        assert said is not None
        assert said.word == "CONFIG_MISSING"
        await until(lambda: has_asked(server, "POST", MAPS))


async def test_a_gang_that_was_let_in_again_while_nobody_looked_is_removed(
    server: Server, tmp_path: Path
) -> None:
    former = kube.condition("Evicted", status="False", reason="QuotaReserved")
    async with ported(server, holding(before=(former,)), tmp_path) as port:
        found = await seen(port)
        assert found.placements["p1"].cause is Cause.EVICTED
        await until(lambda: has_asked(server, "DELETE", f"{GANGS}/{names.jobset_name('p1')}"))


async def test_the_first_signals_are_told_by_the_clusters_clock(
    server: Server, tmp_path: Path
) -> None:
    # An hour behind ours, which is all that is known before it has answered.
    wall_s = [ADMITTED_S + 3600.0]
    async with ported(server, holding(), tmp_path, wall_s=lambda: wall_s[0]) as port:
        server.clock.now_s += 60.0
        wall_s[0] = ADMITTED_S + 1.0
        (signal,) = (await seen(port)).signals
        assert (signal.kind, signal.age_s) == ("ADMITTED", 1.0)
