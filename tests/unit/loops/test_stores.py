"""Stores that are wiped, forged or shared: one region is out of use, and the others go on."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from broker.history.commands import AcceptStore
from broker.loops.desk import NewerIncarnationError
from broker.loops.trust import life_name
from broker.model.reasons import Reason
from regions import gatehouse
from regions.launcher import layout
from regions.launcher.store import DirectoryStore
from tests.builders import BROKER
from tests.unit.loops.handheld import Handheld, handheld


async def look(broker: Handheld, root: Path) -> None:
    """Let every cluster show what its store says now, and the broker take it in."""
    await broker.agents.restorer.tick()
    for region, cluster in broker.clusters.items():
        store = DirectoryStore(str(root / region))
        cluster.shown = replace(cluster.shown, claims=gatehouse.read_claims(store))
    await broker.settle()


def wipe(root: Path, region: str) -> None:
    shutil.rmtree(root / region)
    DirectoryStore.create(str(root / region))


def doubts(broker: Handheld) -> dict[str, Reason | None]:
    states = {region: broker.ledger.region(region) for region in broker.clusters}
    return {r: None if s.doubt is None else s.doubt.reason for r, s in states.items()}


def reasons(broker: Handheld, region: str) -> set[Reason]:
    facts = broker.agents.answers.clusters(region)
    return {one.doubt[0] for one in facts if one.doubt is not None}


async def test_a_store_that_was_wiped_while_the_broker_was_away_starts_nothing(
    tmp_path: Path,
) -> None:
    async with handheld(tmp_path, "alpha", "beta") as broker:
        await look(broker, tmp_path)
        names = {broker.ledger.region(region).store for region in ("alpha", "beta")}
        assert len(names - {""}) == 2
    wipe(tmp_path, "alpha")
    async with handheld(tmp_path, "alpha", "beta") as broker:
        await look(broker, tmp_path)
        assert doubts(broker) == {"alpha": Reason.STORE_WIPED, "beta": None}
        assert reasons(broker, "alpha") == {Reason.STORE_WIPED}
        run = await broker.submit()
        await look(broker, tmp_path)
        assert broker.leg(run).site.region == "beta"
        assert not (tmp_path / "alpha" / layout.IDENTITY).exists()


async def test_a_wiped_store_is_used_again_once_a_person_accepts_it(tmp_path: Path) -> None:
    async with handheld(tmp_path, "alpha") as broker:
        await look(broker, tmp_path)
        lost = broker.ledger.region("alpha").store
        wipe(tmp_path, "alpha")
        await look(broker, tmp_path)
        run = await broker.submit()
        await look(broker, tmp_path)
        assert not broker.run(run).placements
        await broker.ledger.handle("regions/alpha", AcceptStore(), BROKER)
        await look(broker, tmp_path)
        assert doubts(broker) == {"alpha": None}
        assert broker.ledger.region("alpha").store not in ("", lost)
        assert broker.leg(run).site.region == "alpha"


async def test_a_store_that_is_claimed_during_a_look_has_lost_nothing(tmp_path: Path) -> None:
    async with handheld(tmp_path, "alpha") as broker:
        cluster = broker.clusters["alpha"]
        nameless = gatehouse.read_claims(DirectoryStore(str(tmp_path / "alpha")))
        cluster.shown = replace(cluster.shown, claims=nameless)
        cluster.meanwhile = broker.agents.restorer.tick
        for observer in broker.agents.observers:
            await observer.tick()
        assert broker.ledger.region("alpha").store
        assert doubts(broker) == {"alpha": None}
        assert reasons(broker, "alpha") == set()


async def test_the_right_store_brought_back_ends_the_doubt_by_itself(tmp_path: Path) -> None:
    async with handheld(tmp_path, "alpha") as broker:
        await look(broker, tmp_path)
        (tmp_path / "alpha").rename(tmp_path / "away")
        DirectoryStore.create(str(tmp_path / "alpha"))
        await look(broker, tmp_path)
        assert doubts(broker) == {"alpha": Reason.STORE_WIPED}
        shutil.rmtree(tmp_path / "alpha")
        (tmp_path / "away").rename(tmp_path / "alpha")
        await look(broker, tmp_path)
        assert doubts(broker) == {"alpha": None}
        assert reasons(broker, "alpha") == set()


async def test_a_run_is_told_that_the_store_of_its_start_is_lost(tmp_path: Path) -> None:
    async with handheld(tmp_path, "alpha") as broker:
        await look(broker, tmp_path)
        run = await broker.submit()
        await look(broker, tmp_path)
        assert broker.run(run).open_epoch is not None
        wipe(tmp_path, "alpha")
        await look(broker, tmp_path)
        assert Reason.STORE_WIPED in {one.reason for one in broker.run(run).warnings}
        assert broker.run(run).open_epoch is not None


async def test_a_forged_life_stops_one_region_and_not_the_broker(tmp_path: Path) -> None:
    async with handheld(tmp_path, "alpha", "beta") as broker:
        await look(broker, tmp_path)
        forged = DirectoryStore(str(tmp_path / "alpha"))
        forged.create_if_absent("incarnations/999999999", b"999999999-0.0-ffff")
        await look(broker, tmp_path)
        assert doubts(broker) == {"alpha": Reason.STORE_NOT_OURS, "beta": None}
        run = await broker.submit()
        await look(broker, tmp_path)
        assert broker.leg(run).site.region == "beta"
        forged.delete("incarnations/999999999")
        await look(broker, tmp_path)
        assert doubts(broker) == {"alpha": None, "beta": None}


async def test_two_brokers_over_one_store_are_told_apart(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    async with handheld(theirs, "alpha") as first:
        await look(first, theirs)
    (tmp_path / "alpha").symlink_to(theirs / "alpha")
    async with handheld(tmp_path, "alpha", "beta", key="another") as second:
        await look(second, tmp_path)
        assert doubts(second) == {"alpha": Reason.STORE_NOT_OURS, "beta": None}


async def test_a_newer_life_of_this_data_stops_the_older_one(tmp_path: Path) -> None:
    async with handheld(tmp_path, "alpha") as broker:
        await look(broker, tmp_path)
        life = replace(broker.ledger.broker(), incarnation=7)
        name = life_name(life, broker.ledger.region("alpha").store)
        assert gatehouse.claim_incarnation(DirectoryStore(str(tmp_path / "alpha")), 7, name)
        with pytest.raises(NewerIncarnationError, match="life 7 of this data is at work"):
            await broker.agents.restorer.tick()
        with pytest.raises(NewerIncarnationError, match="life 7 of this data is at work"):
            await look_only(broker, tmp_path)


async def look_only(broker: Handheld, root: Path) -> None:
    """Look at the clusters, as an observer does between two ticks of the restorer."""
    cluster = broker.clusters["alpha"]
    claims = gatehouse.read_claims(DirectoryStore(str(root / "alpha")))
    cluster.shown = replace(cluster.shown, claims=claims)
    await broker.agents.observers[0].tick()
