"""What the proto says that a policy accepts, and leaves unset, is what the server holds it to."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from broker.history.regional import RegionState
from broker.model.policy import RegionPolicy
from broker.service.convert_region import policy_message, policy_of
from broker.service.errors import InvalidArgument
from broker.v1 import region_pb2
from tests.house.tree import ROOT

TEXT = (ROOT / "proto" / "broker" / "v1" / "region.proto").read_text()
SECONDS = {"s": 1, "d": 86_400, "second": 1, "minute": 60}
FIELD = re.compile(r"((?:^  // .*\n)+)  (?:optional |repeated )?[\w.]+ (\w+) = \d+", re.MULTILINE)
ACCEPTED = re.compile(r"Accepted: (\d+)( s)? (?:or more|to (\d+)( d)?)\.")
UNSET = re.compile(r"(?:Unset is|The default is) (true|[\d.]+)(?: (second|minute)s?)?[.,]")


def comments(message: str) -> dict[str, str]:
    """Return the comment of each field of a message, on one line."""
    body = TEXT[TEXT.index(f"message {message} {{") :]
    body = body[: body.index("\n}\n")]
    return {
        name: " ".join(line.removeprefix("  // ") for line in said.splitlines())
        for said, name in FIELD.findall(body)
    }


COMMENTS = {
    **{name: said for name, said in comments("Policy").items() if name != "patience"},
    **{f"patience.{name}": said for name, said in comments("Patience").items()},
    "price_caps.price_per_gpu_hour": comments("PriceCap")["price_per_gpu_hour"],
}


def field_of(path: str) -> Any:
    descriptor: Any = region_pb2.Policy.DESCRIPTOR
    *within, last = path.split(".")
    for name in within:
        descriptor = descriptor.fields_by_name[name].message_type
    return descriptor.fields_by_name[last]


def is_measured(path: str) -> bool:
    """Whether a field is a number, a duration or money, so that it has a least and a most."""
    field = field_of(path)
    if field.message_type is not None:
        return field.message_type.full_name in ("google.protobuf.Duration", "google.type.Money")
    numbers = (
        FieldDescriptor.TYPE_DOUBLE,
        FieldDescriptor.TYPE_INT32,
        FieldDescriptor.TYPE_INT64,
    )
    return field.type in numbers


MEASURED = [path for path in COMMENTS if is_measured(path)]


def saying(path: str, amount: Decimal) -> region_pb2.Policy:
    """Return a policy in which one field says an amount: seconds, dollars or a number."""
    policy = region_pb2.Policy()
    within: Any = policy
    *around, last = path.split(".")
    if around == ["price_caps"]:
        within = policy.price_caps.add(capacity_type=1)
    elif around:
        within = policy.patience
    field, kind = field_of(path), type(getattr(within, last))
    whole, rest = int(amount), int((amount - int(amount)) * 10**9)
    if field.message_type is None:
        setattr(within, last, float(amount) if kind is float else whole)
    elif kind.DESCRIPTOR.full_name == "google.type.Money":
        getattr(within, last).CopyFrom(kind(units=whole, nanos=rest))
    else:
        getattr(within, last).CopyFrom(kind(seconds=whole, nanos=rest))
    return policy


def is_accepted(policy: region_pb2.Policy) -> bool:
    try:
        policy_of(policy)
    except InvalidArgument:
        return False
    return True


@pytest.mark.parametrize("path", MEASURED)
def test_what_is_accepted_is_what_the_comment_says(path: str) -> None:
    said = ACCEPTED.search(COMMENTS[path])
    assert said is not None, f"{path} does not say what is accepted: {COMMENTS[path]}"
    least, unit, most, most_unit = said.groups()
    assert bool(unit) is (most_unit is not None), COMMENTS[path]
    low = Decimal(least)
    assert is_accepted(saying(path, low))
    assert not is_accepted(saying(path, low - 1))
    if most is not None:
        high = Decimal(most) * SECONDS[(most_unit or " s").strip()]
        assert is_accepted(saying(path, high))
        assert not is_accepted(saying(path, high + 1))


@pytest.mark.parametrize("path", [path for path in COMMENTS if UNSET.search(COMMENTS[path])])
def test_what_is_unset_is_what_the_comment_says(path: str) -> None:
    value: Any = policy_message(RegionState(id="alpha"))
    for name in path.split("."):
        value = getattr(value, name)
    found = UNSET.search(COMMENTS[path])
    assert found is not None
    said, unit = found.groups()
    if unit is not None:
        assert value.seconds == int(said) * SECONDS[unit]
    else:
        assert value == (said == "true" or float(said))


def test_every_default_of_a_wait_is_said() -> None:
    silent = [path for path in COMMENTS if path.startswith("patience.")]
    assert [path for path in silent if not UNSET.search(COMMENTS[path])] == []
    assert policy_of(region_pb2.Policy()) == RegionPolicy()
