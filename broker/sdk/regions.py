"""What can be said about regions, and about the faults of embedded ones.

Regions are named by their ids. Read ``find`` first.
"""

from broker.sdk.calls import Operation, ask, change, read
from broker.v1 import local_service_pb2, region_pb2
from broker.v1 import region_service_pb2 as rs

_REGIONS = "RegionService"
LIST = read(_REGIONS, "ListRegions", rs.ListRegionsRequest, rs.ListRegionsResponse)
GET = read(_REGIONS, "GetRegion", rs.GetRegionRequest, region_pb2.Region)
CHECK = read(_REGIONS, "CheckRegion", rs.CheckRegionRequest, rs.CheckRegionResponse)
GET_POLICY = read(_REGIONS, "GetPolicy", rs.GetPolicyRequest, region_pb2.Policy)
SET_POLICY = change(_REGIONS, "SetPolicy", rs.SetPolicyRequest, region_pb2.Policy)
CORDON = change(_REGIONS, "CordonRegion", rs.CordonRegionRequest, region_pb2.Region)
UNCORDON = change(_REGIONS, "UncordonRegion", rs.UncordonRegionRequest, region_pb2.Region)
DRAIN = change(_REGIONS, "DrainRegion", rs.DrainRegionRequest, region_pb2.Region)
WAIVE = change(_REGIONS, "WaiveRegion", rs.WaiveRegionRequest, region_pb2.Region)
ACCEPT_STORE = change(_REGIONS, "AcceptStore", rs.AcceptStoreRequest, region_pb2.Region)
REMOVE_ORPHAN = change(_REGIONS, "RemoveOrphan", rs.RemoveOrphanRequest, region_pb2.Region)
INJECT = change(
    "LocalService",
    "InjectFault",
    local_service_pb2.InjectFaultRequest,
    local_service_pb2.InjectFaultResponse,
)


def find() -> Operation[rs.ListRegionsResponse]:
    """Return all regions with their clusters as last seen, all pages as one."""
    found = rs.ListRegionsResponse()
    request = rs.ListRegionsRequest()
    while True:
        page = yield from ask(LIST, request)
        found.regions.extend(page.regions)
        found.unreachable.extend(page.unreachable)
        request.page_token = page.next_page_token
        if not page.next_page_token:
            return found


def get(region: str) -> Operation[region_pb2.Region]:
    """Return one region with its clusters as last seen."""
    return (yield from ask(GET, rs.GetRegionRequest(name=f"regions/{region}")))


def check(region: str) -> Operation[rs.CheckRegionResponse]:
    """Ask a region's clusters whether all that the broker needs is there."""
    return (yield from ask(CHECK, rs.CheckRegionRequest(name=f"regions/{region}")))


def policy(region: str) -> Operation[region_pb2.Policy]:
    """Return a region's policy, its defaults filled in."""
    return (yield from ask(GET_POLICY, rs.GetPolicyRequest(name=f"regions/{region}/policy")))


def set_policy(region: str, policy: region_pb2.Policy) -> Operation[region_pb2.Policy]:
    """Replace a region's policy. Raises Conflict when its etag is not the present one."""
    request = rs.SetPolicyRequest(policy=policy)
    request.policy.name = f"regions/{region}/policy"
    return (yield from ask(SET_POLICY, request))


def cordon(region: str, *, message: str = "") -> Operation[region_pb2.Region]:
    """Send nothing new to a region."""
    request = rs.CordonRegionRequest(name=f"regions/{region}", message=message)
    return (yield from ask(CORDON, request))


def uncordon(region: str) -> Operation[region_pb2.Region]:
    """End a cordon or a drain."""
    return (yield from ask(UNCORDON, rs.UncordonRegionRequest(name=f"regions/{region}")))


def drain(
    region: str, *, message: str = "", grace_s: float | None = None
) -> Operation[region_pb2.Region]:
    """Ask all that trains in a region to save and leave. ``grace_s`` None: as its policy says."""
    request = rs.DrainRegionRequest(name=f"regions/{region}", message=message)
    if grace_s is not None:
        request.grace_period.FromMilliseconds(round(grace_s * 1000))
    return (yield from ask(DRAIN, request))


def waive(region: str) -> Operation[region_pb2.Region]:
    """Let a restored broker go on without having seen the region."""
    return (yield from ask(WAIVE, rs.WaiveRegionRequest(name=f"regions/{region}")))


def accept_store(region: str) -> Operation[region_pb2.Region]:
    """Go on with what answers as a region's store, in the place of one that is lost."""
    return (yield from ask(ACCEPT_STORE, rs.AcceptStoreRequest(name=f"regions/{region}")))


def remove_orphan(region: str, cluster: str, object_: str) -> Operation[region_pb2.Region]:
    """Remove what carries this broker's mark and belongs to no run."""
    request = rs.RemoveOrphanRequest(name=f"regions/{region}", cluster=cluster, object=object_)
    return (yield from ask(REMOVE_ORPHAN, request))


def inject(fault: local_service_pb2.InjectFaultRequest) -> Operation[str]:
    """Make an embedded cluster misbehave; return what was done, in a sentence."""
    answer = yield from ask(INJECT, fault)
    return answer.message
