"""LocalService: faults of embedded clusters.

Read ``fault_of`` first.
"""

# The methods are named as in the proto.
# ruff: noqa: N802

from broker.model import faults
from broker.model.actor import Actor
from broker.model.names import PLACEMENT_PATTERN
from broker.service import fields
from broker.service.edge import unary
from broker.service.errors import invalid, not_found
from broker.service.ports import Ports
from broker.v1 import local_service_pb2, local_service_pb2_grpc

NODES_MAX = 100_000
FAULT_MAX_S = 1_000_000.0
DELAY_MAX_S = 600.0


class LocalService(local_service_pb2_grpc.LocalServiceServicer):
    """Faults on demand."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    @unary
    async def InjectFault(
        self, request: local_service_pb2.InjectFaultRequest, _: Actor
    ) -> local_service_pb2.InjectFaultResponse:
        """Make an embedded cluster misbehave, or end its faults."""
        region = fields.region_id(request.region, "region")
        if region not in self._ports.world.regions():
            raise not_found(f"regions/{region}")
        done = await self._ports.faults.inject(region, fault_of(request))
        return local_service_pb2.InjectFaultResponse(message=done)


def fault_of(request: local_service_pb2.InjectFaultRequest) -> faults.Fault:
    """Return the fault that is asked for. Raises InvalidArgument."""
    match request.WhichOneof("fault"):
        case "stockout":
            return faults.Stockout(flavor=_flavor(request.stockout.flavor, "stockout.flavor"))
        case "partial":
            nodes = request.partial.nodes
            if not 0 <= nodes <= NODES_MAX:
                raise invalid("partial.nodes", f"is not between 0 and {NODES_MAX}")
            flavor = _flavor(request.partial.flavor, "partial.flavor")
            return faults.PartialArrival(flavor=flavor, nodes=nodes)
        case "preempt":
            return _preemption(request.preempt)
        case "outage":
            if not request.outage.HasField("duration"):
                raise invalid("outage.duration", "is required")
            return faults.Outage(
                duration_s=_bounded(
                    fields.duration_s(request.outage.duration, "outage.duration"),
                    FAULT_MAX_S,
                    "outage.duration",
                )
            )
        case "slow":
            delay_s = fields.duration_s(request.slow.delay, "slow.delay")
            return faults.Slowness(delay_s=_bounded(delay_s, DELAY_MAX_S, "slow.delay"))
        case "restore":
            return faults.Restoration()
        case _:
            raise invalid("fault", "is required")


def _preemption(message: local_service_pb2.Preemption) -> faults.Preemption:
    if bool(message.placement) == bool(message.flavor):
        raise invalid("preempt.placement", "give either a placement or a flavor")
    if message.placement and not PLACEMENT_PATTERN.fullmatch(message.placement):
        raise invalid("preempt.placement", "is not the id of a placement")
    notice_s = None
    if message.HasField("notice"):
        notice_s = fields.duration_s(message.notice, "preempt.notice")
        _bounded(notice_s, FAULT_MAX_S, "preempt.notice")
    return faults.Preemption(
        placement=message.placement,
        flavor=_flavor(message.flavor, "preempt.flavor"),
        notice_s=notice_s,
    )


def _flavor(value: str, field: str) -> str:
    return fields.text(value, field, longest=fields.NAME_MAX)


def _bounded(seconds: float, most: float, field: str) -> float:
    if seconds > most:
        raise invalid(field, f"is longer than {most:.0f} s")
    return seconds
