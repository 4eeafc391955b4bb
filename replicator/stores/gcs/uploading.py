"""Bytes into an object: in one request, or piece by piece when there are more.

The rule: each write has a name of its own, a random word in the object's metadata, so that after an
answer that was lost it is known whose the object is. The store holds what came against its crc32c
before it is visible. Of a long write one piece is in memory. Read ``Uploading.write`` first.
"""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

import google_crc32c
from google.cloud import storage

from replicator.errors import Cancelled, StoreError, StoreUnreachable
from replicator.hashing import crc32c_of, encoded
from replicator.stores.gcs.calls import Unmet
from replicator.stores.gcs.notes import Notes
from replicator.stores.gcs.objects import ROUNDS, Objects, Seen, seen_of
from replicator.stores.gcs.pieces import Piece, in_pieces
from replicator.stores.gcs.session import Session

# A multiple of the 256 KiB in which the store keeps what comes. Larger ones are hardly faster.
PIECE_BYTES = 8 << 20
WRITE = "broker-write"
OCTETS = "application/octet-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploading:
    """Writes objects of one store."""

    objects: Objects
    notes: Notes

    def write(self, name: str, chunks: Iterable[bytes], *, replaces: bool) -> Seen | None:
        """Write an object whole; None when one is there that may not be replaced."""
        pieces = in_pieces(chunks, PIECE_BYTES)
        first = next(pieces)
        if first.is_last:
            return self._small(name, first.data, replaces=replaces)
        if not replaces and self.objects.see(name, None) is not None:
            return None
        return self._large(name, chain([first], pieces), replaces=replaces)

    def _small(self, name: str, data: bytes, *, replaces: bool) -> Seen | None:
        """Write in one request, which may have to be sent twice: so it says what it replaces."""
        word, crc32c = secrets.token_hex(16), crc32c_of(data)
        for _ in range(ROUNDS):
            there = self.objects.see(name, None) if replaces else None
            try:
                return self._insert(name, data, word, there.generation if there else 0)
            except Unmet:
                mine = self._own(name, word, len(data), crc32c)
                if mine is not None or not replaces:
                    return mine
        raise StoreError(name, "others write to it all the time")

    def _insert(self, name: str, data: bytes, word: str, generation: int) -> Seen:
        blob = self._blob(name, word)
        timeout = self.objects.caller.patience.timeout
        self.objects.caller.ask(
            name,
            lambda: blob.upload_from_string(
                data,
                content_type=OCTETS,
                if_generation_match=generation,
                checksum="crc32c",
                timeout=timeout,
                retry=None,
            ),
        )
        return seen_of(name, blob)

    def _large(self, name: str, pieces: Iterable[Piece], *, replaces: bool) -> Seen | None:
        """Write in a session, which can end in one object only, however often it is sent to."""
        checksum, size_bytes = google_crc32c.Checksum(), 0
        about = f"{'put' if replaces else 'create'} {self.objects.location}{name}"
        try:
            session, word = self._taken_up(name, about) or self._begun(
                name, about, replaces=replaces
            )
        except Unmet:
            return None
        try:
            for piece in pieces:
                checksum.update(piece.data)
                size_bytes = piece.end
                session.send(piece, encoded(checksum))
        except Unmet:
            self.notes.drop(about)
            return self._own(name, word, size_bytes, encoded(checksum))
        except (Cancelled, StoreUnreachable):
            raise  # the next write goes on with it
        except Exception:
            self.notes.drop(about)
            session.cancel()
            raise
        self.notes.drop(about)
        own = self._own(name, word, size_bytes, encoded(checksum))
        if own is None:
            raise StoreError(name, "somebody else replaced it as soon as it was written")
        return own

    def _taken_up(self, name: str, about: str) -> tuple[Session, str] | None:
        """Return the session, with its word, of a write that was broken off, if the store has it.

        Whether its bytes are those that come now is for the store to say, at its end.
        """
        noted = self.notes.read(about)
        if not noted.keys() >= {"address", "word"}:
            return None
        session = self._session(name, noted["address"])
        try:
            session.ask()
        except StoreUnreachable:
            raise
        except StoreError:
            self.notes.drop(about)
            return None
        return session, noted["word"]

    def _begun(self, name: str, about: str, *, replaces: bool) -> tuple[Session, str]:
        word = secrets.token_hex(16)
        session = self._start(name, word, replaces=replaces)
        self.notes.write(about, {"address": session.address, "word": word})
        return session, word

    def _session(self, name: str, address: str) -> Session:
        transport = self.objects.access.session
        return Session(name=name, address=address, transport=transport, caller=self.objects.caller)

    def _start(self, name: str, word: str, *, replaces: bool) -> Session:
        blob = self._blob(name, word)
        caller = self.objects.caller
        address: str = caller.ask(
            name,
            lambda: blob.create_resumable_upload_session(
                content_type=OCTETS,
                if_generation_match=None if replaces else 0,
                checksum=None,
                timeout=caller.patience.timeout,
                retry=None,
            ),
        )
        return self._session(name, address)

    def _own(self, name: str, word: str, size_bytes: int, crc32c: str) -> Seen | None:
        """Return the object if it is the one of this write; None when it is another, or none."""
        there = self.objects.see(name, None)
        if there is None or there.metadata.get(WRITE) != word:
            return None
        if (there.entry.size_bytes, there.crc32c) != (size_bytes, crc32c):
            self.objects.remove(name, there.generation)
            raise StoreError(name, "the store has other bytes than were sent; they are removed")
        return there

    def _blob(self, name: str, word: str) -> storage.Blob:
        blob = self.objects.blob(name, None)
        blob.metadata = {WRITE: word}
        return blob
