"""The rig's machines, as far as they are pure: names, environments, mounts, output, pools."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.rig import fleet
from tests.cluster.rig.machines.addresses import Addresses
from tests.cluster.rig.machines.environment import expanded, field, quantity
from tests.cluster.rig.machines.output import ending, keep, read, read_query
from tests.cluster.rig.machines.pools import fits, is_unschedulable, new_node
from tests.cluster.rig.machines.volumes import rewritten

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
FIRST = "127.16.0.1"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("leg-workers-0-0.leg", FIRST),
        ("tcp://leg-workers-0-0.leg:29500", f"tcp://{FIRST}:29500"),
        ("leg-workers-0-0.leg.team", FIRST),
        ("leg-workers-0-0.leg.team.svc", FIRST),
        ("leg-workers-0-0.leg.team.svc.cluster.local", FIRST),
        ("a.leg-workers-0-0.leg", "a.leg-workers-0-0.leg"),
        ("leg-workers-0-0.legs", "leg-workers-0-0.legs"),
        ("leg-workers-0-0.leg.example.org", "leg-workers-0-0.leg.example.org"),
        ("leg", "leg"),
    ],
)
def test_a_name_of_the_gang_is_an_address(text: str, told: str) -> None:
    assert Addresses(16).resolve(text, "team", "leg") == told


def test_who_is_named_before_it_starts_has_that_address() -> None:
    addresses = Addresses(20)
    told = addresses.resolve("leg-workers-0-1.leg", "team", "leg")
    assert told == addresses.of_pod("team", "leg-workers-0-1-x7k2p", "leg-workers-0-1", "leg")
    assert told != addresses.of_pod("other", "leg-workers-0-1-x7k2p", "leg-workers-0-1", "leg")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)/b", "x/b"),
        ("$$(A)", "$(A)"),
        ("$(NONE)", "$(NONE)"),
        ("$A ${A}", "$A ${A}"),
    ],
)
def test_arguments_are_expanded_as_kubernetes_does(text: str, expected: str) -> None:
    assert expanded(text, {"A": "x"}) == expected


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"),
        ("metadata.labels['a.b/c']", "d"),
        ("metadata.annotations['none']", ""),
        ("spec.nodeName", "n"),
    ],
)
def test_fields_of_the_pod_are_found(path: str, value: str) -> None:
    pod = {"metadata": {"name": "p", "labels": {"a.b/c": "d"}}, "spec": {"nodeName": "n"}}
    assert field(pod, path) == value


@pytest.mark.parametrize(
    ("text", "amount"), [("500m", 0.5), ("2", 2.0), ("1Ki", 1024.0), ("3G", 3e9)]
)
def test_quantities(text: str, amount: float) -> None:
    assert quantity(text) == amount


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/ckpt/run", "/real/run"),
        ("--store=/ckpt", "--store=/real"),
        ("/ckpt/deep/x", "/deeper/x"),
        ("/ckpts", "/ckpts"),
        ("/a/ckpt", "/a/ckpt"),
    ],
)
def test_a_mount_path_becomes_the_folder_that_stands_for_it(text: str, expected: str) -> None:
    mounted = {"/ckpt": Path("/real"), "/ckpt/deep": Path("/deeper")}
    assert rewritten(text, mounted) == expected


async def kept(path: Path, *pieces: bytes) -> None:
    stream = asyncio.StreamReader(limit=16_384)
    for piece in pieces:
        stream.feed_data(piece)
    stream.feed_eof()
    with path.open("ab") as file:
        await keep(stream, "stdout", file)


async def answer(path: Path, query: Mapping[str, str]) -> bytes:
    parts = [part async for part in read(path, read_query(query, NOW), lambda: True)]
    return b"".join(parts)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, b"one\ntwo\nthree\n"),
        ({"tailLines": "2"}, b"two\nthree\n"),
        ({"tailLines": "9"}, b"one\ntwo\nthree\n"),
        ({"tailLines": "0"}, b""),
        ({"limitBytes": "5"}, b"one\nt"),
        ({"sinceTime": "2026-01-01T00:00:00Z"}, b"one\ntwo\nthree\n"),
        ({"sinceTime": "2999-01-01T00:00:00Z"}, b""),
        ({"follow": "true"}, b"one\ntwo\nthree\n"),
    ],
)
async def test_a_log_call_gives_what_it_asks_for(
    tmp_path: Path, query: Mapping[str, str], expected: bytes
) -> None:
    log = tmp_path / "log"
    await kept(log, b"one\ntw", b"o\nthree\n")
    assert await answer(log, query) == expected


async def test_of_a_failed_container_a_kubelet_keeps_the_end_of_its_output(tmp_path: Path) -> None:
    log = tmp_path / "log"
    await kept(log, b"".join(b"%d\n" % number for number in range(100)))
    assert ending(log).split() == [str(number) for number in range(20, 100)]
    await kept(log, b"x" * 3000 + b"\nlast\n")
    assert ending(log) == "x" * 2042 + "\nlast\n"


async def test_lines_of_any_length_and_an_unfinished_one_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "log"
    long = b"x" * 50_000
    await kept(log, long + b"\nend")
    assert await answer(log, {}) == long + b"\nend"


async def test_what_comes_while_a_log_is_followed_is_given(tmp_path: Path) -> None:
    log = tmp_path / "log"
    await kept(log, b"one\n")
    state = {"is_over": False}
    got = []
    async for part in read(log, read_query({"follow": "true"}, NOW), lambda: state["is_over"]):
        got.append(part)
        if not state["is_over"]:
            await kept(log, b"two\n")
            state["is_over"] = True
    assert got == [b"one\n", b"two\n"]


def pod(**spec: Any) -> dict[str, Any]:
    gpus = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}
    return {
        "containers": [gpus],
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        **spec,
    }


@pytest.mark.parametrize(
    ("capacity_type", "spec", "expected"),
    [
        ("ON_DEMAND", pod(), True),
        ("ON_DEMAND", pod(nodeSelector={fleet.PROVISIONING: "standard"}), True),
        ("ON_DEMAND", pod(nodeSelector={fleet.PROVISIONING: "spot"}), False),
        ("ON_DEMAND", pod(tolerations=[]), True),
        ("ON_DEMAND", pod(containers=[{}], tolerations=[]), False),
        ("SPOT", pod(), False),
        ("SPOT", pod(tolerations=[{"operator": "Exists"}]), True),
        (
            "ON_DEMAND",
            pod(containers=[{"resources": {"limits": {"nvidia.com/gpu": "16"}}}]),
            False,
        ),
    ],
)
def test_a_pool_suits_a_pod(capacity_type: str, spec: dict[str, Any], expected: bool) -> None:
    assert fits(fleet.pool(capacity_type, "us-central1-a"), spec) is expected


def test_a_flavors_labels_are_on_its_nodes_and_on_no_others() -> None:
    nodes = {
        kind: new_node(fleet.pool(kind, "us-central1-a"), "us-central1")["metadata"]["labels"]
        for kind in fleet.KINDS
    }
    suited = {
        kind: {
            other
            for other, labels in nodes.items()
            if fleet.flavor(kind)["spec"]["nodeLabels"].items() <= labels.items()
        }
        for kind in fleet.KINDS
    }
    assert suited == {kind: {kind} for kind in fleet.KINDS}


def test_nodes_of_a_pool_have_names_of_their_own() -> None:
    made = fleet.pool("SPOT", "us-central1-a")
    names = {new_node(made, "us-central1")["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3


def test_only_who_the_scheduler_refused_waits_for_nodes() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    gated = {**condition, "reason": "SchedulingGated"}
    seen: list[dict[str, Any]] = [
        {"spec": {}, "status": {"conditions": [condition]}},
        {"spec": {}, "status": {"conditions": [gated]}},
        {"spec": {"nodeName": "n"}, "status": {"conditions": [condition]}},
        {"spec": {}},
    ]
    assert [is_unschedulable(p) for p in seen] == [True, False, False, False]


def test_a_supply_that_ends_gives_what_is_left() -> None:
    made = fleet.pool("SPOT", "us-central1-a", supply=3)
    assert [made.take(2), made.take(2), made.take(2), made.supply] == [2, 1, 0, 0]
