"""A stream of bytes, cut into the pieces in which it is sent. Pure. Read ``in_pieces``."""

from collections.abc import Generator, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a write. ``is_last``: nothing follows. Only the last one may be short, or empty."""

    start: int
    data: bytes
    is_last: bool

    @property
    def end(self) -> int:
        """Where the next one begins."""
        return self.start + len(self.data)


def in_pieces(chunks: Iterable[bytes], piece_bytes: int) -> Generator[Piece, None, None]:
    """Cut a stream into pieces of one size; that a piece is the last is known with it.

    It is empty only if the whole stream is. At most one piece and one chunk are held.
    """
    held, start = bytearray(), 0
    for chunk in chunks:
        held += chunk
        while len(held) > piece_bytes:
            yield Piece(start, bytes(held[:piece_bytes]), False)
            del held[:piece_bytes]
            start += piece_bytes
    yield Piece(start, bytes(held), True)
