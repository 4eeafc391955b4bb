"""Output of containers as a node keeps it, and the kubelet's log call over it.

One line of a file is one line of output: ``<time> <stream> <F or P> <text>``, the container
runtimes' own format; P says that the line goes on. Read ``Query.select``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

CHUNK = 16_384  # a longer line is kept in parts, as container runtimes do
LOOK_S = 0.1
LAST_LINES, LAST_BYTES = 80, 2048  # what a kubelet keeps of the log of a container that failed


def timestamp(at: datetime | None = None) -> str:
    """Return a moment as Kubernetes writes it, to the microsecond."""
    return (at or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


async def keep(stream: asyncio.StreamReader, name: str, file: BinaryIO) -> None:
    """Write what comes from a process's pipe until its end."""
    while True:
        try:
            line = await stream.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            line = error.partial
        except asyncio.LimitOverrunError as error:
            line = await stream.read(min(error.consumed, CHUNK) or CHUNK)
        if not line:
            return
        for start in range(0, len(line), CHUNK):
            part = line[start : start + CHUNK]
            tag = b"F" if part.endswith(b"\n") else b"P"
            head = f"{timestamp()} {name} ".encode()
            file.write(head + tag + b" " + part.removesuffix(b"\n") + b"\n")
        file.flush()


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What a log call asks for."""

    is_followed: bool
    tail_lines: int | None
    since: str
    limit_bytes: int | None
    has_timestamps: bool

    def select(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the output in some kept lines, without any limit on its length."""
        for line in lines:
            when, _, rest = line.partition(b" ")
            _, _, rest = rest.partition(b" ")
            tag, _, text = rest.partition(b" ")
            if self.since and when.decode() < self.since:
                continue
            end = text if tag == b"F" else text.removesuffix(b"\n")
            yield when + b" " + end if self.has_timestamps else end


def read_query(query: Mapping[str, str], now: datetime) -> Query:
    """Return the query of a log call, with the kubelet's names."""
    since = query.get("sinceTime", "")
    if since:
        since = timestamp(datetime.fromisoformat(since.replace("Z", "+00:00")).astimezone(UTC))
    elif "sinceSeconds" in query:
        since = timestamp(now - timedelta(seconds=int(query["sinceSeconds"])))
    return Query(
        is_followed=query.get("follow") == "true",
        tail_lines=int(query["tailLines"]) if "tailLines" in query else None,
        since=since,
        limit_bytes=int(query["limitBytes"]) if "limitBytes" in query else None,
        has_timestamps=query.get("timestamps") == "true",
    )


async def read(path: Path, query: Query, is_over: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Yield a container's output; when followed, until the container is over."""
    left = query.limit_bytes
    with path.open("rb") as file:
        kept = whole_lines(file)
        if query.tail_lines is not None:
            kept = kept[max(0, len(kept) - query.tail_lines) :]
        while True:
            for part in query.select(kept):
                piece = part if left is None else part[:left]
                if piece:
                    yield piece
                if left is not None:
                    left -= len(piece)
                    if left == 0:
                        return
            was_over = is_over()  # looked at before the last read, so that no line is missed
            kept = whole_lines(file)
            if not kept:
                if not query.is_followed or was_over:
                    return
                await asyncio.sleep(LOOK_S)


def ending(path: Path) -> str:
    """Return the end of a container's output, as a kubelet puts it into a status."""
    plain = read_query({}, datetime.now(UTC))
    with path.open("rb") as file:
        text = b"".join(plain.select(whole_lines(file)[-LAST_LINES:]))
    return text[-LAST_BYTES:].decode(errors="replace")


def whole_lines(file: BinaryIO) -> list[bytes]:
    """Return the finished lines from the file's place on, and move behind them."""
    start = file.tell()
    content = file.read()
    end = content.rfind(b"\n") + 1
    file.seek(start + end)
    return content[:end].splitlines(keepends=True)
