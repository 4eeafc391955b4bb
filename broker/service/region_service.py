"""RegionService: what is known of regions, and what ops say of them.

Read ``RegionService.SetPolicy`` first.
"""

# The methods are named as in the proto.
# ruff: noqa: N802

from dataclasses import replace

from broker.history.commands import (
    AcceptStore,
    CordonRegion,
    DrainRegion,
    RegionCommand,
    RemoveOrphan,
    SetPolicy,
    UncordonRegion,
    WaiveRegion,
)
from broker.model.actor import Actor, ActorKind
from broker.model.capacity_seen import CapacitySeen
from broker.service import fields
from broker.service.caller import is_operator
from broker.service.convert_region import policy_message, policy_of, region_message
from broker.service.edge import unary
from broker.service.errors import InvalidArgument, invalid, not_found
from broker.service.gathering import whole_refusal
from broker.service.listing import unreachable
from broker.service.pages import cursor_of, token_of
from broker.service.ports import Ports
from broker.v1 import region_pb2, region_service_pb2, region_service_pb2_grpc

REGIONS_DEFAULT, REGIONS_MAX = 100, 1_000
GRACE_MAX_S = 86_400.0


class RegionService(region_service_pb2_grpc.RegionServiceServicer):
    """Regions and their policies."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    @unary
    async def ListRegions(
        self, request: region_service_pb2.ListRegionsRequest, _: Actor
    ) -> region_service_pb2.ListRegionsResponse:
        """Return one page of regions."""
        size = fields.page_size(request.page_size, default=REGIONS_DEFAULT, largest=REGIONS_MAX)
        cursor = cursor_of(request.page_token, (str,), "regions")
        known = sorted(self._ports.world.regions())
        beyond = [region for region in known if cursor is None or region > str(cursor[0])]
        page = beyond[:size]
        silent = set(unreachable(self._ports.world))
        return region_service_pb2.ListRegionsResponse(
            regions=[self._message(region) for region in page],
            next_page_token=token_of((page[-1],) if len(beyond) > size else None, "regions"),
            unreachable=[name for name in (f"regions/{r}" for r in page) if name in silent],
        )

    @unary
    async def GetRegion(
        self, request: region_service_pb2.GetRegionRequest, _: Actor
    ) -> region_pb2.Region:
        """Return one region."""
        return self._message(self._known(request.name))

    @unary
    async def CheckRegion(
        self, request: region_service_pb2.CheckRegionRequest, _: Actor
    ) -> region_service_pb2.CheckRegionResponse:
        """Ask the clusters of one region."""
        checks = await self._ports.checks.check(self._known(request.name))
        return region_service_pb2.CheckRegionResponse(
            checks=[
                region_service_pb2.RegionCheck(
                    cluster=each.cluster,
                    subject=each.subject,
                    well=each.is_well,
                    message=each.message,
                    remedy=each.remedy,
                )
                for each in checks
            ]
        )

    @unary
    async def GetPolicy(
        self, request: region_service_pb2.GetPolicyRequest, _: Actor
    ) -> region_pb2.Policy:
        """Return a region's policy."""
        return policy_message(self._ports.log.region(self._known(request.name, ending="policy")))

    @unary
    async def SetPolicy(
        self, request: region_service_pb2.SetPolicyRequest, actor: Actor
    ) -> region_pb2.Policy:
        """Replace a region's policy."""
        if not request.HasField("policy"):
            raise invalid("policy", "is required")
        region = self._known(request.policy.name, "policy.name", ending="policy")
        generation = fields.generation(request.policy.etag, "policy.etag")
        try:
            policy = policy_of(request.policy)
        except InvalidArgument as first:
            raise whole_refusal(request.policy, "policy", convert=policy_of) from first
        command = SetPolicy(policy=policy, expected_generation=generation)
        await self._handle(region, command, actor)
        return policy_message(self._ports.log.region(region))

    @unary
    async def CordonRegion(
        self, request: region_service_pb2.CordonRegionRequest, actor: Actor
    ) -> region_pb2.Region:
        """Send nothing new there."""
        message = fields.sentence(request.message, "message")
        return await self._change(request.name, CordonRegion(message=message), actor)

    @unary
    async def UncordonRegion(
        self, request: region_service_pb2.UncordonRegionRequest, actor: Actor
    ) -> region_pb2.Region:
        """End a cordon or a drain."""
        return await self._change(request.name, UncordonRegion(), actor)

    @unary
    async def DrainRegion(
        self, request: region_service_pb2.DrainRegionRequest, actor: Actor
    ) -> region_pb2.Region:
        """Ask what runs there to leave."""
        region = self._known(request.name)
        grace_s = self._ports.log.region(region).policy.drain_s
        if request.HasField("grace_period"):
            grace_s = fields.duration_s(request.grace_period, "grace_period")
        if grace_s > GRACE_MAX_S:
            raise invalid("grace_period", f"is longer than {GRACE_MAX_S:.0f} s")
        message = fields.sentence(request.message, "message")
        command = DrainRegion(message=message, grace_s=grace_s)
        return await self._change(request.name, command, actor)

    @unary
    async def WaiveRegion(
        self, request: region_service_pb2.WaiveRegionRequest, actor: Actor
    ) -> region_pb2.Region:
        """Go on after a restore without having seen it."""
        return await self._change(request.name, WaiveRegion(), actor)

    @unary
    async def AcceptStore(
        self, request: region_service_pb2.AcceptStoreRequest, actor: Actor
    ) -> region_pb2.Region:
        """Go on with another store in the place of a lost one."""
        return await self._change(request.name, AcceptStore(), actor)

    @unary
    async def RemoveOrphan(
        self, request: region_service_pb2.RemoveOrphanRequest, actor: Actor
    ) -> region_pb2.Region:
        """Remove what is ours and of no run."""
        for field in ("cluster", "object"):
            if not getattr(request, field):
                raise invalid(field, "is required")
        command = RemoveOrphan(cluster=request.cluster, object=request.object)
        return await self._change(request.name, command, actor)

    async def _change(self, name: str, command: RegionCommand, actor: Actor) -> region_pb2.Region:
        region = self._known(name)
        await self._handle(region, command, actor)
        return self._message(region)

    async def _handle(self, region: str, command: RegionCommand, actor: Actor) -> None:
        ops = replace(actor, kind=ActorKind.OPS)
        await self._ports.log.handle(f"regions/{region}", command, ops)

    def _known(self, name: str, field: str = "name", *, ending: str = "") -> str:
        region = fields.region_id(name, field, ending=ending)
        if region not in self._ports.world.regions():
            raise not_found(f"regions/{region}")
        return region

    def _message(self, region: str) -> region_pb2.Region:
        world = self._ports.world
        clusters = world.clusters(region)
        return region_message(
            self._ports.log.region(region),
            clusters,
            # What is of no run may carry the name of one that is another team's.
            world.orphans(region) if is_operator() else (),
            {one.cluster: self._capacity(one.cluster) for one in clusters},
            self._ports.clock.now(),
            store=world.store(region),
            registry=world.registry(region),
            # What another team runs is not told to who may not see its runs.
            copies=world.images_on_their_way(region) if is_operator() else (),
        )

    def _capacity(self, cluster: str) -> CapacitySeen:
        """Return what is known of capacity, the clusters' own words for operators alone.

        They name pods and workloads, whosever those are.
        """
        found = self._ports.world.capacity(cluster)
        if is_operator():
            return found
        signals = tuple(replace(signal, detail="") for signal in found.signals)
        known = tuple(replace(one, words="") if one.is_of_gang else one for one in found.known)
        return replace(found, signals=signals, known=known, notes=())
