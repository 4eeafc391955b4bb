"""What a broker that starts again makes of clusters and stores that were there before."""

from pathlib import Path

import pytest

from broker.assembly import Fleet
from broker.embedded import default_worlds
from regions.local.spawn import STATE, ClusterDidNotStartError


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
    await fleet.start(fleet.connect(incarnation=1), lifeline=None)
    assert f"{world.cluster} did not start" in caplog.text
    assert not is_store(world.store)


async def test_a_new_cluster_that_does_not_start_is_said(fleet: Fleet) -> None:
    ((directory, world),) = fleet.worlds.items()
    directory.mkdir(parents=True)
    (directory / STATE).write_text("in the way")
    with pytest.raises(ExceptionGroup) as raised:
        await fleet.start(fleet.connect(incarnation=1), lifeline=None)
    assert raised.group_contains(ClusterDidNotStartError, match=world.cluster)
    assert is_store(world.store)


def is_store(root: str) -> bool:
    return Path(root, ".store").exists()
