"""The output of a rank, from any position on, over the log API of its pod.

A position is a count of bytes from the first that the rank's newest pod printed. The API knows no
positions: it knows times, line by line. So each position that is handed out lies behind a whole
line, its time is remembered, and who comes back with it is served from there. Any other position is
found by counting from the beginning of what the node still has. Where the node has begun a new file
since, that is less than was printed: a position beyond it is taken for its end, and what is printed
from then on is told.

The rule: of a process whose node or object is gone the last words are kept, as its container left
them; nothing is told twice. Read ``Logs.read`` first.
"""

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass

from regions.cluster import ClusterUnreachableError, NoSuchLogError
from regions.kueue.access import Api
from regions.kueue.clock import Clock
from regions.kueue.errors import BrokenError, ClusterError, MissingError, RefusedError, SilentError
from regions.kueue.members import Member
from regions.kueue.pod import TRAIN

CHUNK_BYTES = 64 << 10
LINE_BYTES = 8 << 20
"""A line that is longer is none: what is printed without an end of line is not held for ever."""
END_BYTES = 8 << 20
"""Of the end of a log so much at most: it is held in memory until the end has come."""
QUIET_S = 300.0
"""A training that prints nothing for so long is asked again; it says nothing of the cluster."""
LOOK_S = 1.0
MAX_MARKS = 20_000
STAMP_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Printer:
    """Whose output is read: the newest process of a rank, None while there is none yet.

    ``is_over``: the gang will print no more.
    """

    member: Member | None
    is_over: bool


@dataclass(frozen=True, slots=True)
class _Mark:
    """A time, as the API writes it, and how many lines of just that time were told."""

    stamp: str
    lines: int


class Logs:
    """Reads logs of one cluster. ``find`` says who prints as a rank of a placement; it raises
    NoSuchLogError for what the cluster does not hold."""

    def __init__(self, api: Api, clock: Clock, find: Callable[[str, int], Printer]) -> None:
        self._api = api
        self._clock = clock
        self._find = find
        self._marks: dict[tuple[str, int], _Mark] = {}

    async def read(
        self, placement: str, rank: int, offset: int, follow: bool
    ) -> AsyncIterator[tuple[int, bytes]]:
        """Yield (offset after, chunk). See the port. Raises NoSuchLogError,
        ClusterUnreachableError."""
        while True:
            printer = self._find(placement, rank)
            if printer.member is not None:
                break
            if printer.is_over or not follow:
                return
            await self._clock.pause(LOOK_S)
        member = printer.member
        reader = _Reader(self._api, member, self._marks)
        at = offset
        while True:
            # Looked at before the log, so that what was printed last is not missed.
            printer = self._find(placement, rank)
            is_last = printer.is_over or printer.member is None or not printer.member.is_alive
            newest = printer.member or member
            is_followed = follow and not is_last and reader.knows(at)
            try:
                async with aclosing(reader.read(at, is_followed)) as chunks:
                    async for at, data in chunks:
                        if data:
                            yield at, data
            except MissingError:
                words = newest.last_words.encode()
                if not words and at <= 0:
                    raise NoSuchLogError(f"nothing is kept of rank {rank}") from None
                for chunk in _last_words(words, at):
                    yield chunk
                return
            except _NotYetError:
                if newest.last_words and is_last:
                    for chunk in _last_words(newest.last_words.encode(), at):
                        yield chunk
                    return
            except ClusterError as error:
                raise ClusterUnreachableError(f"the log cannot be read: {error}") from error
            if is_last or not follow:
                return
            await self._clock.pause(LOOK_S)


class _NotYetError(Exception):
    """The container has not begun, or its node cannot be asked now."""


class _Reader:
    """One reading of one pod's output."""

    def __init__(self, api: Api, member: Member, marks: dict[tuple[str, int], _Mark]) -> None:
        self._api = api
        self._member = member
        self._marks = marks

    async def read(self, offset: int, follow: bool) -> AsyncGenerator[tuple[int, bytes], None]:
        """Yield what was printed after a position, until the log ends or is quiet for long."""
        if offset < 0:
            async for at, data in self._end(min(-offset, END_BYTES)):
                yield at, data
            return
        mark = self._marks.get((self._member.uid, offset)) if offset else None
        at = offset if mark is not None else 0
        pending = bytearray()
        async with aclosing(self._lines(mark, follow)) as lines:
            async for told, text in lines:
                if text:
                    before, at, mark = at, at + len(text), told
                    pending += text[max(0, offset - before) :]
                if pending and (len(pending) >= CHUNK_BYTES or (follow and not text)):
                    self._put(at, mark)
                    yield at, bytes(pending)
                    pending.clear()
        self._put(max(at, offset), mark)
        if pending:
            yield at, bytes(pending)

    def knows(self, offset: int) -> bool:
        """Whether reading can go on from a position without counting up to it."""
        return offset == 0 or (self._member.uid, offset) in self._marks

    async def _end(self, size_bytes: int) -> AsyncGenerator[tuple[int, bytes], None]:
        kept: deque[bytes] = deque()
        at = held = 0
        mark: _Mark | None = None
        async with aclosing(self._lines(None, follow=False)) as lines:
            async for told, text in lines:
                if not text:
                    continue
                at, held, mark = at + len(text), held + len(text), told
                kept.append(text)
                while held - len(kept[0]) >= size_bytes:
                    held -= len(kept.popleft())
        self._put(at, mark)
        whole = b"".join(kept)
        if whole:
            yield at, whole[max(0, len(whole) - size_bytes) :]

    def _put(self, at: int, mark: _Mark | None) -> None:
        if mark is None or not mark.stamp:
            return
        self._marks[self._member.uid, at] = mark
        while len(self._marks) > MAX_MARKS:
            del self._marks[next(iter(self._marks))]

    async def _lines(
        self, mark: _Mark | None, follow: bool
    ) -> AsyncGenerator[tuple[_Mark | None, bytes], None]:
        """Yield each line with its time; an empty one when there is no more for now."""
        namespace, _, name = self._member.key.partition("/")
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/log"
        query = {"container": TRAIN, "timestamps": "true"}
        if mark is not None:
            query["sinceTime"] = mark.stamp
        if follow:
            query["follow"] = "true"
        last = _Mark("", 0)
        try:
            async with aclosing(self._api.pieces(path, query, QUIET_S)) as pieces:
                rest = b""
                async for piece in pieces:
                    *lines, rest = (rest + piece).split(b"\n")
                    if len(rest) > LINE_BYTES:
                        raise BrokenError(f"a line of more than {LINE_BYTES} bytes")
                    for line in lines:
                        last, text = _parted(line + b"\n", last)
                        if _is_new(last, mark):
                            yield last, text
                    if piece:
                        yield None, b""
                if rest:
                    last, text = _parted(rest, last)
                    if _is_new(last, mark):
                        yield last, text
        except SilentError:
            if not follow:
                raise
        except RefusedError as error:
            if error.status == 400:
                raise _NotYetError from error  # "waiting to start"
            if error.status >= 500 and not isinstance(error, MissingError):
                raise _NotYetError from error
            raise


def _parted(line: bytes, last: _Mark) -> tuple[_Mark, bytes]:
    """Part a line from the time before it; what has none is of the time of the line before it."""
    stamp, space, text = line.partition(b" ")
    if not space or len(stamp) > STAMP_BYTES or not stamp[:4].isdigit():
        return last, line
    when = stamp.decode("ascii", "replace")
    return _Mark(when, last.lines + 1 if when == last.stamp else 1), text


def _is_new(told: _Mark, mark: _Mark | None) -> bool:
    """Whether a line comes after a mark. Times are written alike, so that they compare as text."""
    if mark is None or not told.stamp:
        return True
    return (_key(told.stamp), told.lines) > (_key(mark.stamp), mark.lines)


def _key(stamp: str) -> str:
    """A time whose fraction has all nine digits, for servers leave the zeros at its end out."""
    whole, _, fraction = stamp.rstrip("Z").partition(".")
    return f"{whole}.{fraction.ljust(9, '0')}"


def _last_words(words: bytes, at: int) -> list[tuple[int, bytes]]:
    """What a container left at its end, for who has read nothing yet or wants the end only."""
    if not words or at > 0:
        return []
    return [(len(words), words[at:] if at < 0 else words)]
