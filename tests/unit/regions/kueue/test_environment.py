"""What a process is told: the launcher reads it, users' words come through, nobody overrides it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regions.kueue import names
from regions.kueue.environment import Times, environment, times, verbatim
from regions.kueue.manifest import build
from regions.kueue.site import Bucket
from regions.launcher import envelope
from regions.launcher.settings import read_settings
from tests.unit.regions.kueue.making import (
    PACKED,
    make_profile,
    make_queue,
    make_site,
    spec_of,
    trainer_of,
)

GOLDEN = Path(__file__).parents[3] / "golden"
UID = "0e6f1a8e-8a5b-4b0e-9f5e-0d9d3f6f7a11"


def started(container: dict[str, Any], rank: int) -> tuple[list[str], dict[str, str]]:
    """The command and environment that a kubelet makes of a container's spec."""
    fields = {
        f"metadata.annotations['{names.RANK_ANNOTATION}']": str(rank),
        f"metadata.labels['{names.GANG_UID}']": "uid-of-gang",
        "metadata.uid": UID,
        "spec.nodeName": "node-7",
    }
    env: dict[str, str] = {}
    for entry in container["env"]:
        if "value" in entry:
            env[entry["name"]] = expanded(entry["value"], env)
        elif "fieldRef" in entry["valueFrom"]:
            env[entry["name"]] = fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
    return [expanded(word, env) for word in container["command"]], env


def expanded(text: str, env: dict[str, str]) -> str:
    """Fill in ``$(NAME)`` as Kubernetes does: ``$$`` is a dollar, an unknown name stays."""
    out, at = "", 0
    while at < len(text):
        if text[at] != "$" or at + 1 == len(text):
            out, at = out + text[at], at + 1
        elif text[at + 1] == "$":
            out, at = out + "$", at + 2
        elif text[at + 1] == "(" and ")" in text[at:]:
            end = text.index(")", at)
            name = text[at + 2 : end]
            out, at = out + env.get(name, text[at : end + 1]), end + 1
        else:
            out, at = out + "$", at + 1
    return out


def test_the_launcher_reads_what_a_pod_is_told() -> None:
    jobset = build(make_queue(), make_site(), PACKED).jobset
    command, env = started(trainer_of(jobset), rank=1)
    settings = read_settings(env, tuple(command[5:]))
    assert (settings.rank, settings.world_size) == (1, 2)
    assert settings.store == "/stores/eu"
    assert settings.run_key == "runkey00000000000001"
    assert settings.placement == "k3v9q0aa1b2c"
    assert settings.member == UID
    assert settings.command == ("python", "train.py")
    assert settings.gate_timeout_s == 900.0
    assert settings.passed_on["MASTER_ADDR"] == "cb-k3v9q0aa1b2c-g-0-0.cb-k3v9q0aa1b2c"
    assert settings.passed_on["LOCAL_RANK"] == "0"
    assert settings.passed_on["BROKER_RUN"] == "teams/vision/runs/one"


def test_the_launcher_of_a_bucket_is_told_who_serves_it_and_what_opens_it() -> None:
    token = {"name": "token", "mount_path": "/var/token", "secret": "store-token"}
    bucket = Bucket(location="gs://east/broker", endpoint="https://storage.example")
    profile = make_profile(store_tokens="/var/token/token", volumes=(token,))
    built = build(make_queue(), make_site(bucket=bucket, profile=profile), PACKED)
    command, env = started(trainer_of(built.jobset), rank=0)
    settings = read_settings(env, tuple(command))
    assert (settings.store, settings.store_endpoint, settings.store_tokens) == (
        *("gs://east/broker", "https://storage.example", "/var/token/token"),
    )
    pod = spec_of(built.jobset)
    assert {"secret": {"secretName": "store-token", "defaultMode": 0o440}, "name": "token"} in (
        pod["volumes"]
    )
    mount = {"name": "token", "mountPath": "/var/token", "readOnly": True}
    assert mount in trainer_of(built.jobset)["volumeMounts"]
    assert any("lets nothing through to the store, gs://east/broker" in n for n in built.notes)


@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_kubernetes_passes_on_what_a_user_wrote(text: str) -> None:
    env = {"RANK": "7", "HOME": "/elsewhere"}
    assert expanded(verbatim(text), env) == text


@pytest.mark.parametrize("text", ["$(RANK)", "$$(RANK)", "$$$(RANK)$", "${RANK}", "a$b", "$("])
def test_a_users_dollars_stay_dollars(text: str) -> None:
    queue = make_queue(command=("sh", "-c", text), env={"A": text})
    command, env = started(trainer_of(build(queue, make_site(), PACKED).jobset), rank=0)
    assert command[-1] == text
    assert env["A"] == text


def test_a_run_overrides_defaults_and_neither_the_protocol_nor_the_profile() -> None:
    site = make_site(profile=make_profile(env={"NCCL_NET": "FasTrak"}))
    own = {
        "HOME": "/mine",
        "OMP_NUM_THREADS": "8",
        "RANK": "9",
        "WORLD_SIZE": "9",
        "BROKER_STORE": "/etc",
        "BROKER_MEMBER": "me",
        "BROKER_NODE": "mine",
        "BROKER_CLUSTER": "mine",
        "NCCL_NET": "Socket",
        "NCCL_DEBUG": "INFO",
    }
    _, env = started({"env": environment(make_queue(env=own), site), "command": []}, rank=1)
    settings = read_settings(env, ("true",))
    assert (settings.rank, settings.world_size) == (1, 2)
    assert settings.store == "/stores/eu"
    assert (settings.member, settings.node, settings.gang) == (UID, "node-7", "uid-of-gang")
    assert settings.cluster == "west"
    told = settings.passed_on
    assert (told["RANK"], told["WORLD_SIZE"]) == ("1", "2")
    assert told["NCCL_NET"] == "FasTrak"
    assert told["NCCL_DEBUG"] == "INFO"
    assert told["HOME"] == "/mine"
    assert told["OMP_NUM_THREADS"] == "8"


def test_what_the_broker_says_is_one_variable_beside_what_run_profile_and_cluster_say() -> None:
    site = make_site(profile=make_profile(env={"NCCL_NET": "FasTrak", "OMP_NUM_THREADS": "4"}))
    own = {"MINE": "$(RANK)", "BROKER_LOSS_FIELD": "loss"}
    entries = environment(make_queue(env=own, secrets=(("home", "HOME", ""),)), site)
    assert [entry["name"] for entry in entries] == [
        *("BROKER_GANG", "BROKER_LAUNCH", "BROKER_MEMBER", "BROKER_NODE"),
        *("HOME", "MINE", "NCCL_NET", "OMP_NUM_THREADS", "RANK"),
    ]
    carried = json.loads(next(e["value"] for e in entries if e["name"] == envelope.NAME))
    assert carried["BROKER_LOSS_FIELD"] == "loss"
    assert carried.keys() & {"HOME", "OMP_NUM_THREADS", "MINE", "RANK", "BROKER_MEMBER"} == set()


def test_a_profile_overrides_a_run_in_a_default_too() -> None:
    site = make_site(profile=make_profile(env={"HOME": "/theirs"}))
    _, env = started(trainer_of(build(make_queue(env={"HOME": "/mine"}), site, PACKED).jobset), 0)
    assert read_settings(env, ("true",)).passed_on["HOME"] == "/theirs"


@pytest.mark.parametrize("rank", [0, 1])
def test_a_gang_is_told_what_one_of_the_first_build_was(rank: int) -> None:
    """A variable for each value, then; no test may change what is recorded."""
    recorded = json.loads((GOLDEN / "gangs" / "first.json").read_text())
    jobset = build(make_queue(), make_site(), PACKED).jobset
    was, now = (
        read_settings(started(trainer_of(each), rank)[1], ("python", "train.py"))
        for each in (recorded, jobset)
    )
    more = {"BROKER_NODE": "node-7", "BROKER_GANG": "uid-of-gang", "BROKER_CLUSTER": "west"}
    assert now.passed_on == {**was.passed_on, **more}
    assert now == replace(
        was, node="node-7", gang="uid-of-gang", cluster="west", passed_on=now.passed_on
    )


def test_a_variable_is_set_once() -> None:
    secrets = (("hub", "HF_TOKEN", ""),)
    queue = make_queue(env={"HF_TOKEN": "left behind", "HOME": "/mine"}, secrets=secrets)
    entries = environment(queue, make_site())
    assert len({entry["name"] for entry in entries}) == len(entries)
    shown = next(entry for entry in entries if entry["name"] == "HF_TOKEN")
    reference = {"name": "hub", "key": "HF_TOKEN", "optional": False}
    assert shown["valueFrom"] == {"secretKeyRef": reference}


TIMES = {
    "a spot machine leaves 15 of its 30 seconds to a gang": (
        {"capacity_type": "SPOT", "stop_grace_s": 60.0},
        None,
        Times(container_s=15, notice_s=13.0, grace_s=5.2),
    ),
    "a flex machine ends in the same way": (
        {"capacity_type": "FLEX", "stop_grace_s": 60.0},
        None,
        Times(container_s=15, notice_s=13.0, grace_s=5.2),
    ),
    "a pool whose machines give 120 seconds says so in its profile": (
        {"capacity_type": "SPOT", "stop_grace_s": 30.0},
        105.0,
        Times(container_s=105, notice_s=103.0, grace_s=30.0),
    ),
    "where no machine is taken away a run's own grace counts": (
        {"capacity_type": "RESERVED", "stop_grace_s": 30.0},
        None,
        Times(container_s=77, notice_s=75.0, grace_s=30.0),
    ),
    "a run without grace still has the time to say that it ended": (
        {"capacity_type": "ON_DEMAND", "stop_grace_s": 0.0},
        None,
        Times(container_s=5, notice_s=3.0, grace_s=0.0),
    ),
}


@pytest.mark.parametrize(
    ("capacity_type", "profile_s", "pool_s", "expected_s"),
    [
        ("SPOT", None, 105.0, 105),
        ("SPOT", 25.0, 105.0, 25),
        ("SPOT", None, 0.0, 5),
        ("RESERVED", None, 105.0, 77),
    ],
)
def test_what_a_machines_pool_is_told_is_the_time_there_is(
    capacity_type: str, profile_s: float | None, pool_s: float, expected_s: int
) -> None:
    profile = make_profile(**({"preemption_window_s": profile_s} if profile_s else {}))
    queue, site = make_queue(capacity_type=capacity_type), make_site(profile=profile)
    assert times(queue, replace(site, window_s=pool_s)).container_s == expected_s


@pytest.mark.parametrize("case", TIMES)
def test_times(case: str) -> None:
    changes, window_s, expected = TIMES[case]
    profile = make_profile(**({"preemption_window_s": window_s} if window_s else {}))
    found = times(make_queue(**changes), make_site(profile=profile))
    assert found.container_s == expected.container_s
    assert found.notice_s == pytest.approx(expected.notice_s)
    assert found.grace_s == pytest.approx(expected.grace_s)


@given(
    st.sampled_from(["RESERVED", "ON_DEMAND", "SPOT", "FLEX"]),
    st.floats(0, 100_000),
    st.none() | st.floats(1, 86_400),
)
def test_the_launcher_is_done_before_its_container_is_killed(
    capacity_type: str, grace_s: float, window_s: float | None
) -> None:
    profile = make_profile(**({"preemption_window_s": window_s} if window_s else {}))
    queue = make_queue(capacity_type=capacity_type, stop_grace_s=grace_s)
    found = times(queue, make_site(profile=profile))
    assert found.grace_s < found.notice_s < found.container_s
