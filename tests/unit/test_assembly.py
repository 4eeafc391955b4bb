"""What a broker that starts again makes of clusters and stores that were there before."""

from pathlib import Path

import pytest

from broker.assembly import Fleet, open_fleet
from broker.config import Cluster, Config
from broker.embedded import default_worlds
from broker.options import StartError
from regions.cluster import ClusterUnreachableError
from regions.local.config import WorldConfig, dump
from regions.local.spawn import (
    STATE,
    ClusterDidNotStartError,
    ensure_running,
    has_lived,
    stop_all,
)


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    directory, world = next(iter(default_worlds(tmp_path).items()))
    return Fleet(worlds={directory: world})


async def test_a_known_cluster_that_does_not_start_is_an_outage_and_its_store_is_not_made(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    ((directory, world),) = fleet.worlds.items()
    (directory / STATE).mkdir(parents=True)
    (directory / STATE / "state.json").write_text("{}")
    await fleet.start(fleet.connect(), lifeline=None)
    assert f"{world.cluster} did not start" in caplog.text
    assert not is_store(world.store)


async def test_a_new_cluster_that_does_not_start_is_said(fleet: Fleet) -> None:
    ((directory, world),) = fleet.worlds.items()
    directory.mkdir(parents=True)
    (directory / STATE).write_text("in the way")
    with pytest.raises(ExceptionGroup) as raised:
        await fleet.start(fleet.connect(), lifeline=None)
    assert raised.group_contains(ClusterDidNotStartError, match=world.cluster)
    assert is_store(world.store)


# What brokerd starts is meant to outlive it, so it keeps no hold on it.
@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
async def test_a_cluster_that_was_killed_is_started_again_and_one_that_was_ended_is_not(
    fleet: Fleet,
) -> None:
    ((directory, world),) = fleet.worlds.items()
    clusters = fleet.connect()
    process = await ensure_running(clusters[directory], directory, world)
    try:
        assert process is not None
        await fleet.mend(clusters, lifeline=None)
        assert process.poll() is None
        process.kill()
        process.wait()
        with pytest.raises(ClusterUnreachableError):
            await clusters[directory].ping()
        await fleet.mend(clusters, lifeline=None)
        await clusters[directory].ping()
    finally:
        await stop_all(clusters)
    await fleet.mend(clusters, lifeline=None)
    assert not has_lived(directory)


def make_world(cluster: str = "a-1", region: str = "a", store: str = "/stores/a") -> WorldConfig:
    return WorldConfig(cluster=cluster, region=region, store=store, flavors=(), queues=())


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        pytest.param({}, "cluster a-1 is named twice", id="one cluster twice"),
        pytest.param(
            {"cluster": "a-2", "store": "/stores/b"}, "region a has two stores", id="two stores"
        ),
        pytest.param(
            {"cluster": "b-1", "region": "b", "store": "/stores/x/../a"},
            "regions a and b have one store",
            id="one store",
        ),
    ],
)
def test_clusters_that_stand_in_each_others_way_are_refused(
    tmp_path: Path, other: dict[str, str], sentence: str
) -> None:
    clusters = []
    for number, changes in enumerate(({}, other)):
        path = tmp_path / f"{number}.json"
        path.write_bytes(dump(make_world(**changes)))
        clusters.append(Cluster(directory=str(tmp_path / str(number)), world=str(path)))
    with pytest.raises(StartError, match=sentence):
        open_fleet(Config(clusters=tuple(clusters)), tmp_path)


def test_two_clusters_of_one_region_share_its_store(tmp_path: Path) -> None:
    clusters = []
    for number in (1, 2):
        path = tmp_path / f"{number}.json"
        path.write_bytes(dump(make_world(cluster=f"a-{number}")))
        clusters.append(Cluster(directory=str(tmp_path / str(number)), world=str(path)))
    assert open_fleet(Config(clusters=tuple(clusters)), tmp_path).regions == ("a",)


def is_store(root: str) -> bool:
    return Path(root, ".store").exists()
