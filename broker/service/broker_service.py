"""BrokerService: what is running, and how it is doing."""

# The methods are named as in the proto.
# ruff: noqa: N802

from importlib.metadata import PackageNotFoundError, version

from broker.history.regional import unseen_regions
from broker.model.actor import Actor
from broker.model.states import RUN_ENDED, RunState
from broker.service import wire
from broker.service.edge import unary
from broker.service.listing import unreachable
from broker.service.ports import Ports
from broker.store.listing import RunQuery
from broker.v1 import broker_service_pb2, broker_service_pb2_grpc


class BrokerService(broker_service_pb2_grpc.BrokerServiceServicer):
    """The broker itself."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._started = ports.clock.now()

    @unary
    async def GetBroker(
        self, _request: broker_service_pb2.GetBrokerRequest, _: Actor
    ) -> broker_service_pb2.Broker:
        """Say what is running and how it is doing."""
        log, world = self._ports.log, self._ports.world
        state, known = log.broker(), world.regions()
        active = tuple(sorted(set(RunState) - RUN_ENDED))
        page = await log.list_runs(RunQuery(states=active, page_size=1))
        unseen = unseen_regions(state, {r: log.region(r) for r in known}, known)
        warnings = [said for said in (log.trouble(),) if said]
        warnings += [
            f"the {name} fails and is begun again and again; brokerd's log says why"
            for name in self._ports.workings.failing()
        ]
        warnings += [f"{name} does not answer" for name in unreachable(world)]
        warnings += [
            f"regions/{region}: {orphan.message}"
            for region in known
            for orphan in world.orphans(region)
        ]
        return broker_service_pb2.Broker(
            code_version=code_version(),
            incarnation=state.incarnation,
            start_time=wire.timestamp(self._started.wall_s),
            active_runs=page.total,
            unseen_regions=[f"regions/{region}" for region in sorted(unseen)],
            warnings=warnings,
        )


def code_version() -> str:
    """Return the version of the installed code, or a word where it is not installed."""
    try:
        return version("capacity-broker")
    except PackageNotFoundError:
        return "unknown"
