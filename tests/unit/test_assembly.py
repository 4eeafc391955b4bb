"""What a broker that starts again makes of clusters and stores that were there before."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from broker.config import Config, ConfigError, Kueue, Local
from broker.config_registry import Registry
from broker.embedded import default_worlds
from broker.fleet.embedded import EmbeddedMember
from broker.fleet.kueue import KueueMember
from broker.fleet.opening import open_fleet
from broker.fleet.places import DirectoryPlace
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
def member(tmp_path: Path) -> EmbeddedMember:
    directory, world = next(iter(default_worlds(tmp_path).items()))
    return EmbeddedMember(
        directory=directory, world=world, store=DirectoryPlace(path=Path(world.store))
    )


async def test_a_known_cluster_that_does_not_start_is_an_outage_and_its_store_is_not_made(
    member: EmbeddedMember, caplog: pytest.LogCaptureFixture
) -> None:
    directory, world = member.directory, member.world
    (directory / STATE).mkdir(parents=True)
    (directory / STATE / "state.json").write_text("{}")
    await member.connect().start(None)
    assert f"{world.cluster} did not start" in caplog.text
    assert not is_store(world.store)


async def test_a_new_cluster_that_does_not_start_is_said(member: EmbeddedMember) -> None:
    directory, world = member.directory, member.world
    directory.mkdir(parents=True)
    (directory / STATE).write_text("in the way")
    with pytest.raises(ClusterDidNotStartError, match=world.cluster):
        await member.connect().start(None)
    assert is_store(world.store)


# What brokerd starts is meant to outlive it, so it keeps no hold on it.
@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
async def test_a_cluster_that_was_killed_is_started_again_and_one_that_was_ended_is_not(
    member: EmbeddedMember,
) -> None:
    directory, link = member.directory, member.connect()
    process = await ensure_running(link.port, directory, member.world)
    try:
        assert process is not None
        await link.mend(None)
        assert process.poll() is None
        process.kill()
        process.wait()
        with pytest.raises(ClusterUnreachableError):
            await link.port.ping()
        await link.mend(None)
        await link.port.ping()
    finally:
        await stop_all({directory: link.port})
    await link.mend(None)
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
        clusters.append(Local(directory=str(tmp_path / str(number)), world=str(path)))
    with pytest.raises(StartError, match=sentence):
        open_fleet(Config(clusters=tuple(clusters)), tmp_path)


def test_two_clusters_of_one_region_share_its_store(tmp_path: Path) -> None:
    clusters = []
    for number in (1, 2):
        path = tmp_path / f"{number}.json"
        path.write_bytes(dump(make_world(cluster=f"a-{number}")))
        clusters.append(Local(directory=str(tmp_path / str(number)), world=str(path)))
    assert open_fleet(Config(clusters=tuple(clusters)), tmp_path).regions == ("a",)


def make_kueue(tmp_path: Path, **changes: Any) -> Kueue:
    """A cluster that nobody answers for, with a store and profiles."""
    profiles = tmp_path / "profiles.toml"
    profiles.write_text(PROFILES)
    return Kueue(
        **{
            "name": "research",
            "region": "eu-west4",
            "namespace": "team-a",
            "store": str(tmp_path / "store"),
            "profiles": str(profiles),
            "kubeconfig": str(tmp_path / "kubeconfig"),
            **changes,
        }
    )


PROFILES = """
[default]
store = "/stores/eu-west4"
volumes = [{ name = "store", mount_path = "/stores/eu-west4", claim = "store" }]
"""


def test_a_region_of_real_clusters_needs_images_and_an_embedded_one_does_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "world.json"
    path.write_bytes(dump(make_world()))
    local = Local(directory=str(tmp_path / "a"), world=str(path))
    fleet = open_fleet(Config(clusters=(make_kueue(tmp_path), local)), tmp_path)
    assert fleet.regions == ("a", "eu-west4")
    assert fleet.regions_needing_image == {"eu-west4"}
    assert {region: place.folder for region, place in fleet.stores.items()} == {
        "a": Path("/stores/a"),
        "eu-west4": tmp_path / "store",
    }


def test_gke_clusters_of_one_project_are_surveyed_together(tmp_path: Path) -> None:
    named = [
        make_kueue(
            tmp_path,
            name=name,
            region=name,
            kubeconfig="",
            gke=f"projects/p/locations/{name}/clusters/x",
            store=str(tmp_path / name),
        )
        for name in ("us-central1", "europe-west4")
    ]
    fleet = open_fleet(Config(clusters=tuple(named)), tmp_path)
    assert [name for name, _ in fleet.works] == ["survey p"]
    scouts = {each.scout for each in fleet.members if isinstance(each, KueueMember)}
    assert len(scouts - {None}) == 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param(None, r"clusters\[0\]\.profiles: .* cannot be read", id="no file"),
        pytest.param("default = [", r"clusters\[0\]\.profiles: .* is not TOML", id="no TOML"),
        pytest.param(
            PROFILES.replace("claim", "host_path").replace('"store" }', '"/disk" }'),
            r"clusters\[0\]\.profiles: .*volumes.store.host_path",
            id="a host path",
        ),
    ],
)
def test_profiles_that_cannot_be_used_are_refused_by_their_path(
    tmp_path: Path, text: str | None, sentence: str
) -> None:
    one = make_kueue(tmp_path)
    if text is None:
        Path(one.profiles).unlink()
    else:
        Path(one.profiles).write_text(text)
    with pytest.raises(ConfigError, match=sentence):
        open_fleet(Config(clusters=(one,)), tmp_path)


def test_a_registry_is_of_a_region_that_there_is(tmp_path: Path) -> None:
    registry = Registry(prefix="r.example", region="mars")
    config = Config(clusters=(make_kueue(tmp_path),), registries=(registry,))
    with pytest.raises(ConfigError, match=r"registries\[0\]\.region: mars is none of eu-west4"):
        open_fleet(config, tmp_path)


async def test_the_store_of_a_region_is_marked_when_the_log_meets_it_first(tmp_path: Path) -> None:
    fleet = open_fleet(Config(clusters=(make_kueue(tmp_path),)), tmp_path)
    links = fleet.connect()
    with pytest.raises(ExceptionGroup) as raised:
        await links.start(None)
    assert raised.group_contains(StartError, match="mount or make it")
    (tmp_path / "store").mkdir()
    await links.start(None, known=["eu-west4"])
    assert not is_store(str(tmp_path / "store"))
    await links.start(None)
    assert is_store(str(tmp_path / "store"))
    await links.close()


def test_what_one_kind_of_cluster_needs_is_imported_for_it_alone(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; import broker.serving;"
        " from broker.config import Config; from broker.fleet.opening import open_fleet;"
        f" open_fleet(Config(), Path({str(tmp_path)!r})).connect();"
        " print([name for name in ('kubernetes', 'aiohttp', 'google.cloud', 'google.auth')"
        " if name in sys.modules])"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True, timeout=60
    )
    assert told.stdout == "[]\n"


def is_store(root: str) -> bool:
    return Path(root, ".store").exists()
