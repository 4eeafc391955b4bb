"""Lists: runs, checkpoints, timelines; a page at a time.

Read ``list_runs`` first.
"""

from dataclasses import replace

from broker.model import billing
from broker.model.names import placement_name
from broker.model.run import Run
from broker.service import enums, fields, wire
from broker.service.convert_event import event_message
from broker.service.convert_run import (
    checkpoint_message,
    paid_time_message,
    phase_costs_message,
    phases_message,
    place_message,
    refused_message,
    spending_message,
)
from broker.service.filters import query_of
from broker.service.pages import cursor_of, token_of
from broker.service.ports import Ports, World
from broker.service.showing import shown
from broker.service.wire import Axis
from broker.v1 import run_service_pb2

RUNS_DEFAULT, RUNS_MAX = 50, 500
EVENTS_DEFAULT, EVENTS_MAX = 200, 1_000
CHECKPOINTS_DEFAULT, CHECKPOINTS_MAX = 100, 1_000


async def list_runs(
    ports: Ports, request: run_service_pb2.ListRunsRequest
) -> run_service_pb2.ListRunsResponse:
    """Return one page of runs."""
    team = fields.team_id(request.parent, may_be_all=True)
    size = fields.page_size(request.page_size, default=RUNS_DEFAULT, largest=RUNS_MAX)
    query = query_of(team, request.filter, request.order_by, size)
    bound = (request.parent, request.filter, request.order_by)
    cursor = cursor_of(request.page_token, (float, str), *bound)
    if cursor is not None:
        query = replace(query, after=(float(cursor[0]), str(cursor[1])))
    page = await ports.log.list_runs(query)
    runs = (ports.log.run(name) for name in page.names)
    return run_service_pb2.ListRunsResponse(
        runs=[shown(ports, run, is_whole=False) for run in runs if run is not None],
        next_page_token=token_of(page.next_after, *bound),
        unreachable=unreachable(ports.world),
        total_size=page.total,
    )


def unreachable(world: World) -> list[str]:
    """Return the names of regions with a cluster or a store that does not answer."""
    return [
        f"regions/{region}"
        for region in world.regions()
        if not all(c.is_reachable and c.is_store_reachable for c in world.clusters(region))
    ]


def list_checkpoints(
    run: Run, request: run_service_pb2.ListCheckpointsRequest
) -> run_service_pb2.ListCheckpointsResponse:
    """Return one page of a run's checkpoints, newest first."""
    size = fields.page_size(request.page_size, default=CHECKPOINTS_DEFAULT, largest=CHECKPOINTS_MAX)
    cursor = cursor_of(request.page_token, (int, str, int), request.parent)
    keyed = sorted(
        ((c.ref.epoch.number, c.ref.epoch.nonce, c.ref.step), c) for c in run.checkpoints
    )
    keyed.reverse()
    beyond = [(key, c) for key, c in keyed if cursor is None or key < cursor]
    page = beyond[:size]
    return run_service_pb2.ListCheckpointsResponse(
        checkpoints=[checkpoint_message(run, c) for _, c in page],
        next_page_token=token_of(page[-1][0] if len(beyond) > size else None, request.parent),
        refused=[refused_message(one) for one in reversed(run.refused)] if cursor is None else [],
    )


async def timeline(
    ports: Ports, run: Run, request: run_service_pb2.GetTimelineRequest
) -> run_service_pb2.GetTimelineResponse:
    """Return one page of what happened, and on the first what it went to."""
    size = fields.page_size(request.page_size, default=EVENTS_DEFAULT, largest=EVENTS_MAX)
    cursor = cursor_of(request.page_token, (int,), request.name)
    after = int(cursor[0]) if cursor is not None else 0
    found = await ports.log.read(run.name, after, size + 1)
    page, now = found[:size], ports.clock.now()
    message = run_service_pb2.GetTimelineResponse(
        events=[event_message(recorded) for recorded in page],
        next_page_token=token_of(
            (page[-1].stream_version,) if len(found) > size else None, request.name
        ),
        cost=wire.money(billing.live_cost(run, now)),
    )
    useful_s = billing.time_to_useful_work_s(run)
    if useful_s is not None:
        message.time_to_useful_work.CopyFrom(wire.duration(useful_s))
    if cursor is not None:
        return message
    message.spending.CopyFrom(spending_message(run, now))
    axis = Axis(run.updated)
    for placement in run.placements.values():
        bill = billing.placement_bill(placement, now)
        message.placements.add(
            placement=placement_name(run.name, placement.id),
            place=place_message(placement.site),
            create_time=axis.time(placement.added_s),
            phases=phases_message(billing.spend_phase(placement, now.elapsed_s)),
            gpus=placement.site.gpus,
            cost=wire.money(bill.cost.total),
            gpu_time=paid_time_message(bill.time),
            cost_by_phase=phase_costs_message(bill.cost),
            end=enums.PLACEMENT_END[placement.end] if placement.end is not None else None,
        )
    return message
