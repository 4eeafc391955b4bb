"""What each caller is shown of lists, regions and the broker: what it may see, and no more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.model.capacity import FlavorKey
from broker.model.capacity_seen import CapacitySeen, HeardSignal, KnownThing
from broker.model.sightings import Orphan
from broker.v1 import (
    broker_service_pb2,
    region_service_pb2,
    run_service_pb2,
    team_service_pb2,
)
from tests.service.outward import ALL, ANN, EVE, OLA, VIC, Outward, outward
from tests.service.rig import make_request


@pytest.fixture
async def out(tmp_path: Path) -> AsyncIterator[Outward]:
    async with outward(tmp_path) as found:
        yield found


async def test_what_is_listed_is_what_one_may_see(out: Outward) -> None:
    await out.rig.submit("one")
    other = make_request(run_id="two")
    other.parent = "teams/speech"
    await out.rig.runs.SubmitRun(other, timeout=10)
    caps = team_service_pb2.SetTeamCapsRequest(etag="1")
    for team in ("vision", "speech"):
        caps.name = f"teams/{team}"
        caps.caps.running_gpus = 8
        await out.rig.teams.SetTeamCaps(caps)
    sees: dict[str, tuple[Any, ...]] = {}
    for who in ALL:
        async with out.calling(who) as stubs:
            runs = await stubs.runs.ListRuns(run_service_pb2.ListRunsRequest(parent="teams/-"))
            teams = await stubs.teams.ListTeams(team_service_pb2.ListTeamsRequest(page_size=1))
            broker = await stubs.broker.GetBroker(broker_service_pb2.GetBrokerRequest())
        sees[who.token.actor] = (
            sorted(run.name.split("/")[1] for run in runs.runs),
            runs.total_size,
            [team.name for team in teams.teams],
            bool(teams.next_page_token),
            broker.active_runs,
        )
    vision, both = (["vision"], 1, ["teams/vision"], False, 1), ["speech", "vision"]
    assert sees["ann"] == sees["vic"] == vision
    assert sees["bob"] == (["speech"], 1, ["teams/speech"], False, 1)
    assert sees["eve"] == sees["ola"] == (both, 2, ["teams/speech"], True, 2)


async def test_a_page_goes_on_for_who_sees_a_part(out: Outward) -> None:
    for number in range(3):
        await out.rig.submit(f"run-{number}")
    request = run_service_pb2.ListRunsRequest(parent="teams/-", page_size=2)
    async with out.calling(VIC) as stubs:
        first = await stubs.runs.ListRuns(request)
        request.page_token = first.next_page_token
        second = await stubs.runs.ListRuns(request)
    assert len({run.name for run in (*first.runs, *second.runs)}) == 3


async def test_orphans_are_for_operators(out: Outward) -> None:
    out.rig.loops.strangers.append(
        Orphan(
            cluster="alpha", object="speech-secret-run", message="is of no run", since_wall_s=0.0
        )
    )
    for who, count in ((VIC, 0), (ANN, 0), (EVE, 0), (OLA, 1)):
        async with out.calling(who) as stubs:
            regions = await stubs.regions.ListRegions(region_service_pb2.ListRegionsRequest())
            broker = await stubs.broker.GetBroker(broker_service_pb2.GetBrokerRequest())
        found = [o for region in regions.regions for c in region.clusters for o in c.orphans]
        assert (len(found), len(broker.warnings)) == (count, count), who.token.actor


async def test_a_clusters_own_words_are_for_operators(
    out: Outward,
) -> None:
    signal = HeardSignal(
        key=FlavorKey(cluster="alpha", queue="research", flavor="spot"),
        kind="STOCKOUT",
        count=3,
        elapsed_s=0.0,
        source="GKE",
        detail="pod speech-secret-run did not trigger scale-up",
        gpus=8,
        wait_s=None,
        is_unknown=False,
    )
    asked = KnownThing(
        key=signal.key,
        what="Accepted",
        words="speech-secret-run was queued",
        source="ProvisioningRequest",
        elapsed_s=0.0,
        is_of_gang=True,
    )
    quota = replace(asked, what="GPU quota", words="8 free", source="Google", is_of_gang=False)
    notes = ("speech-secret-run is not ours",)
    out.rig.loops.capacities["alpha"] = CapacitySeen(
        signals=(signal,), known=(asked, quota), notes=notes
    )
    request = region_service_pb2.GetRegionRequest(name="regions/alpha")
    for who in ALL:
        async with out.calling(who) as stubs:
            region = await stubs.regions.GetRegion(request)
        assert [one.kind for one in region.clusters[0].signals] == ["STOCKOUT"]
        assert [one.subject for one in region.clusters[0].known] == ["Accepted", "GPU quota"]
        assert region.clusters[0].known[1].message == "8 free"
        assert ("secret" in str(region)) == (who is OLA)
