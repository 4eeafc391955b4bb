"""RunService: each RPC's checks, its command or question, its answer.

The rule: no decisions. What the fields say is checked here; whether it may be is the ledger's to
say. Read ``RunService.AmendRun`` first: all that change a run look like it.
"""

# The methods are named as in the proto.
# ruff: noqa: N802

import asyncio
from collections.abc import AsyncIterator

from broker.history.commands import (
    AmendTerms,
    CancelRun,
    MarkCheckpoint,
    RecordProgress,
    ReplaceEpoch,
    ResumeRun,
    RunCommand,
)
from broker.history.refusals import Refused
from broker.model.actor import Actor
from broker.model.reasons import Reason
from broker.model.run import Epoch, Run
from broker.service import fields
from broker.service.bundles import CHUNK_MAX
from broker.service.convert_offer import estimate_message
from broker.service.convert_run import checkpoint_message
from broker.service.edge import Send, Streams, streaming, unary, unary_within
from broker.service.errors import invalid, not_found
from broker.service.judging import new_terms
from broker.service.listing import list_checkpoints, list_runs, timeline
from broker.service.manifests import manifests
from broker.service.ports import Ports
from broker.service.replicas import replicas_message
from broker.service.showing import shown
from broker.service.submitting import fork, no_checkpoint, submit
from broker.service.watching import fetch, tail, watch
from broker.v1 import checkpoint_pb2, run_pb2, run_service_pb2, run_service_pb2_grpc

CANCEL_GRACE_S = 60.0
GRACE_MAX_S = 86_400.0
LABEL_MAX = 63
UPLOAD_LIMIT_S = 1_800.0
CHUNK_LIMIT_S = 30.0  # an upload that stalls gives its place to another


class RunService(run_service_pb2_grpc.RunServiceServicer):
    """Runs, their checkpoints and their logs."""

    def __init__(self, ports: Ports, streams: Streams) -> None:
        self._ports = ports
        self.streams = streams

    @unary
    async def SubmitRun(
        self, request: run_service_pb2.SubmitRunRequest, actor: Actor
    ) -> run_service_pb2.SubmitRunResponse:
        """Create a run, or say where it would go."""
        return await submit(self._ports, request, actor)

    @unary
    async def ForkRun(self, request: run_service_pb2.ForkRunRequest, actor: Actor) -> run_pb2.Run:
        """Create a run from another one's checkpoint."""
        return await fork(self._ports, request, actor)

    @unary
    async def GetRun(self, request: run_service_pb2.GetRunRequest, _: Actor) -> run_pb2.Run:
        """Return one run."""
        return shown(self._ports, self._run(request.name))

    @unary
    async def ListRuns(
        self, request: run_service_pb2.ListRunsRequest, _: Actor
    ) -> run_service_pb2.ListRunsResponse:
        """Return one page of runs."""
        return await list_runs(self._ports, request)

    @streaming
    async def WatchRun(
        self,
        request: run_service_pb2.WatchRunRequest,
        _: Actor,
        send: Send[run_service_pb2.WatchRunResponse],
    ) -> None:
        """Send a run's events."""
        await watch(self._ports, self._run(request.name), request, send)

    @unary
    async def AmendRun(self, request: run_service_pb2.AmendRunRequest, actor: Actor) -> run_pb2.Run:
        """Replace the terms."""
        run = self._run(request.name)
        generation = fields.generation(request.etag)
        if not request.HasField("terms"):
            raise invalid("terms", "is required")
        terms = new_terms(self._ports, run.intent, request.terms)
        return await self._change(
            run, AmendTerms(terms=terms, expected_generation=generation), actor
        )

    @unary
    async def CancelRun(
        self, request: run_service_pb2.CancelRunRequest, actor: Actor
    ) -> run_pb2.Run:
        """End the run."""
        run = self._run(request.name)
        grace_s = CANCEL_GRACE_S
        if request.HasField("grace_period"):
            grace_s = fields.duration_s(request.grace_period, "grace_period")
        if grace_s > GRACE_MAX_S:
            raise invalid("grace_period", f"is longer than {GRACE_MAX_S:.0f} s")
        said = fields.sentence(request.message, "message")
        message = f"cancelled by {actor.name}{': ' if said else ''}{said}"
        return await self._change(run, CancelRun(grace_s=grace_s, message=message), actor)

    @unary
    async def ResumeRun(
        self, request: run_service_pb2.ResumeRunRequest, actor: Actor
    ) -> run_pb2.Run:
        """Bring the run back, or send it to another checkpoint."""
        run = self._run(request.name)
        chosen = request.WhichOneof("from")
        if chosen == "beginning" and not request.beginning:
            raise invalid("beginning", "must be true when it is given")
        step = fields.not_negative(request.step, "step") if chosen == "step" else None
        command = ResumeRun(step=step, from_start=chosen == "beginning")
        return await self._change(run, command, actor)

    @unary
    async def ExplainRun(
        self, request: run_service_pb2.ExplainRunRequest, _: Actor
    ) -> run_service_pb2.ExplainRunResponse:
        """Say of every place whether the run could start there."""
        run, now = self._run(request.name), self._ports.clock.now()
        estimate = estimate_message(run, self._ports.explainer.explain(run, now))
        return run_service_pb2.ExplainRunResponse(run=shown(self._ports, run), estimate=estimate)

    @unary
    async def GetManifest(
        self, request: run_service_pb2.GetManifestRequest, _: Actor
    ) -> run_service_pb2.GetManifestResponse:
        """Say what is sent to clusters for the run."""
        return manifests(self._ports, self._run(request.name), request)

    @unary
    async def GetTimeline(
        self, request: run_service_pb2.GetTimelineRequest, _: Actor
    ) -> run_service_pb2.GetTimelineResponse:
        """Return one page of what happened."""
        return await timeline(self._ports, self._run(request.name), request)

    @streaming
    async def TailLogs(
        self,
        request: run_service_pb2.TailLogsRequest,
        _: Actor,
        send: Send[run_service_pb2.TailLogsResponse],
    ) -> None:
        """Send what a rank wrote."""
        await tail(self._ports, self._run(request.name), request, send)

    @unary
    async def ReportProgress(
        self, request: run_service_pb2.ReportProgressRequest, actor: Actor
    ) -> run_service_pb2.ReportProgressResponse:
        """Take in a step of the open epoch."""
        run = self._run(request.name)
        step = fields.not_negative(request.step, "step")
        loss = fields.finite(request.loss, "loss") if request.HasField("loss") else None
        epoch = _open_epoch(run, request.epoch)
        command = RecordProgress(epoch=epoch.id, step=step, loss=loss)
        await self._ports.log.handle(run.name, command, actor)
        return run_service_pb2.ReportProgressResponse(draining=epoch.drain is not None)

    @unary_within(UPLOAD_LIMIT_S)
    async def UploadBundle(
        self, request: AsyncIterator[run_service_pb2.UploadBundleRequest], _: Actor
    ) -> run_service_pb2.Bundle:
        """Take in a bundle."""
        first = await anext(request, None)
        if first is None or first.WhichOneof("part") != "header":
            raise invalid("header", "must come first")
        team = fields.team_id(first.header.parent, "header.parent")
        digest = fields.digest(first.header.digest, "header.digest")
        if self._ports.bundles.size_bytes(digest) is None:
            chunks = _chunks(request)
            await self._ports.bundles.receive(digest, first.header.size_bytes, chunks)
        return self._bundle(team, digest)

    @unary
    async def GetBundle(
        self, request: run_service_pb2.GetBundleRequest, _: Actor
    ) -> run_service_pb2.Bundle:
        """Return a bundle that is there."""
        name = fields.text(request.name, "name", longest=fields.NAME_MAX, required=True)
        parent, slash, digest = name.partition("/bundles/")
        if not slash:
            raise invalid("name", "is not of the form teams/TEAM/bundles/DIGEST")
        return self._bundle(fields.team_id(parent, "name"), fields.digest(digest, "name"))

    @unary
    async def ListCheckpoints(
        self, request: run_service_pb2.ListCheckpointsRequest, _: Actor
    ) -> run_service_pb2.ListCheckpointsResponse:
        """Return one page of a run's checkpoints."""
        return list_checkpoints(self._run(request.parent, "parent"), request)

    @unary
    async def MarkCheckpoint(
        self, request: run_service_pb2.MarkCheckpointRequest, actor: Actor
    ) -> checkpoint_pb2.Checkpoint:
        """Mark the checkpoint of a step."""
        run, has = self._run(request.parent, "parent"), request.HasField
        step = fields.not_negative(request.step, "step")
        if not (has("bad") or has("pinned") or has("label")):
            raise invalid("bad", "nothing is to be marked: give bad, pinned or label")
        label = fields.text(request.label, "label", longest=LABEL_MAX) if has("label") else None
        command = MarkCheckpoint(
            step=step,
            is_bad=request.bad if has("bad") else None,
            is_pinned=request.pinned if has("pinned") else None,
            label=label,
        )
        await self._ports.log.handle(run.name, command, actor)
        marked = [c for c in self._run(run.name).checkpoints if c.ref.step == step]
        if not marked:
            raise no_checkpoint(run, step)
        return checkpoint_message(run, max(marked, key=lambda c: (c.is_sealed, c.ref.epoch)))

    @streaming
    async def FetchCheckpoint(
        self,
        request: run_service_pb2.FetchCheckpointRequest,
        _: Actor,
        send: Send[run_service_pb2.FetchCheckpointResponse],
    ) -> None:
        """Send a checkpoint's files."""
        await fetch(self._ports, self._run(request.parent, "parent"), request, send)

    @unary
    async def ListReplicas(
        self, request: run_service_pb2.ListReplicasRequest, _: Actor
    ) -> run_service_pb2.ListReplicasResponse:
        """Say how far each region is behind."""
        run = self._run(request.parent, "parent")
        return replicas_message(run, self._ports.checkpoints.replicas(run))

    @unary
    async def ReplaceRun(
        self, request: run_service_pb2.ReplaceRunRequest, actor: Actor
    ) -> run_pb2.Run:
        """Write down that a person goes on without a gang; whether it can be heard is judged."""
        run = self._run(request.name)
        message = fields.sentence(request.message, "message", required=True)
        epoch = run.open_epoch
        if epoch is None or epoch.id.number != request.epoch:
            raise Refused(
                reason=Reason.ILLEGAL_IN_STATE,
                message=f"the run has no open epoch {request.epoch}",
                field="epoch",
            )
        command = ReplaceEpoch(epoch=epoch.id, by=actor.name, message=message)
        return await self._change(run, command, actor)

    async def _change(self, run: Run, command: RunCommand, actor: Actor) -> run_pb2.Run:
        await self._ports.log.handle(run.name, command, actor)
        return shown(self._ports, self._run(run.name))

    def _run(self, name: str, field: str = "name") -> Run:
        run = self._ports.log.run(fields.run_name(name, field))
        if run is None:
            raise not_found(name)
        return run

    def _bundle(self, team: str, digest: str) -> run_service_pb2.Bundle:
        name = f"teams/{team}/bundles/{digest}"
        size_bytes = self._ports.bundles.size_bytes(digest)
        if size_bytes is None:
            raise not_found(name)
        return run_service_pb2.Bundle(name=name, digest=digest, size_bytes=size_bytes)


def _open_epoch(run: Run, folder: str) -> Epoch:
    epoch = run.open_epoch
    if epoch is None or epoch.id.folder != fields.text(folder, "epoch", longest=64, required=True):
        raise Refused(
            reason=Reason.ILLEGAL_IN_STATE,
            message="this is not the run's open epoch: what it reports does not count",
            field="epoch",
        )
    return epoch


async def _chunks(
    request: AsyncIterator[run_service_pb2.UploadBundleRequest],
) -> AsyncIterator[bytes]:
    while True:
        async with asyncio.timeout(CHUNK_LIMIT_S):
            message = await anext(request, None)
        if message is None:
            return
        if message.WhichOneof("part") != "chunk":
            raise invalid("chunk", "only chunks may follow the header")
        if len(message.chunk) > CHUNK_MAX:
            raise invalid("chunk", f"is larger than {CHUNK_MAX} bytes")
        yield message.chunk
