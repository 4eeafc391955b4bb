"""BrokerService: what is running, and how it is doing."""

# The methods are named as in the proto.
# ruff: noqa: N802

from importlib.metadata import PackageNotFoundError, version

from broker.history.regional import unseen_regions
from broker.model.actor import Actor
from broker.model.states import RUN_ENDED, RunState
from broker.service import wire
from broker.service.caller import caller, is_operator, only_team
from broker.service.door import Door
from broker.service.edge import unary
from broker.service.listing import unreachable
from broker.service.ports import Ports
from broker.store.listing import RunQuery
from broker.v1 import broker_service_pb2, broker_service_pb2_grpc


class BrokerService(broker_service_pb2_grpc.BrokerServiceServicer):
    """The broker itself."""

    def __init__(self, ports: Ports, door: Door | None) -> None:
        self._ports = ports
        self._door = door
        self._started = ports.clock.now()

    @unary
    async def GetBroker(
        self, _request: broker_service_pb2.GetBrokerRequest, _: Actor
    ) -> broker_service_pb2.Broker:
        """Say what is running and how it is doing."""
        log, world = self._ports.log, self._ports.world
        state, known = log.broker(), world.regions()
        active = tuple(sorted(set(RunState) - RUN_ENDED))
        page = await log.list_runs(RunQuery(team=only_team(), states=active, page_size=1))
        unseen = unseen_regions(state, {r: log.region(r) for r in known}, known)
        warnings = [said for said in (log.trouble(),) if said]
        warnings += [
            f"the {name} fails and is begun again and again; brokerd's log says why"
            for name in self._ports.workings.failing()
        ]
        warnings += self._ports.workings.troubles()
        warnings += [f"{name} does not answer" for name in unreachable(world)]
        if is_operator():
            warnings += [] if self._door is None else self._door.troubles()
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
            caller=_caller_message(),
        )


def _caller_message() -> broker_service_pb2.Caller | None:
    token = caller()
    if token is None:
        return None
    message = broker_service_pb2.Caller(
        actor=token.actor, team=f"teams/{token.team}", role=token.role.value
    )
    if token.expires_s is not None:
        message.expire_time.CopyFrom(wire.timestamp(token.expires_s))
    return message


def code_version() -> str:
    """Return the version of the installed code, or a word where it is not installed."""
    try:
        return version("capacity-broker")
    except PackageNotFoundError:
        return "unknown"
