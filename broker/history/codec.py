"""Events and runs as bytes, and back: JSON, one object each, fields by name.

The rule: what was ever written loads for ever. A field is added with a default and never renamed,
so that an old event decodes by today's class; unknown fields are passed over, so that a rollback
of the broker reads what a newer one wrote. The golden files in ``tests/golden/events`` hold it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, get_args

import msgspec

from broker.history.events import Event
from broker.history.refusals import Code, HistoryError, Refused
from broker.model.reasons import Reason
from broker.model.run import Run

EVENT_TYPES: Final[Mapping[str, type[Any]]] = {kind.__name__: kind for kind in get_args(Event)}

# Sets come out sorted, so that equal values are equal bytes.
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")
_DECODERS: Final[Mapping[str, msgspec.json.Decoder[Any]]] = {
    name: msgspec.json.Decoder(kind) for name, kind in EVENT_TYPES.items()
}
_RUN: Final[msgspec.json.Decoder[Run]] = msgspec.json.Decoder(Run)


class UndecodableError(HistoryError):
    """Bytes in the log that this code does not understand: damaged, or of a newer broker."""


def encode(event: Event) -> tuple[str, bytes]:
    """Return the event's type name and its JSON."""
    return type(event).__name__, _ENCODER.encode(event)


def decode(type_name: str, data: bytes) -> Event:
    """Return the event; raise UndecodableError when the name or the bytes are not understood."""
    decoder = _DECODERS.get(type_name)
    if decoder is None:
        raise UndecodableError(f"no event is called {type_name!r}")
    try:
        event: Event = decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise UndecodableError(f"{type_name}: {error}") from error
    return event


def check_writable(events: Iterable[Event]) -> None:
    """Raise Refused unless each event reads back as it is.

    JSON has no infinity and UTF-8 no lone surrogate: an event with one would be written down as
    another, or could never be read again. Asked before anything is appended, it is its sender's
    error; found in the log, it would be everybody's.
    """
    for event in events:
        try:
            is_same = decode(*encode(event)) == event
        except (UnicodeEncodeError, OverflowError, UndecodableError):
            is_same = False
        if not is_same:
            raise Refused(
                Reason.INVALID_FIELD,
                f"{type(event).__name__} holds what cannot be written down",
                code=Code.INVALID_ARGUMENT,
            )


def encode_run(run: Run) -> bytes:
    """Return a run as JSON, for a snapshot."""
    return _ENCODER.encode(run)


def decode_run(data: bytes) -> Run:
    """Return the run of a snapshot; raise UndecodableError when the bytes are not understood."""
    try:
        run = _RUN.decode(data)
    except msgspec.MsgspecError as error:
        raise UndecodableError(f"Run: {error}") from error
    if len(run.placements) < 2:
        return run
    # Equal runs are equal bytes, so names are sorted there; a run has them as they were added.
    legs = sorted(run.placements.values(), key=lambda leg: (leg.added_s, leg.id))
    return replace(run, placements={leg.id: leg for leg in legs})
