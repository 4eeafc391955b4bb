"""What goes on: a run's events, what a rank writes, the files of a checkpoint.

The rule: each remembers how far it came, so that after a failure it goes on where it was: nothing
is missed and nothing is told twice. Read ``Watch`` first.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

from broker.sdk.calls import UPLOAD_S, Method
from broker.sdk.errors import Damaged
from broker.sdk.runs import FETCH, TAIL, WATCH
from broker.v1 import checkpoint_pb2, event_pb2, run_pb2
from broker.v1 import run_service_pb2 as rs

FETCH_S = 86_400.0  # a checkpoint of terabytes, over a slow line

Update: TypeAlias = event_pb2.Event | run_pb2.Progress
Part: TypeAlias = checkpoint_pb2.Checkpoint | rs.CheckpointFile | str | bytes


class Watch:
    """The events of a run after a sequence, and live progress between them.

    ``sequence`` is the last one taken; watch again from there to go on.
    """

    method: Method[rs.WatchRunRequest, rs.WatchRunResponse] = WATCH

    def __init__(self, name: str, *, after_sequence: int = 0, until_ended: bool = True) -> None:
        self.name = name
        self.sequence = after_sequence
        self._until_ended = until_ended

    def request(self) -> rs.WatchRunRequest:
        """Ask for what came after the last event taken."""
        return rs.WatchRunRequest(
            name=self.name, after_sequence=self.sequence, until_ended=self._until_ended
        )

    def take(self, message: rs.WatchRunResponse) -> Iterator[Update]:
        """Yield the event or the progress."""
        if message.HasField("progress"):
            yield message.progress
        elif message.event.sequence > self.sequence:
            self.sequence = message.event.sequence
            yield message.event


class Tail:
    """What one rank wrote, as bytes.

    ``offset`` is where the next byte will be; negative: so many bytes before the end. ``placement``
    is the id of the placement it is of, empty until the first bytes for the one that trains.
    """

    method: Method[rs.TailLogsRequest, rs.TailLogsResponse]

    def __init__(
        self,
        name: str,
        *,
        rank: int = 0,
        placement: str = "",
        offset: int = 0,
        follow: bool = False,
    ) -> None:
        # What is there already comes soon, or not at all.
        self.method = TAIL if follow else replace(TAIL, deadline_s=UPLOAD_S)
        self.name = name
        self.rank = rank
        self.placement = placement
        self.offset = offset
        self._follow = follow

    def request(self) -> rs.TailLogsRequest:
        """Ask for what comes after the last byte taken, of the same placement."""
        return rs.TailLogsRequest(
            name=self.name,
            placement=self.placement,
            rank=self.rank,
            offset=self.offset,
            follow=self._follow,
        )

    def take(self, message: rs.TailLogsResponse) -> Iterator[bytes]:
        """Yield the bytes."""
        self.placement = message.placement
        self.offset = message.next_offset
        if message.chunk:
            yield message.chunk


class Fetch:
    """The files of a checkpoint: first the checkpoint, then a path, or files and their bytes.

    A fetch that broke off is not gone on with: its files may not be the same ones.
    """

    method: Method[rs.FetchCheckpointRequest, rs.FetchCheckpointResponse] = replace(
        FETCH, deadline_s=FETCH_S
    )

    def __init__(
        self, name: str, *, step: int | None = None, region: str = "", local_path: bool = False
    ) -> None:
        self._request = rs.FetchCheckpointRequest(
            parent=name, step=step, region=region, prefer_local_path=local_path
        )
        self._has_begun = False

    def request(self) -> rs.FetchCheckpointRequest:
        """Ask for all of it. Raises Damaged when some of it was taken before."""
        if self._has_begun:
            raise Damaged("the fetch broke off; fetch it anew", reason="STORE_UNREACHABLE")
        return self._request

    def take(self, message: rs.FetchCheckpointResponse) -> Iterator[Part]:
        """Yield the checkpoint, the path, a file or the next bytes of it."""
        self._has_begun = True
        match message.WhichOneof("part"):
            case "checkpoint":
                yield message.checkpoint
            case "local_path":
                yield message.local_path
            case "file":
                yield message.file
            case "chunk":
                yield message.chunk
