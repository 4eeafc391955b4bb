"""What was ever written loads for ever."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from broker.history.codec import (
    EVENT_TYPES,
    UndecodableError,
    decode,
    decode_run,
    encode,
    encode_run,
)
from broker.history.commands import DrainRegion, RequestDrain, RunCommand, StopEpoch
from broker.history.events import Event
from broker.history.refusals import Code, Refused
from broker.history.regional import RegionState, decide_region
from broker.model.reasons import Reason
from broker.model.run import Purpose
from tests.builders import Story
from tests.unit.history.samples import GOLDEN, SAMPLES


def name_of(event: Event) -> str:
    return type(event).__name__


def test_every_kind_of_event_has_its_sample() -> None:
    assert sorted(map(name_of, SAMPLES)) == sorted(EVENT_TYPES)


@pytest.mark.parametrize("event", SAMPLES, ids=name_of)
def test_an_event_survives_its_bytes(event: Event) -> None:
    name, data = encode(event)
    assert (name, decode(name, data)) == (name_of(event), event)


def says_no_other(less: Any, whole: Any) -> bool:
    """Whether all that one value says, at any depth, stands in the other as well."""
    if isinstance(less, dict) and isinstance(whole, dict):
        return all(name in whole and says_no_other(less[name], whole[name]) for name in less)
    if isinstance(less, list) and isinstance(whole, list):
        pairs = zip(less, whole, strict=False)
        return len(less) == len(whole) and all(says_no_other(*pair) for pair in pairs)
    return bool(less == whole)


@pytest.mark.parametrize(
    ("less", "is_so"),
    [
        ({"a": {"b": 1}}, True),
        ({"a": {"b": 2}}, False),
        ({"a": {"d": 1}}, False),
        ({"l": [{}, 2]}, True),
        ({"l": [{}]}, False),
    ],
)
def test_what_says_less_is_told_from_what_says_otherwise(less: Any, *, is_so: bool) -> None:
    assert says_no_other(less, {"a": {"b": 1, "c": 3}, "l": [{"x": 1}, 2]}) is is_so


@pytest.mark.parametrize("event", SAMPLES, ids=name_of)
def test_a_golden_event_loads(event: Event) -> None:
    # A field that was added since has its default, so the file may say less, never otherwise.
    data = (GOLDEN / f"{name_of(event)}.json").read_bytes()
    loaded = decode(name_of(event), data)
    assert loaded == event
    assert says_no_other(json.loads(data), json.loads(encode(loaded)[1]))


def test_no_golden_file_is_left_behind() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.json")) == sorted(EVENT_TYPES)


def test_equal_events_are_equal_bytes() -> None:
    # Sets have no order of their own; the log must.
    submitted = SAMPLES[0]
    _, data = encode(submitted)
    assert encode(decode("Submitted", data))[1] == data
    assert data.index(b'"europe-west4","us-east1"') > 0


def test_a_field_that_a_newer_broker_wrote_is_passed_over() -> None:
    assert decode("Validated", b'{"by": "a later version"}') == decode("Validated", b"{}")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("Exploded", b"{}"),
        ("Granted", b""),
        ("Granted", b'{"placement": "x"}'),
        ("Progressed", b'{"epoch": {"number": "one", "nonce": "n"}, "step": 1, "loss": null}'),
        ("Validated", b'{"unfinished'),
    ],
)
def test_what_is_not_understood_is_an_error_of_its_own(name: str, data: bytes) -> None:
    with pytest.raises(UndecodableError):
        decode(name, data)


@pytest.mark.parametrize(
    "command",
    [
        RequestDrain(reason=Reason.REGION_DRAINING, message="leave", grace_s=math.inf),
        RequestDrain(reason=Reason.REGION_DRAINING, message="leave", grace_s=math.nan),
        StopEpoch(reason=Reason.REGION_DRAINING, message="lone \ud800"),
    ],
)
def test_what_could_not_be_read_again_is_refused_before_it_is_written(
    command: RunCommand,
) -> None:
    story = Story().accepted().training()
    with pytest.raises(Refused) as caught:
        story.tell(command)
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_a_region_keeps_nothing_that_could_not_be_read_again() -> None:
    drain = DrainRegion(message="leave", grace_s=math.inf)
    with pytest.raises(Refused):
        decide_region(RegionState(id="alpha"), drain, 1)


def test_a_run_survives_its_snapshot() -> None:
    story = Story().accepted().training("alpha").trained(7).saved(100, "beta").wait(60).preempted()
    story.placed("beta").prepared("beta").at_gate("beta").granted("beta").stopped()
    assert decode_run(encode_run(story.run)) == story.run


def test_a_run_reads_back_with_its_placements_as_they_were_added() -> None:
    # Equality of mappings is blind to their order, and the last try is told by it.
    story = Story().accepted().placed("gamma").wait(5.0)
    story.placed("alpha", Purpose.HEDGE).wait(5.0).placed("beta", Purpose.HEDGE)
    assert list(decode_run(encode_run(story.run)).placements) == list(story.run.placements)
    assert list(story.run.placements) != sorted(story.run.placements)


def test_a_damaged_snapshot_is_an_error_of_its_own() -> None:
    with pytest.raises(UndecodableError):
        decode_run(b'{"name": 3}')
