"""Regions, policies, teams, faults and the broker itself, over the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from operator import itemgetter
from typing import Any

import grpc
import pytest
from google.protobuf import duration_pb2

from broker.model import faults
from broker.model.capacity import FlavorKey, Signal, SignalKind
from broker.model.check import ClusterCheck
from broker.model.image import ImageOnItsWay, RegionRegistry
from broker.model.intent import CapacityType
from broker.model.policy import RegionPolicy
from broker.model.sightings import Orphan
from broker.placement.outlook import outlook
from broker.runtime.failures import LASTS_S
from broker.service.convert_region import (
    DURATION_BOUNDS_S,
    PATIENCE,
    POLICY_DURATION_MAX_S,
    policy_message,
    policy_of,
)
from broker.service.errors import InvalidArgument
from broker.v1 import (
    broker_service_pb2,
    local_service_pb2,
    region_pb2,
    region_service_pb2,
    team_pb2,
    team_service_pb2,
)
from regions.launcher.settings import read_settings
from tests.service.rig import Refusal, Rig, refusal_of, refused

INVALID = grpc.StatusCode.INVALID_ARGUMENT
InjectFault = local_service_pb2.InjectFaultRequest


async def test_regions_show_their_clusters_as_last_seen(rig: Rig) -> None:
    rig.silence("beta")
    rig.loops.strangers.append(
        Orphan(cluster="gamma", object="job/x", message="not in the log", since_wall_s=5.0)
    )
    page = await rig.regions.ListRegions(region_service_pb2.ListRegionsRequest(page_size=2))
    assert [region.name for region in page.regions] == ["regions/alpha", "regions/beta"]
    assert list(page.unreachable) == ["regions/beta"]
    flavor = page.regions[0].clusters[0].flavors[0]
    assert (flavor.flavor, flavor.nodes_free, flavor.price_per_gpu_hour.units) == ("spot", 4, 2)
    assert flavor.HasField("nominal")
    assert page.regions[1].clusters[0].HasField("silent_time")
    request = region_service_pb2.ListRegionsRequest(page_token=page.next_page_token)
    rest = await rig.regions.ListRegions(request)
    assert [region.name for region in rest.regions] == ["regions/gamma"]
    assert rest.regions[0].clusters[0].orphans[0].object == "job/x"
    assert rest.regions[0].store == "gs://of-gamma/broker"


async def test_what_a_regions_clusters_say_of_themselves_is_passed_on(rig: Rig) -> None:
    missing = ClusterCheck(
        cluster="alpha", subject="rights", is_well=False, message="none", remedy="grant them"
    )
    rig.loops.checks = (missing, replace(missing, cluster="beta", is_well=True, remedy=""))
    request = region_service_pb2.CheckRegionRequest(name="regions/alpha")
    (check,) = (await rig.regions.CheckRegion(request)).checks
    assert check == region_service_pb2.RegionCheck(
        cluster="alpha", subject="rights", well=False, message="none", remedy="grant them"
    )
    request.name = "regions/delta"
    missed = await refused(rig.regions.CheckRegion(request))
    assert missed == Refusal(grpc.StatusCode.NOT_FOUND, "NOT_FOUND")


async def test_a_region_is_cordoned_drained_and_opened_again(rig: Rig) -> None:
    name = "regions/alpha"
    cordoned = await rig.regions.CordonRegion(
        region_service_pb2.CordonRegionRequest(name=name, message="upgrade")
    )
    assert (cordoned.state, cordoned.message) == (region_pb2.REGION_STATE_CORDONED, "upgrade")
    drained = await rig.regions.DrainRegion(
        region_service_pb2.DrainRegionRequest(
            name=name, message="fire", grace_period=duration_pb2.Duration(seconds=5)
        )
    )
    assert (drained.state, drained.message) == (region_pb2.REGION_STATE_DRAINING, "fire")
    drain = rig.log.region("alpha").drain
    assert drain is not None
    assert drain.grace_s == 5.0
    opened = await rig.regions.UncordonRegion(region_service_pb2.UncordonRegionRequest(name=name))
    assert opened.state == region_pb2.REGION_STATE_OPEN
    gone = region_service_pb2.UncordonRegionRequest(name="regions/nowhere")
    assert (await refused(rig.regions.UncordonRegion(gone))).reason == "NOT_FOUND"


async def test_a_policy_is_set_with_its_etag_and_read_back(rig: Rig) -> None:
    get = region_service_pb2.GetPolicyRequest(name="regions/alpha/policy")
    policy = await rig.regions.GetPolicy(get)
    assert (policy.hedge_width, policy.patience.quota.seconds, policy.etag) == (2, 600, "1")
    policy.hedge_width = 3
    policy.patience.partial.FromSeconds(7)
    policy.price_caps.add(capacity_type=3).price_per_gpu_hour.units = 4
    changed = await rig.regions.SetPolicy(region_service_pb2.SetPolicyRequest(policy=policy))
    assert (changed.hedge_width, changed.patience.partial.seconds, changed.etag) == (3, 7, "2")
    assert await rig.regions.GetPolicy(get) == changed
    policy.weight = 2.0
    stale = region_service_pb2.SetPolicyRequest(policy=policy)
    assert (await refused(rig.regions.SetPolicy(stale))).code is grpc.StatusCode.ABORTED
    policy.weight = float("nan")
    assert await refused(
        rig.regions.SetPolicy(region_service_pb2.SetPolicyRequest(policy=policy))
    ) == Refusal(INVALID, "INVALID_FIELD", ("policy.weight",))


async def test_every_field_of_a_policy_that_is_wrong_is_told_at_once(rig: Rig) -> None:
    get = region_service_pb2.GetPolicyRequest(name="regions/alpha/policy")
    policy = await rig.regions.GetPolicy(get)
    policy.weight = -1.0
    policy.hedge_width = 99
    policy.gate_timeout.FromSeconds(0)
    policy.patience.verdict.seconds = -1
    assert await refused(
        rig.regions.SetPolicy(region_service_pb2.SetPolicyRequest(policy=policy))
    ) == Refusal(
        INVALID,
        "INVALID_FIELD",
        (
            "policy.weight",
            "policy.hedge_width",
            "policy.patience.verdict",
            "policy.gate_timeout",
        ),
    )
    policy.price_caps.add()  # a cap of nothing; what comes after it cannot be told yet
    found = await refused(rig.regions.SetPolicy(region_service_pb2.SetPolicyRequest(policy=policy)))
    assert found.fields[:3] == (
        "policy.weight",
        "policy.hedge_width",
        "policy.price_caps[0].capacity_type",
    )


DURATIONS = (
    *("gate_timeout", "fence_grace", "drain_grace", "replace_unreachable_after"),
    *(f"patience.{name}" for name in PATIENCE),
)


def with_durations(chosen: Callable[[tuple[float, float]], float], *names: str) -> Any:
    """Return a policy that says its least, or its most, or anything else, for these durations."""
    message = region_pb2.Policy()
    for name in names:
        within = message.patience if name.startswith("patience.") else message
        seconds = chosen(DURATION_BOUNDS_S.get(name, (0.0, POLICY_DURATION_MAX_S)))
        getattr(within, name.removeprefix("patience.")).FromNanoseconds(round(seconds * 1e9))
    return message


@pytest.mark.parametrize("name", DURATIONS)
@pytest.mark.parametrize("outside", [lambda ends: ends[0] - 0.5, lambda ends: ends[1] + 1.0])
def test_a_duration_that_nobody_can_keep_is_refused(
    name: str, outside: Callable[[tuple[float, float]], float]
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        policy_of(with_durations(outside, name))
    assert [one.field for one in caught.value.violations] == [f"policy.{name}"]


def test_the_ends_of_what_a_policy_may_say_can_be_kept() -> None:
    for end in (0, 1):
        policy = policy_of(with_durations(itemgetter(end), *DURATIONS))
        read_settings(
            {
                "WORLD_SIZE": "1",
                "RANK": "0",
                "BROKER_STORE": "/store",
                "BROKER_RUN_KEY": "run",
                "BROKER_PLACEMENT": "p1",
                "BROKER_WORK_DIR": "/work",
                "BROKER_GATE_TIMEOUT_S": f"{policy.gate_timeout_s:g}",
                "BROKER_GRACE_S": f"{max(0.01, policy.fence_grace_s):g}",
            },
            ("true",),
        )
        found = [
            Signal(
                key=FlavorKey(cluster="c", queue="q", flavor="f"),
                kind=SignalKind.STOCKOUT,
                elapsed_s=seen_s,
                source="c",
            )
            for seen_s in (0.0, 1e6)
        ]
        half_life_s = policy.patience.stockout_half_life_s
        at_most = outlook(found, CapacityType.SPOT, 1e6, gpus=8, half_life_s=half_life_s)
        assert at_most.chance <= 1.0


STALE = Refusal(grpc.StatusCode.ABORTED, "ETAG_MISMATCH")


async def outcome(call: Awaitable[Any]) -> Any:
    """Return the answer, or the refusal without its field, which each names its own way."""
    try:
        return await call
    except grpc.RpcError as error:
        return replace(refusal_of(error), fields=())


async def test_of_many_policies_with_one_etag_one_wins(rig: Rig) -> None:
    get = region_service_pb2.GetPolicyRequest(name="regions/alpha/policy")
    before = await rig.regions.GetPolicy(get)

    def wish(width: int) -> region_service_pb2.SetPolicyRequest:
        request = region_service_pb2.SetPolicyRequest(policy=before)
        request.policy.hedge_width = width
        return request

    found = await asyncio.gather(
        *(outcome(rig.regions.SetPolicy(wish(width))) for width in range(3, 9))
    )
    assert [one for one in found if one != STALE] == [await rig.regions.GetPolicy(get)]
    assert rig.log.region("alpha").policy.hedge_width in range(3, 9)


async def test_of_many_caps_with_one_etag_one_wins(rig: Rig) -> None:
    get = team_service_pb2.GetTeamRequest(name="teams/vision")
    before = await rig.teams.GetTeam(get)
    found = await asyncio.gather(
        *(
            outcome(
                rig.teams.SetTeamCaps(
                    team_service_pb2.SetTeamCapsRequest(
                        name=before.name,
                        caps=team_pb2.TeamCaps(running_gpus=gpus),
                        etag=before.etag,
                    )
                )
            )
            for gpus in range(1, 7)
        )
    )
    assert [one for one in found if one != STALE] == [await rig.teams.GetTeam(get)]


def test_a_policy_that_says_nothing_is_the_default_one() -> None:
    assert policy_of(region_pb2.Policy()) == RegionPolicy()


async def test_a_policy_survives_the_wire(rig: Rig) -> None:
    assert policy_of(policy_message(rig.log.region("alpha"))) == RegionPolicy()


async def test_a_teams_caps_are_set_with_their_etag(rig: Rig) -> None:
    team = await rig.teams.GetTeam(team_service_pb2.GetTeamRequest(name="teams/vision"))
    assert not team.caps.HasField("running_gpus")
    request = team_service_pb2.SetTeamCapsRequest(
        name="teams/vision", caps=team_pb2.TeamCaps(running_gpus=16), etag=team.etag
    )
    changed = await rig.teams.SetTeamCaps(request)
    assert (changed.caps.running_gpus, changed.caps.HasField("gate_gpus")) == (16, False)
    listed = await rig.teams.ListTeams(team_service_pb2.ListTeamsRequest())
    assert list(listed.teams) == [changed]
    request.caps.running_gpus = 17
    assert (await refused(rig.teams.SetTeamCaps(request))).reason == "ETAG_MISMATCH"
    request.caps.running_gpus = -1
    assert (await refused(rig.teams.SetTeamCaps(request))).fields == ("caps.running_gpus",)


@pytest.mark.parametrize(
    ("request_", "fault"),
    [
        (
            InjectFault(stockout=local_service_pb2.Stockout(flavor="spot")),
            faults.Stockout(flavor="spot"),
        ),
        (
            InjectFault(partial=local_service_pb2.PartialArrival(nodes=5)),
            faults.PartialArrival(flavor="", nodes=5),
        ),
        (
            InjectFault(
                preempt=local_service_pb2.Preemption(
                    flavor="spot", notice=duration_pb2.Duration(seconds=30)
                )
            ),
            faults.Preemption(placement="", flavor="spot", notice_s=30.0),
        ),
        (
            InjectFault(outage=local_service_pb2.Outage(duration=duration_pb2.Duration(seconds=9))),
            faults.Outage(duration_s=9.0),
        ),
        (
            InjectFault(
                slow=local_service_pb2.Slowness(delay=duration_pb2.Duration(nanos=500_000_000))
            ),
            faults.Slowness(delay_s=0.5),
        ),
        (InjectFault(restore=local_service_pb2.Restoration()), faults.Restoration()),
    ],
)
async def test_a_fault_is_passed_on(
    rig: Rig, request_: local_service_pb2.InjectFaultRequest, fault: faults.Fault
) -> None:
    request_.region = "regions/alpha"
    answer = await rig.local.InjectFault(request_)
    assert rig.loops.faults == [("alpha", fault)]
    assert answer.message


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (InjectFault(), "fault"),
        (InjectFault(preempt=local_service_pb2.Preemption()), "preempt.placement"),
        (InjectFault(outage=local_service_pb2.Outage()), "outage.duration"),
        (InjectFault(partial=local_service_pb2.PartialArrival(nodes=-1)), "partial.nodes"),
    ],
)
async def test_a_fault_that_cannot_be_is_refused(
    rig: Rig, request_: local_service_pb2.InjectFaultRequest, field: str
) -> None:
    request_.region = "regions/alpha"
    assert (await refused(rig.local.InjectFault(request_))).fields == (field,)
    assert rig.loops.faults == []


async def test_the_broker_says_how_it_is_doing(rig: Rig) -> None:
    await rig.submit()
    rig.silence("gamma")
    broker = await rig.broker.GetBroker(broker_service_pb2.GetBrokerRequest())
    assert (broker.active_runs, list(broker.warnings)) == (1, ["regions/gamma does not answer"])
    assert broker.HasField("start_time")


async def test_the_broker_says_what_of_it_fails_and_no_longer_than_it_does(rig: Rig) -> None:
    get = broker_service_pb2.GetBrokerRequest()
    rig.failures.note("placer")
    told = "the placer fails and is begun again and again; brokerd's log says why"
    assert list((await rig.broker.GetBroker(get)).warnings) == [told]
    rig.readings.wait(LASTS_S - 1.0)
    rig.failures.note("placer")
    rig.readings.wait(LASTS_S - 1.0)
    assert list((await rig.broker.GetBroker(get)).warnings) == [told]
    rig.readings.wait(1.0)
    assert list((await rig.broker.GetBroker(get)).warnings) == []


async def test_a_region_tells_where_its_images_are_pulled_from(rig: Rig) -> None:
    rig.loops.registries["alpha"] = RegionRegistry(
        prefix="r.example/team", login="google", upload="whole", pull_bytes_per_s=1e8
    )
    alpha, beta = [
        await rig.regions.GetRegion(region_service_pb2.GetRegionRequest(name=f"regions/{one}"))
        for one in ("alpha", "beta")
    ]
    assert alpha.registry == region_pb2.ImageRegistry(
        prefix="r.example/team", login="google", upload="whole", pull_bytes_per_second=100_000_000
    )
    assert not beta.HasField("registry")


async def test_images_on_their_way_are_told_with_how_far_they_are(rig: Rig) -> None:
    name = f"r.example/team/llm@sha256:{'a' * 64}"
    rig.loops.on_their_way["alpha"] = (ImageOnItsWay(name=name, done_bytes=3, size_bytes=10),)
    request = region_service_pb2.GetRegionRequest(name="regions/alpha")
    (told,) = (await rig.regions.GetRegion(request)).image_copies
    assert told == region_pb2.ImageCopy(image=name, done_bytes=3, size_bytes=10)
