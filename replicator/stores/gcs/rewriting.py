"""From bucket to bucket by the store itself: no byte comes through here.

The rule: the source's generation is pinned and the target's expected, in every call of a copy, so
that it can neither mix two contents nor take the place of a third. A copy is there when size and
checksums are those of the source's generation, whoever made it: this is also how an answer that was
lost is judged. Read ``copy_over`` first.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from google.cloud import storage

from replicator.errors import StoreError, StoreUnreachable
from replicator.stores.gcs.calls import Unmet
from replicator.stores.gcs.notes import Notes
from replicator.stores.gcs.objects import ROUNDS, Objects, Seen, seen_of
from replicator.stores.gcs.uploading import WRITE

SOURCE = "broker-source"
SOURCE_GENERATION = "broker-source-generation"


def copy_over(
    source: Objects,
    origin: Seen,
    target: Objects,
    notes: Notes,
    on_bytes: Callable[[int], None],
) -> Seen:
    """Make the target hold the object ``origin`` under its name; at once, if it does already.

    ``on_bytes`` hears of the bytes between two calls, and may raise Cancelled. Raises Missing when
    the generation is not there any more.
    """
    name = origin.entry.name
    for _ in range(ROUNDS):
        there = target.see(name, None)
        if there is not None and there.has_bytes_of(origin):
            return there
        try:
            copied = _rewrite(source, origin, target, there, _Way(notes, on_bytes))
        except Unmet:
            continue
        if not copied.has_bytes_of(origin):
            target.remove(name, copied.generation)
            raise StoreError(name, "the store's copy has other bytes; it is removed")
        return copied
    raise StoreError(name, "others write to it all the time")


@dataclass(frozen=True, slots=True)
class _Way:
    """Who is told how far a copy is: the caller, and whoever goes on with it after a kill."""

    notes: Notes
    on_bytes: Callable[[int], None]


def _rewrite(source: Objects, origin: Seen, target: Objects, there: Seen | None, way: _Way) -> Seen:
    """Ask until it is done. All calls have the same arguments, or their token would not hold."""
    name = origin.entry.name
    about = f"rewrite {target.location}{name}"
    meant = {
        "source": f"{source.location}{name}",
        "generation": origin.entry.generation,
        "there": there.entry.generation if there else "",
    }
    pinned = source.blob(name, origin.generation)
    copy = _described(source, origin, target)

    def once(token: str | None) -> tuple[str | None, int, int]:
        answer: tuple[str | None, int, int] = copy.rewrite(
            pinned,
            token=token,
            if_generation_match=there.generation if there else 0,
            if_source_generation_match=origin.generation,
            timeout=target.caller.patience.timeout,
            retry=None,
        )
        return answer

    noted = way.notes.read(about)
    token = noted.get("token") if {key: noted.get(key) for key in meant} == meant else None
    is_taken_up, done = token is not None, 0
    while True:
        try:
            token, rewritten, _ = target.caller.ask(name, partial(once, token))
        except StoreError as error:
            if not is_taken_up or isinstance(error, StoreUnreachable | Unmet):
                raise
            # The store knows the token no more: it is begun anew.
            token, is_taken_up = None, False
            continue
        if token is None:
            way.notes.drop(about)
        else:
            way.notes.write(about, {**meant, "token": token})
        # Of one that is taken up the first answer counts what came before, too.
        way.on_bytes(0 if is_taken_up else rewritten - done)
        done, is_taken_up = rewritten, False
        if token is None:
            return seen_of(name, copy)


def _described(source: Objects, origin: Seen, target: Objects) -> storage.Blob:
    """Return the copy with all that is said of it. What is not said here, the copy would lose."""
    copy = target.blob(origin.entry.name, None)
    for field, value in origin.fields.items():
        if value is not None:
            setattr(copy, field, value)
    copy.metadata = {
        **{key: value for key, value in origin.metadata.items() if key != WRITE},
        SOURCE: f"{source.location}{origin.entry.name}",
        SOURCE_GENERATION: origin.entry.generation,
    }
    return copy
