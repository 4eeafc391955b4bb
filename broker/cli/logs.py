"""``broker logs``: what a rank of a run wrote.

Read ``logs`` first.
"""

import sys
from collections.abc import Callable

import click

from broker.cli import exits
from broker.cli.arguments import RUN, Whole
from broker.cli.saying import LogText
from broker.cli.session import Session
from broker.cli.status import has_ended
from broker.cli.verbs import verb
from broker.sdk.streams import Tail

LINE_BYTES = 400  # a long line of a log; what a tail of lines is looked for in
LINES_MAX = 10_000


@verb(
    example="""
    broker logs digits --rank 3 --follow
    broker logs digits --tail 50
    """
)
@click.argument("run", type=RUN)
@click.option("--rank", type=Whole(min=0), default=0, show_default=True)
@click.option("--placement", metavar="ID", help="Otherwise the one that trains, or trained last.")
@click.option("--follow", "-f", is_flag=True, help="Go on as more is written.")
@click.option("--tail", type=Whole(0, LINES_MAX), metavar="LINES", help="Only the last.")
def logs(
    session: Session,
    run: str,
    *,
    rank: int,
    placement: str | None,
    follow: bool,
    tail: int | None,
) -> int:
    """Print what a rank of RUN wrote, standard output and standard error together.

    A program reads it as it was written, byte for byte. On a terminal its colours pass, and nothing
    else that a terminal would obey.
    """
    name = session.run_name(run)
    where = Tail(name, rank=rank, placement=placement or "")
    shown = LogText()
    write = _json_writer(session, where) if session.is_json else _write
    if sys.stdout.isatty() and not session.is_json:
        write = _terminal_writer(shown)
    try:
        if tail is not None:
            where.offset = -max(1, tail * LINE_BYTES)
            written = b"".join(session.client.follow(where))
            write(b"".join(written.splitlines(keepends=True)[-tail:] if tail else []))
        if tail is None or follow:
            rest = Tail(
                name,
                rank=rank,
                placement=where.placement,
                offset=max(0, where.offset),
                follow=follow,
            )
            where = rest
            client = session.patient_client if follow else session.client
            for chunk in client.follow(rest):
                write(chunk)
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    finally:
        _write(shown.rest().encode())
    if where.offset <= 0:
        is_over = has_ended(session.client.runs.get(name))
        nothing = "wrote nothing" if is_over else "has written nothing yet"
        session.note(f"rank {rank} {nothing}; see broker status {run}")
    return exits.OK


def _write(chunk: bytes) -> None:
    sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()


def _terminal_writer(shown: LogText) -> Callable[[bytes], None]:
    return lambda chunk: _write(shown.take(chunk).encode())


def _json_writer(session: Session, where: Tail) -> Callable[[bytes], None]:
    def write(chunk: bytes) -> None:
        text = chunk.decode(errors="replace")
        session.show_json(
            {"placement": where.placement, "rank": where.rank, "text": text}, is_line=True
        )

    return write
