"""What crosses the socket of an embedded cluster: frames of JSON, four bytes of length first.

The rule: every frame is bounded and decodes to exactly one of the values here, or the connection
is closed with a sentence that says why. One connection carries one question and its answer.
Read ``Request`` and ``Reply`` first.
"""

import asyncio
from decimal import Decimal

import msgspec
from msgspec import Struct

from regions.cluster import Cause, Stage
from regions.local.faults import Fault
from regions.local.state import GangSpec, Signal, WithdrawOrder

MAX_FRAME_BYTES = 16 << 20
MAX_LOG_CHUNK_BYTES = 256 << 10
MAX_WAIT_S = 30.0
"""The longest that a question may wait for news before it is answered without any."""


class BadFrameError(Exception):
    """The other side sent something that is none of the values here."""


class _Base(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """What all frames share."""


class Observe(_Base, tag="observe", frozen=True, kw_only=True):
    """Tell what changed since a generation of this life of the daemon; wait for it if asked to."""

    instance: str = ""
    generation: int = 0
    signal_serial: int = 0
    wait_s: float = 0.0


class QueueGang(_Base, tag="queue", frozen=True, kw_only=True):
    """Put a gang into its queue."""

    spec: GangSpec


class WithdrawGang(_Base, tag="withdraw", frozen=True, kw_only=True):
    """Remove a placement's object."""

    order: WithdrawOrder


class ReadLog(_Base, tag="read_log", frozen=True, kw_only=True):
    """Read a rank's output from a position on; wait for more if there is none yet.

    A negative position is so many bytes before the end.
    """

    placement: str
    rank: int
    offset: int
    wait_s: float = 0.0


class Inject(_Base, tag="inject", frozen=True, kw_only=True):
    """Let something go wrong, or be well again. Answered during an outage too."""

    fault: Fault


class Terminate(_Base, tag="terminate", frozen=True, kw_only=True):
    """Kill every gang, remove every file, and exit. Answered once the gangs are gone."""


Request = Observe | QueueGang | WithdrawGang | ReadLog | Inject | Terminate


class MemberView(Struct, frozen=True, kw_only=True):
    """One process; see ``cluster.MemberSeen``."""

    rank: int
    member: str
    is_alive: bool
    exit_code: int | None
    signal: int | None


class JobView(Struct, frozen=True, kw_only=True):
    """One object of ours; see ``cluster.PlacementSeen``. Times are on the monotonic clock."""

    uid: str
    placement: str
    run_key: str
    queue: str
    flavor: str
    stage: Stage
    cause: Cause
    message: str
    eta_s: float | None
    ahead: int | None
    ahead_gpus: int | None
    nodes_here: int
    nodes_wanted: int
    world_size: int
    members: tuple[MemberView, ...]
    labels: dict[str, str]
    first_exit: str = ""
    history: tuple[tuple[float, int], ...] = ()
    ends_s: float | None = None


class FlavorView(Struct, frozen=True, kw_only=True):
    """One flavor of one queue; see ``cluster.FlavorSeen``."""

    flavor: str
    accelerator: str
    accelerators_per_node: int
    capacity_type: str
    zones: tuple[str, ...]
    price_per_gpu_hour: Decimal
    nominal: int
    reserved: int
    used: int
    parked: int
    borrowable: int
    nodes_free: int
    nodes_coming: int
    max_nodes: int
    startup_s: float
    preemption_notice_s: float
    eta_s: float | None = None
    max_run_s: float | None = None


class QueueView(Struct, frozen=True, kw_only=True):
    """One queue; see ``cluster.QueueSeen``."""

    queue: str
    is_stopped: bool
    pending: int
    pending_gpus: int
    flavors: tuple[FlavorView, ...]


class Observed(_Base, tag="observed", frozen=True, kw_only=True):
    """The cluster at ``now_s``. ``is_full``: ``jobs`` are all there are, else those that changed.

    ``signals`` are those after the serial that was asked from. ``blind``: what could not be seen.
    """

    instance: str
    generation: int
    now_s: float
    is_full: bool
    jobs: tuple[JobView, ...]
    queues: tuple[QueueView, ...]
    signals: tuple[Signal, ...]
    blind: tuple[str, ...]


class Done(_Base, tag="done", frozen=True, kw_only=True):
    """What became of a command; see ``cluster.Outcome``."""

    is_done: bool
    cause: Cause
    message: str
    retry_after_s: float | None


class LogChunk(_Base, tag="log", frozen=True, kw_only=True):
    """Output and the position after it. ``is_last``: its rank will print no more.

    ``is_known`` False: there is no such placement here, or not any more.
    """

    offset: int
    data: bytes
    is_last: bool
    is_known: bool = True


class Failed(_Base, tag="failed", frozen=True, kw_only=True):
    """The question could not be understood."""

    message: str


Reply = Observed | Done | LogChunk | Failed

_decode_request = msgspec.json.Decoder(Request).decode
_decode_reply = msgspec.json.Decoder(Reply).decode


async def read_request(reader: asyncio.StreamReader) -> Request:
    """Read one question. Raises BadFrameError, or IncompleteReadError when the other side went."""
    try:
        return _decode_request(await _read_frame(reader))
    except msgspec.MsgspecError as error:
        raise BadFrameError(str(error)) from error


async def read_reply(reader: asyncio.StreamReader) -> Reply:
    """Read one answer. Raises BadFrameError, or IncompleteReadError when the other side went."""
    try:
        return _decode_reply(await _read_frame(reader))
    except msgspec.MsgspecError as error:
        raise BadFrameError(str(error)) from error


async def write(writer: asyncio.StreamWriter, value: Request | Reply) -> None:
    """Write one question or answer."""
    raw = msgspec.json.encode(value)
    if len(raw) > MAX_FRAME_BYTES:
        raise BadFrameError(f"{len(raw)} bytes, the limit is {MAX_FRAME_BYTES}")
    writer.write(len(raw).to_bytes(4, "big") + raw)
    await writer.drain()


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    length = int.from_bytes(await reader.readexactly(4), "big")
    if length > MAX_FRAME_BYTES:
        raise BadFrameError(f"{length} bytes, the limit is {MAX_FRAME_BYTES}")
    return await reader.readexactly(length)
