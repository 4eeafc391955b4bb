"""Records as JSON, and back, strictly.

The rule: bytes that are not exactly a record of ours are ``Unreadable``: a value, never an
exception, never a guess, and never the same as an absence. Whoever reads one waits or asks a
person; nobody acts on it. Read ``_Fields`` first.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar, Union

from regions.launcher import layout
from regions.launcher.words import can_be_told, told

SCHEMA_VERSION = 1
MAX_RECORD_BYTES = 1 << 20
"""A grant of a long life carries every seal it rests on; 1 MiB holds some ten thousand steps."""
MAX_TEXT = 2000
_WHERE = ("member", "node", "gang", "cluster")
MAX_SEALS = 1000
MAX_STEPS = 10_000
_MAX_INT = 2**53 - 1

T = TypeVar("T")


@dataclass(frozen=True)
class Unreadable:
    """Something is there and it is not a record. ``why`` is for people."""

    why: str


def read_gate(raw: bytes) -> Union[layout.Gate, Unreadable]:
    """Read a gate record."""
    return _read(raw, "gate", _gate)


def read_grant(raw: bytes) -> Union[layout.Grant, Unreadable]:
    """Read a grant."""
    return _read(raw, "grant", _grant)


def read_owner(raw: bytes) -> Union[layout.Started, layout.Revoked, Unreadable]:
    """Read the owner of an epoch."""
    return _read(raw, "owner", _owner)


def read_drain(raw: bytes) -> Union[layout.DrainOrder, Unreadable]:
    """Read a drain order."""
    return _read(raw, "drain", _drain)


def read_fence(raw: bytes) -> Union[layout.Fence, Unreadable]:
    """Read a fence."""
    return _read(raw, "fence", lambda fields: layout.Fence(reason=fields.text("reason")))


def read_report(raw: bytes) -> Union[layout.Report, Unreadable]:
    """Read a report."""
    return _read(raw, "report", _report)


def read_end(raw: bytes) -> Union[layout.End, Unreadable]:
    """Read an end."""
    return _read(raw, "end", _end)


def write_gate(gate: layout.Gate) -> bytes:
    """Write a gate record."""
    return _write(
        "gate",
        rank=gate.rank,
        nonce=gate.nonce,
        count=gate.count,
        **{name: told(getattr(gate, name), MAX_TEXT) for name in _WHERE},
    )


def write_grant(grant: layout.Grant) -> bytes:
    """Write a grant. Equal grants give equal bytes."""
    return _write(
        "grant",
        placement=grant.placement,
        epoch=grant.epoch.name,
        world_size=grant.world_size,
        incarnation=grant.incarnation,
        resume_from=grant.resume_from,
        bundle=grant.bundle,
        seals=[
            {
                "epoch": seal.epoch.name,
                "steps": [list(pair) for pair in seal.steps],
            }
            for seal in grant.seals
        ],
    )


def write_owner(owner: Union[layout.Started, layout.Revoked]) -> bytes:
    """Write an owner."""
    if isinstance(owner, layout.Revoked):
        return _write("owner", is_started=False, by=told(owner.by, MAX_TEXT))
    return _write(
        "owner",
        is_started=True,
        grant_nonce=owner.grant_nonce,
        placement=owner.placement,
        nonces=list(owner.nonces),
    )


def write_drain(order: layout.DrainOrder) -> bytes:
    """Write a drain order."""
    return _write(
        "drain",
        reason=told(order.reason, MAX_TEXT),
        grace_s=order.grace_s,
        deadline_unix_s=order.deadline_unix_s,
    )


def write_fence(fence: layout.Fence) -> bytes:
    """Write a fence."""
    return _write("fence", reason=told(fence.reason, MAX_TEXT))


def write_report(report: layout.Report) -> bytes:
    """Write a report."""
    return _write(
        "report",
        rank=report.rank,
        nonce=report.nonce,
        beat=report.beat,
        phase=report.phase,
        step=report.step,
        loss=report.loss,
        samples=report.samples,
        is_drained=report.is_drained,
        drained_step=report.drained_step,
        trouble=told(report.trouble, MAX_TEXT),
    )


def write_end(end: layout.End) -> bytes:
    """Write an end."""
    return _write(
        "end",
        rank=end.rank,
        nonce=end.nonce,
        kind=end.kind,
        cause=told(end.cause, MAX_TEXT),
        exit_code=end.exit_code,
        signal=end.signal,
        was_asked=end.was_asked,
        at_unix_s=end.at_unix_s,
    )


def parse_object(raw: bytes, limit_bytes: int) -> Union[Dict[str, Any], Unreadable]:
    """Read one JSON object of bounded size; NaN, infinities and repeated names are refused."""
    if len(raw) > limit_bytes:
        return Unreadable(f"longer than {limit_bytes} bytes")
    try:
        value = json.loads(raw.decode("utf-8"), parse_constant=_refuse, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        return Unreadable(f"not JSON: {error}"[:MAX_TEXT])
    return value if isinstance(value, dict) else Unreadable("not an object")


class _Wrong(ValueError):
    """A field is missing or is not what it should be."""


class _Fields:
    """Takes named fields out of an object, each checked; what is left at the end is wrong too."""

    def __init__(self, values: Dict[str, Any]) -> None:
        self._left = dict(values)

    def take(self, name: str) -> Any:
        if name not in self._left:
            raise _Wrong(f"{name} is missing")
        return self._left.pop(name)

    def text(self, name: str) -> str:
        value = self.take(name)
        fits = isinstance(value, str) and len(value) <= MAX_TEXT and can_be_told(value)
        found: str = _checked(name, value, lambda _: fits)
        return found

    def name(self, name: str) -> str:
        found: str = _checked(name, self.text(name), layout.is_name)
        return found

    def nonce(self, name: str) -> str:
        found: str = _checked(name, self.text(name), layout.is_nonce)
        return found

    def flag(self, name: str) -> bool:
        found: bool = _checked(name, self.take(name), lambda v: isinstance(v, bool))
        return found

    def whole(self, name: str, least: int = 0, most: int = _MAX_INT) -> int:
        found: int = _checked(name, self.take(name), lambda v: _is_whole(v) and least <= v <= most)
        return found

    def whole_or_none(self, name: str, least: int = 0) -> Optional[int]:
        value = self.take(name)
        fits = value is None or (_is_whole(value) and least <= value <= _MAX_INT)
        found: Optional[int] = _checked(name, value, lambda _: fits)
        return found

    def number(self, name: str) -> float:
        return float(_checked(name, self.take(name), _is_number))

    def number_or_none(self, name: str) -> Optional[float]:
        value = self.take(name)
        return None if value is None else float(_checked(name, value, _is_number))

    def one_of(self, name: str, choices: Tuple[str, ...]) -> str:
        found: str = _checked(name, self.text(name), lambda v: v in choices)
        return found

    def items(self, name: str, most: int) -> List[Any]:
        value = self.take(name)
        fits = isinstance(value, list) and len(value) <= most
        found: List[Any] = _checked(name, value, lambda _: fits)
        return found

    def epoch(self, name: str) -> layout.EpochId:
        found = layout.epoch_of(self.text(name))
        if found is None:
            raise _Wrong(f"{name} is not an epoch")
        return found

    def checkpoint_or_none(self, name: str) -> Optional[str]:
        value = self.take(name)
        fits = value is None or (isinstance(value, str) and layout.checkpoint_of(value) is not None)
        found: Optional[str] = _checked(name, value, lambda _: fits)
        return found

    def end(self) -> None:
        if self._left:
            raise _Wrong(f"unknown field {sorted(self._left)[0][:80]!r}")


def _gate(fields: _Fields) -> layout.Gate:
    return layout.Gate(
        rank=fields.whole("rank", most=layout.MAX_RANKS - 1),
        nonce=fields.nonce("nonce"),
        count=fields.whole("count"),
        **{name: fields.text(name) for name in _WHERE},
    )


def _grant(fields: _Fields) -> layout.Grant:
    bundle = fields.take("bundle")
    if bundle is not None and not (isinstance(bundle, str) and layout.is_digest(bundle)):
        raise _Wrong("bundle is not a digest")
    return layout.Grant(
        placement=fields.name("placement"),
        epoch=fields.epoch("epoch"),
        world_size=fields.whole("world_size", least=1, most=layout.MAX_RANKS),
        incarnation=fields.whole("incarnation"),
        resume_from=fields.checkpoint_or_none("resume_from"),
        bundle=bundle,
        seals=tuple(_seal(item) for item in fields.items("seals", MAX_SEALS)),
    )


def _seal(item: Any) -> layout.Seal:
    if not isinstance(item, dict):
        raise _Wrong("a seal is not an object")
    fields = _Fields(item)
    seal = layout.Seal(
        epoch=fields.epoch("epoch"),
        steps=tuple(_step(pair) for pair in fields.items("steps", MAX_STEPS)),
    )
    fields.end()
    return seal


def _step(pair: Any) -> Tuple[int, str]:
    if not (isinstance(pair, list) and len(pair) == 2):
        raise _Wrong("a sealed step is not a pair")
    step, digest = pair
    if not (_is_whole(step) and 0 <= step <= _MAX_INT):
        raise _Wrong("a sealed step is not a number")
    if not (isinstance(digest, str) and layout.is_digest(digest)):
        raise _Wrong("a sealed step has no digest")
    return step, digest


def _owner(fields: _Fields) -> Union[layout.Started, layout.Revoked]:
    if not fields.flag("is_started"):
        return layout.Revoked(by=fields.text("by"))
    nonces = fields.items("nonces", layout.MAX_RANKS)
    if not all(isinstance(nonce, str) and layout.is_nonce(nonce) for nonce in nonces):
        raise _Wrong("a listed nonce is not one")
    if not nonces or len(set(nonces)) != len(nonces):
        raise _Wrong("the listed nonces are not a gang")
    return layout.Started(
        grant_nonce=fields.nonce("grant_nonce"),
        placement=fields.name("placement"),
        nonces=tuple(nonces),
    )


def _drain(fields: _Fields) -> layout.DrainOrder:
    return layout.DrainOrder(
        reason=fields.text("reason"),
        grace_s=fields.number("grace_s"),
        deadline_unix_s=fields.number_or_none("deadline_unix_s"),
    )


def _report(fields: _Fields) -> layout.Report:
    return layout.Report(
        rank=fields.whole("rank", most=layout.MAX_RANKS - 1),
        nonce=fields.nonce("nonce"),
        beat=fields.whole("beat"),
        phase=fields.one_of("phase", layout.PHASES),
        step=fields.whole_or_none("step"),
        loss=fields.number_or_none("loss"),
        samples=fields.whole_or_none("samples"),
        is_drained=fields.flag("is_drained"),
        drained_step=fields.whole_or_none("drained_step"),
        trouble=fields.text("trouble"),
    )


def _end(fields: _Fields) -> layout.End:
    return layout.End(
        rank=fields.whole("rank", most=layout.MAX_RANKS - 1),
        nonce=fields.nonce("nonce"),
        kind=fields.one_of("kind", layout.END_KINDS),
        cause=fields.text("cause"),
        exit_code=fields.whole_or_none("exit_code"),
        signal=fields.whole_or_none("signal"),
        was_asked=fields.flag("was_asked"),
        at_unix_s=fields.number("at_unix_s"),
    )


def _read(raw: bytes, record: str, build: Callable[[_Fields], T]) -> Union[T, Unreadable]:
    values = parse_object(raw, MAX_RECORD_BYTES)
    if isinstance(values, Unreadable):
        return values
    fields = _Fields(values)
    try:
        found = fields.whole("schema_version")
        if found != SCHEMA_VERSION:
            return Unreadable(f"schema version {found}, this reads {SCHEMA_VERSION}")
        if fields.text("record") != record:
            return Unreadable(f"not a {record}")
        value = build(fields)
        fields.end()
    except _Wrong as error:
        return Unreadable(str(error))
    return value


def _write(record: str, **values: Any) -> bytes:
    whole = dict(values, record=record, schema_version=SCHEMA_VERSION)
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8")


def _checked(name: str, value: T, fits: Callable[[T], bool]) -> T:
    if not fits(value):
        raise _Wrong(f"{name} is {str(value)[:80]!r}")
    return value


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    if _is_whole(value):
        return -_MAX_INT <= int(value) <= _MAX_INT
    return isinstance(value, float) and math.isfinite(value)


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not a number")


def _once(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is repeated")
    return found
