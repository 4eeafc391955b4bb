"""Streams that go on: a run's events, what its ranks write, a checkpoint's files.

The rule: an event is sent once and in order, from the log and not from news of it, so whoever
watches again from the last sequence misses nothing. A slow client slows only its own stream.
Read ``watch`` first.
"""

import asyncio
from contextlib import aclosing

from broker.history.refusals import Code, Refused
from broker.model.checkpoint import Checkpoint
from broker.model.names import PLACEMENT_PATTERN
from broker.model.reasons import Reason
from broker.model.run import Run
from broker.model.sightings import CheckpointFile
from broker.model.states import PlacementState
from broker.service import fields
from broker.service.convert_event import event_message
from broker.service.convert_run import checkpoint_message, newest_checkpoint, progress_message
from broker.service.edge import Send
from broker.service.errors import invalid, not_found
from broker.service.ports import Ports
from broker.service.submitting import no_checkpoint
from broker.v1 import run_service_pb2

LIVE_EVERY_S = 0.5  # how often live progress is looked at for those who watch
CHUNK_MAX = 256 * 1024
RANK_MAX = 100_000

_Update = run_service_pb2.WatchRunResponse


async def watch(
    ports: Ports,
    run: Run,
    request: run_service_pb2.WatchRunRequest,
    send: Send[_Update],
) -> None:
    """Send the events after a sequence, and live progress between them."""
    after = fields.not_negative(request.after_sequence, "after_sequence")
    if after > run.stream_version:
        raise Refused(
            reason=Reason.POSITION_TOO_OLD,
            message=f"the run is at sequence {run.stream_version}: read it, then watch from there",
            field="after_sequence",
            code=Code.OUT_OF_RANGE,
        )
    line = asyncio.Lock()

    async def say(update: _Update) -> None:
        async with line:  # a stream takes one message at a time
            await send(update)

    async with asyncio.TaskGroup() as tasks:
        live = tasks.create_task(_tell_progress(ports, run.name, say))
        await _tell_events(ports, request, say)
        live.cancel()


async def _tell_events(
    ports: Ports, request: run_service_pb2.WatchRunRequest, say: Send[_Update]
) -> None:
    if request.until_ended and _is_told(ports, request.name, request.after_sequence):
        return
    async with aclosing(ports.log.follow(request.name, request.after_sequence)) as events:
        async for recorded in events:
            await say(run_service_pb2.WatchRunResponse(event=event_message(recorded)))
            if request.until_ended and _is_told(ports, request.name, recorded.stream_version):
                return


def _is_told(ports: Ports, name: str, sequence: int) -> bool:
    """Whether the run is over, and the event of that sequence was its last."""
    run = ports.log.run(name)
    if run is None:
        return True
    return run.is_ended and not run.live_placements and run.stream_version <= sequence


async def _tell_progress(ports: Ports, name: str, say: Send[_Update]) -> None:
    last = None
    while True:
        progress = ports.live.progress(name)
        if progress is not None and progress != last:
            last = progress
            await say(run_service_pb2.WatchRunResponse(progress=progress_message(progress)))
        await ports.clock.sleep(LIVE_EVERY_S)


async def tail(
    ports: Ports,
    run: Run,
    request: run_service_pb2.TailLogsRequest,
    send: Send[run_service_pb2.TailLogsResponse],
) -> None:
    """Send what a rank wrote, from an offset on."""
    if not 0 <= request.rank <= RANK_MAX:
        raise invalid("rank", f"is not between 0 and {RANK_MAX}")
    placement = _placement(run, request.placement)
    if request.rank >= run.placements[placement].site.nodes:
        raise not_found(f"rank {request.rank} in {run.name}/placements/{placement}")
    chunks = ports.logs.tail(
        run, placement, request.rank, offset=request.offset, follow=request.follow
    )
    async with aclosing(chunks) as found:
        async for after, chunk in found:
            for at in range(0, len(chunk), CHUNK_MAX):
                piece = chunk[at : at + CHUNK_MAX]
                await send(
                    run_service_pb2.TailLogsResponse(
                        chunk=piece,
                        next_offset=after - len(chunk) + at + len(piece),
                        placement=placement,
                    )
                )


def _placement(run: Run, wanted: str) -> str:
    if wanted:
        if not PLACEMENT_PATTERN.fullmatch(wanted):
            raise invalid("placement", "is not the id of a placement")
        if wanted not in run.placements:
            raise not_found(f"{run.name}/placements/{wanted}")
        return wanted
    started = [e for e in run.epochs if e.started_s is not None]
    if started:
        return started[-1].placement
    standing = [p for p in run.live_placements if p.state is not PlacementState.PREPARING]
    if standing:
        return standing[-1].id
    raise Refused(
        reason=Reason.NOT_FOUND,
        message="the run has not been started yet, so nothing was written",
        code=Code.NOT_FOUND,
    )


async def fetch(
    ports: Ports,
    run: Run,
    request: run_service_pb2.FetchCheckpointRequest,
    send: Send[run_service_pb2.FetchCheckpointResponse],
) -> None:
    """Send a checkpoint's files, or where they are."""
    region = fields.text(request.region, "region", longest=fields.NAME_MAX)
    found = _checkpoint(run, request)
    if region and region not in found.regions:
        raise invalid("region", f"holds no copy of it; these do: {', '.join(found.regions)}")
    message = checkpoint_message(run, found)
    await send(run_service_pb2.FetchCheckpointResponse(checkpoint=message))
    if request.prefer_local_path:
        path = await ports.checkpoints.local_path(run, found.ref, region)
        if path is not None:
            await send(run_service_pb2.FetchCheckpointResponse(local_path=path))
            return
    async with aclosing(ports.checkpoints.fetch(run, found.ref, region)) as parts:
        async for part in parts:
            await _send_part(part, send)


async def _send_part(
    part: CheckpointFile | bytes, send: Send[run_service_pb2.FetchCheckpointResponse]
) -> None:
    if isinstance(part, CheckpointFile):
        file = run_service_pb2.CheckpointFile(
            path=part.path, size_bytes=part.size_bytes, sha256=part.sha256
        )
        await send(run_service_pb2.FetchCheckpointResponse(file=file))
        return
    for at in range(0, len(part), CHUNK_MAX):
        chunk = part[at : at + CHUNK_MAX]
        await send(run_service_pb2.FetchCheckpointResponse(chunk=chunk))


def _checkpoint(run: Run, request: run_service_pb2.FetchCheckpointRequest) -> Checkpoint:
    if not request.HasField("step"):
        newest = newest_checkpoint(run)
        if newest is None:
            raise Refused(
                reason=Reason.CHECKPOINT_NOT_AVAILABLE,
                message="the run has no complete checkpoint yet",
            )
        return newest
    step = fields.not_negative(request.step, "step")
    found = [c for c in run.checkpoints if c.ref.step == step and c.regions and c.ref.is_own]
    if not found:
        raise no_checkpoint(run, step)
    # What counts comes before what does not, and of those the newest start's.
    return max(found, key=lambda c: (c.is_sealed and not c.is_bad, c.ref.epoch))
