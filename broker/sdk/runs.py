"""What can be said about runs.

Names are full: ``teams/{team}/runs/{run}``. Read ``submit`` first.
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.sdk.calls import Operation, ask, change, read, send, streaming, upload
from broker.sdk.errors import NotFound
from broker.v1 import checkpoint_pb2, intent_pb2, run_pb2
from broker.v1 import run_service_pb2 as rs

if TYPE_CHECKING:
    from broker.sdk.bundle import Bundle

CHUNK_BYTES = 256 * 1024
PAGE = 200
_RUNS = "RunService"
SUBMIT = change(_RUNS, "SubmitRun", rs.SubmitRunRequest, rs.SubmitRunResponse, is_repeatable=True)
GET = read(_RUNS, "GetRun", rs.GetRunRequest, run_pb2.Run)
LIST = read(_RUNS, "ListRuns", rs.ListRunsRequest, rs.ListRunsResponse)
WATCH = streaming(_RUNS, "WatchRun", rs.WatchRunRequest, rs.WatchRunResponse)
AMEND = change(_RUNS, "AmendRun", rs.AmendRunRequest, run_pb2.Run)
CANCEL = change(_RUNS, "CancelRun", rs.CancelRunRequest, run_pb2.Run)
RESUME = change(_RUNS, "ResumeRun", rs.ResumeRunRequest, run_pb2.Run)
FORK = change(_RUNS, "ForkRun", rs.ForkRunRequest, run_pb2.Run, is_repeatable=True)
EXPLAIN = read(_RUNS, "ExplainRun", rs.ExplainRunRequest, rs.ExplainRunResponse)
MANIFEST = read(_RUNS, "GetManifest", rs.GetManifestRequest, rs.GetManifestResponse)
TIMELINE = read(_RUNS, "GetTimeline", rs.GetTimelineRequest, rs.GetTimelineResponse)
TAIL = streaming(_RUNS, "TailLogs", rs.TailLogsRequest, rs.TailLogsResponse)
REPORT = change(_RUNS, "ReportProgress", rs.ReportProgressRequest, rs.ReportProgressResponse)
UPLOAD = upload(_RUNS, "UploadBundle", rs.UploadBundleRequest, rs.Bundle)
GET_BUNDLE = read(_RUNS, "GetBundle", rs.GetBundleRequest, rs.Bundle)
CHECKPOINTS = read(_RUNS, "ListCheckpoints", rs.ListCheckpointsRequest, rs.ListCheckpointsResponse)
MARK = change(_RUNS, "MarkCheckpoint", rs.MarkCheckpointRequest, checkpoint_pb2.Checkpoint)
FETCH = streaming(_RUNS, "FetchCheckpoint", rs.FetchCheckpointRequest, rs.FetchCheckpointResponse)
REPLICAS = read(_RUNS, "ListReplicas", rs.ListReplicasRequest, rs.ListReplicasResponse)
REPLACE = change(_RUNS, "ReplaceRun", rs.ReplaceRunRequest, run_pb2.Run)


def submit(
    team: str, intent: intent_pb2.Intent, *, run_id: str = "", request_id: str = ""
) -> Operation[run_pb2.Run]:
    """Create a run of a team (its id); return it. Without a request id one is drawn.

    With the same request id it can be repeated, and gives the same run as long as that is kept.
    """
    request = rs.SubmitRunRequest(
        parent=f"teams/{team}",
        run_id=run_id,
        intent=intent,
        request_id=request_id or os.urandom(16).hex(),
    )
    answer = yield from ask(SUBMIT, request)
    return answer.run


def validate(
    team: str, intent: intent_pb2.Intent, *, run_id: str = "", manifest: bool = False
) -> Operation[rs.SubmitRunResponse]:
    """Create nothing; return what would be created, and where it would go.

    With ``manifest`` also what would be sent there, if it would go anywhere.
    """
    request = rs.SubmitRunRequest(
        parent=f"teams/{team}",
        run_id=run_id,
        intent=intent,
        validate_only=True,
        manifest=manifest,
    )
    return (yield from ask(SUBMIT, request))


def get(name: str) -> Operation[run_pb2.Run]:
    """Return a run with all of its placements and epochs."""
    return (yield from ask(GET, rs.GetRunRequest(name=name)))


def find(
    team: str, *, query: str = "", order_by: str = "", limit: int = 100
) -> Operation[rs.ListRunsResponse]:
    """Return at most ``limit`` runs, all pages as one; ``team`` is ``-`` for all teams."""
    found = rs.ListRunsResponse()
    request = rs.ListRunsRequest(parent=f"teams/{team}", filter=query, order_by=order_by)
    while True:
        request.page_size = min(PAGE, limit - len(found.runs))
        page = yield from ask(LIST, request)
        found.runs.extend(page.runs)
        found.total_size = page.total_size
        found.unreachable.extend(r for r in page.unreachable if r not in found.unreachable)
        found.next_page_token = request.page_token = page.next_page_token
        if not page.next_page_token or len(found.runs) >= limit:
            return found


def amend(name: str, terms: intent_pb2.Terms, *, etag: str) -> Operation[run_pb2.Run]:
    """Replace a run's terms. Raises Conflict when the etag is not the present one."""
    return (yield from ask(AMEND, rs.AmendRunRequest(name=name, terms=terms, etag=etag)))


def cancel(name: str, *, grace_s: float | None = None, message: str = "") -> Operation[run_pb2.Run]:
    """End a run. ``grace_s`` is how long its training may take to save; None: 60 seconds."""
    request = rs.CancelRunRequest(name=name, message=message)
    if grace_s is not None:
        request.grace_period.FromMilliseconds(round(grace_s * 1000))
    return (yield from ask(CANCEL, request))


def resume(
    name: str, *, step: int | None = None, from_beginning: bool = False
) -> Operation[run_pb2.Run]:
    """Bring an ended run back, or send a running one to another checkpoint.

    Without a step it goes on from the newest checkpoint that counts.
    """
    request = rs.ResumeRunRequest(name=name)
    if from_beginning:
        request.beginning = True
    elif step is not None:
        request.step = step
    return (yield from ask(RESUME, request))


def fork(
    name: str,
    *,
    run_id: str = "",
    step: int | None = None,
    from_beginning: bool = False,
    intent: intent_pb2.Intent | None = None,
    request_id: str = "",
) -> Operation[run_pb2.Run]:
    """Create a run from a checkpoint of another one, with its intent unless one is given."""
    request = rs.ForkRunRequest(
        name=name, run_id=run_id, intent=intent, request_id=request_id or os.urandom(16).hex()
    )
    if from_beginning:
        request.beginning = True
    elif step is not None:
        request.step = step
    return (yield from ask(FORK, request))


def replace(name: str, *, epoch: int, message: str) -> Operation[run_pb2.Run]:
    """Let a run go on elsewhere though nobody could hear its gang stop."""
    return (yield from ask(REPLACE, rs.ReplaceRunRequest(name=name, epoch=epoch, message=message)))


def explain(name: str) -> Operation[rs.ExplainRunResponse]:
    """Say of every place whether the run could start there, or why not."""
    return (yield from ask(EXPLAIN, rs.ExplainRunRequest(name=name)))


def manifest(name: str, *, placement: str = "") -> Operation[rs.GetManifestResponse]:
    """Return what is sent to clusters for a run: for one placement, or all that are not over."""
    return (yield from ask(MANIFEST, rs.GetManifestRequest(name=name, placement=placement)))


def timeline(name: str, *, limit: int = 10_000) -> Operation[rs.GetTimelineResponse]:
    """Return what happened to a run, oldest first, and what its time and money went to."""
    request = rs.GetTimelineRequest(name=name, page_size=min(limit, 1000))
    found = yield from ask(TIMELINE, request)
    while found.next_page_token and len(found.events) < limit:
        request.page_token = found.next_page_token
        page = yield from ask(TIMELINE, request)
        found.events.extend(page.events)
        found.next_page_token = page.next_page_token
    del found.events[limit:]
    return found


def report(
    name: str, *, epoch: str, step: int, loss: float | None = None
) -> Operation[rs.ReportProgressResponse]:
    """Report a step; the answer says whether to save and stop. ``epoch`` is its folder's name."""
    request = rs.ReportProgressRequest(name=name, epoch=epoch, step=step, loss=loss)
    return (yield from ask(REPORT, request))


def upload_bundle(team: str, bundle: "Bundle") -> Operation[rs.Bundle]:
    """Bring a packed working directory to the broker, unless it is there already."""
    name = f"teams/{team}/bundles/{bundle.digest}"
    try:
        return (yield from ask(GET_BUNDLE, rs.GetBundleRequest(name=name)))
    except NotFound:
        return (yield from send(UPLOAD, lambda: _parts(team, bundle)))


def _parts(team: str, bundle: "Bundle") -> Iterator[rs.UploadBundleRequest]:
    header = rs.BundleHeader(
        parent=f"teams/{team}", digest=bundle.digest, size_bytes=bundle.size_bytes
    )
    yield rs.UploadBundleRequest(header=header)
    for chunk in bundle.chunks(CHUNK_BYTES):
        yield rs.UploadBundleRequest(chunk=chunk)


def checkpoints(name: str, *, limit: int = 1000) -> Operation[list[checkpoint_pb2.Checkpoint]]:
    """Return the complete checkpoints of a run, newest first."""
    found: list[checkpoint_pb2.Checkpoint] = []
    request = rs.ListCheckpointsRequest(parent=name, page_size=min(limit, 1000))
    while True:
        page = yield from ask(CHECKPOINTS, request)
        found.extend(page.checkpoints)
        request.page_token = page.next_page_token
        if not page.next_page_token or len(found) >= limit:
            return found[:limit]


def refused_checkpoints(name: str) -> Operation[list[checkpoint_pb2.RefusedCheckpoint]]:
    """Return what a run saved that looks like a checkpoint and is none, the latest first."""
    page = yield from ask(CHECKPOINTS, rs.ListCheckpointsRequest(parent=name, page_size=1))
    return list(page.refused)


def mark(
    name: str,
    *,
    step: int,
    bad: bool | None = None,
    pinned: bool | None = None,
    label: str | None = None,
) -> Operation[checkpoint_pb2.Checkpoint]:
    """Mark the checkpoint of a step. What is None is left as it is."""
    request = rs.MarkCheckpointRequest(parent=name, step=step, bad=bad, pinned=pinned, label=label)
    return (yield from ask(MARK, request))


def replicas(name: str) -> Operation[rs.ListReplicasResponse]:
    """Say for each region how far it is behind the run's newest complete checkpoint."""
    return (yield from ask(REPLICAS, rs.ListReplicasRequest(parent=name)))
