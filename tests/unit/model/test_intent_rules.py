"""Which intents are accepted, field by field."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.model.checks import Problem
from broker.model.intent import (
    CapacityType,
    CheckpointSpec,
    HardwareOption,
    Input,
    Intent,
    Limits,
    ProgressSpec,
    Resources,
    SecretRef,
    Terms,
    Workload,
)
from broker.model.intent_rules import Known, problems
from broker.model.placeholders import unfilled
from broker.model.reasons import Reason
from tests.builders import GANG, START_WALL_S, make_intent, make_terms, make_workload


def fields_of(intent: Intent, known: Known | None = None) -> list[str]:
    return [problem.field for problem in problems(intent, known or Known())]


def with_workload(**changes: Any) -> Intent:
    return make_intent(workload=make_workload(**changes))


def with_terms(**changes: Any) -> Intent:
    return make_intent(terms=make_terms(**changes))


def test_a_plain_intent_is_accepted() -> None:
    assert problems(make_intent()) == ()


def test_an_intent_with_every_field_set_is_accepted() -> None:
    workload = Workload(
        command=("torchrun", "--node-rank=${RANK}", "train.py", "--out=${BROKER_CHECKPOINT_URI}"),
        hardware=(GANG, replace(GANG, nodes=1, relative_speed=0.5)),
        image="registry.example/train@sha256:" + "0" * 64,
        env=(("LR", "0.1"), ("GREETING", "a\nb $${literal}")),
        bundle_digest="a" * 64,
        resources=Resources(cpu_millis=4000, memory_bytes=2**34),
        secrets=(SecretRef(name="hub", env="HUB_TOKEN"), SecretRef(name="key", mount_path="/key")),
        service_account="trainer",
        inputs=(Input(uri="gs://corpus/a", size_bytes=10, regions=("alpha",), remote_reads=True),),
        checkpoint=CheckpointSpec(interval_s=600.0, keep_last=5, keep_every_steps=1000),
        progress=ProgressSpec(timeout_s=900.0, loss_field="train/loss"),
        internet=True,
        service_account_token=True,
    )
    terms = Terms(
        capacity_types=tuple(CapacityType),
        regions=("alpha", "beta"),
        residency=("alpha", "beta"),
        max_wait_s=7200.0,
        max_requeue_wait_s=3600.0,
        deadline_wall_s=START_WALL_S + 86_400,
        expected_duration_s=3600.0,
        budget=Decimal("125.50"),
        priority=-3,
        limits=Limits(user_restarts=0, infrastructure_losses=0),
    )
    intent = Intent(
        team="vision", owner="ada", workload=workload, terms=terms, labels=(("paper", "iclr"),)
    )
    known = Known(regions=frozenset({"alpha", "beta"}), now_wall_s=START_WALL_S)
    assert problems(intent, known) == ()


@pytest.mark.parametrize(
    ("intent", "field"),
    [
        (make_intent(team="Vision"), "parent"),
        (make_intent(owner="a\nb"), "intent.owner"),
        (make_intent(labels=(("a", "x"), ("a", "y"))), "intent.labels"),
        (make_intent(labels=(("a b", "x"),)), "intent.labels"),
        (make_intent(labels=(("a", "x" * 257),)), 'intent.labels["a"]'),
        (with_workload(command=()), "intent.workload.command"),
        (with_workload(command=("",)), "intent.workload.command[0]"),
        (with_workload(command=("a", "b\x00")), "intent.workload.command[1]"),
        (with_workload(command=("a", "${HOME}")), "intent.workload.command[1]"),
        (with_workload(command=("a", "x${RANK")), "intent.workload.command[1]"),
        (with_workload(command=("a",) * 257), "intent.workload.command"),
        (with_workload(hardware=()), "intent.workload.hardware"),
        (with_workload(hardware=(GANG, GANG)), "intent.workload.hardware"),
        (with_workload(hardware=(replace(GANG, nodes=0),)), "intent.workload.hardware[0].nodes"),
        (
            with_workload(hardware=(replace(GANG, accelerators_per_node=-1),)),
            "intent.workload.hardware[0].accelerators_per_node",
        ),
        (
            with_workload(hardware=(replace(GANG, relative_speed=math.nan),)),
            "intent.workload.hardware[0].relative_speed",
        ),
        (
            with_workload(hardware=(GANG, replace(GANG, accelerator=""))),
            "intent.workload.hardware[1].accelerator",
        ),
        (with_workload(image="a b"), "intent.workload.image"),
        (with_workload(env=(("1A", "x"),)), "intent.workload.env"),
        (with_workload(env=(("RANK", "0"),)), "intent.workload.env"),
        (with_workload(env=(("BROKER_RUN", "0"),)), "intent.workload.env"),
        (with_workload(env=(("A", "x"), ("A", "y"))), "intent.workload.env"),
        (with_workload(env=(("A", "${B}"),)), 'intent.workload.env["A"]'),
        (with_workload(env=(("A", "x" * 65_536),)), "intent.workload.env"),
        (
            with_workload(env=(("A", "x"),), secrets=(SecretRef(name="s", env="A"),)),
            "intent.workload.env",
        ),
        (with_workload(secrets=(SecretRef(name="s"),)), "intent.workload.secrets[0]"),
        (
            with_workload(secrets=(SecretRef(name="s", mount_path="/a/../b"),)),
            "intent.workload.secrets[0].mount_path",
        ),
        (with_workload(bundle_digest="A" * 64), "intent.workload.bundle_digest"),
        (
            with_workload(resources=Resources(memory_bytes=-1)),
            "intent.workload.resources.memory_bytes",
        ),
        (
            with_workload(
                inputs=(Input(uri="here", size_bytes=0, regions=(), remote_reads=False),)
            ),
            "intent.workload.inputs[0].uri",
        ),
        (
            with_workload(checkpoint=CheckpointSpec(interval_s=math.inf)),
            "intent.workload.checkpoint.interval",
        ),
        (
            with_workload(checkpoint=CheckpointSpec(keep_last=0)),
            "intent.workload.checkpoint.keep_last",
        ),
        (
            with_workload(progress=ProgressSpec(timeout_s=0.0)),
            "intent.workload.progress.timeout",
        ),
        (with_terms(capacity_types=()), "intent.terms.capacity_types"),
        (with_terms(regions=("alpha", "alpha")), "intent.terms.regions"),
        (with_terms(regions=("Alpha",)), "intent.terms.regions[0]"),
        (with_terms(max_wait_s=-1.0), "intent.terms.max_wait"),
        (with_terms(max_requeue_wait_s=math.nan), "intent.terms.max_requeue_wait"),
        (with_terms(expected_duration_s=1e12), "intent.terms.expected_duration"),
        (with_terms(deadline_wall_s=math.inf), "intent.terms.deadline"),
        (with_terms(budget=Decimal(0)), "intent.terms.budget"),
        (with_terms(budget=Decimal("NaN")), "intent.terms.budget"),
        (with_terms(budget=Decimal("0.0000001")), "intent.terms.budget"),
        (with_terms(priority=10**9), "intent.terms.priority"),
        (with_terms(limits=Limits(user_restarts=-1)), "intent.terms.limits.user_restarts"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_named(intent: Intent, field: str) -> None:
    assert fields_of(intent) == [field]


def test_a_region_that_nobody_knows_is_named() -> None:
    intent = with_terms(regions=("alpha", "atlantis"))
    assert fields_of(intent, Known(regions=frozenset({"alpha"}))) == ["intent.terms.regions[1]"]


def test_a_region_outside_the_residency_is_named() -> None:
    intent = with_terms(regions=("europe-west4", "us-east1"), residency=("europe",))
    assert problems(intent) == (
        Problem(
            field="intent.terms.regions[1]",
            message="us-east1 lies outside the residency",
            reason=Reason.RESIDENCY,
        ),
    )


@pytest.mark.parametrize(
    ("region", "word", "is_within"),
    [
        ("europe-west1", "europe", True),
        ("europe-west1", "europe-west1", True),
        ("europe", "europe", True),
        ("europe-west1", "eu", False),
        ("eu-west4", "eu", True),
        ("europes-1", "europe", False),
        ("europe-west12", "europe-west1", False),
    ],
)
def test_a_jurisdiction_is_whole_words(region: str, word: str, is_within: bool) -> None:
    terms = with_terms(residency=(word,)).terms
    assert terms.keeps_residency(region) is is_within
    assert with_terms().terms.keeps_residency(region)


def test_a_jurisdiction_that_is_none_is_named() -> None:
    assert fields_of(with_terms(residency=("europe", "eu-"))) == ["intent.terms.residency[1]"]
    (found,) = problems(
        with_terms(residency=("eu",)), Known(regions=frozenset({"us-east4", "europe-west1"}))
    )
    assert (found.field, found.reason) == ("intent.terms.residency", Reason.RESIDENCY)
    assert found.message == "no region lies within eu; there are: europe-west1, us-east4"


def test_a_deadline_that_has_passed_is_said_before_money_is_spent() -> None:
    intent = with_terms(deadline_wall_s=START_WALL_S)
    found = problems(intent, Known(now_wall_s=START_WALL_S))
    assert [(p.field, p.reason) for p in found] == [
        ("intent.terms.deadline", Reason.DEADLINE_PASSED)
    ]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("plain $HOME", []),
        ("${A}-${B}", ["A", "B"]),
        ("$${A}", []),
        ("$$${A}", ["A"]),
        ("${", [""]),
        ("${A", [""]),
    ],
)
def test_a_placeholder_is_found_where_it_is(text: str, names: list[str]) -> None:
    assert list(unfilled(text)) == names


_any_text = st.text(alphabet=st.characters(codec=None), max_size=40)
_any_int = st.integers(-(2**63), 2**63 - 1)
_any_float = st.floats()


@given(
    st.builds(
        Intent,
        team=_any_text,
        owner=_any_text,
        labels=st.lists(st.tuples(_any_text, _any_text), max_size=3).map(tuple),
        workload=st.builds(
            Workload,
            command=st.lists(_any_text, max_size=3).map(tuple),
            hardware=st.lists(
                st.builds(
                    HardwareOption,
                    accelerator=_any_text,
                    accelerators_per_node=_any_int,
                    nodes=_any_int,
                    relative_speed=_any_float,
                ),
                max_size=2,
            ).map(tuple),
            image=_any_text,
            env=st.lists(st.tuples(_any_text, _any_text), max_size=3).map(tuple),
            secrets=st.lists(
                st.builds(SecretRef, name=_any_text, env=_any_text, mount_path=_any_text),
                max_size=2,
            ).map(tuple),
            bundle_digest=_any_text,
        ),
        terms=st.builds(
            Terms,
            capacity_types=st.lists(st.sampled_from(CapacityType), max_size=5).map(tuple),
            regions=st.lists(_any_text, max_size=3).map(tuple),
            residency=st.lists(_any_text, max_size=3).map(tuple),
            max_wait_s=st.none() | _any_float,
            deadline_wall_s=st.none() | _any_float,
            budget=st.none() | st.decimals(),
            priority=_any_int,
        ),
    )
)
def test_no_intent_makes_the_judge_raise(intent: Intent) -> None:
    for problem in problems(intent, Known(regions=frozenset({"alpha"}), now_wall_s=0.0)):
        assert problem.field == "parent" or problem.field.startswith("intent.")
        assert problem.message
        assert len(problem.message) < 300


@pytest.mark.parametrize(
    ("intent", "said"),
    [
        (with_terms(budget=Decimal("0E-9")), "0; more than 0 and up to 100000000 is accepted"),
        (with_terms(budget=Decimal("NaN")), "NaN; more than 0 and up to 100000000 is accepted"),
        (
            with_terms(expected_duration_s=0.0),
            "0 s; a thousandth of a second to 366 days is accepted",
        ),
        (with_terms(regions=("mars",)), "there is no region mars; there are: alpha, beta"),
    ],
)
def test_what_is_accepted_is_said_as_people_say_it(intent: Intent, said: str) -> None:
    (problem,) = problems(intent, Known(regions=frozenset({"beta", "alpha"})))
    assert problem.message == said


def test_the_longest_message_makes_no_long_list_of_problems() -> None:
    # As long as a request may be, and wrong wherever it can be: whoever judges it waits.
    empty = ("",) * 1_000
    pairs = tuple((f"={n}", "${}" * 1_000) for n in range(1_000))
    hostile = make_intent(
        workload=make_workload(
            command=("${}" * 1_000,) * 1_000,
            hardware=(replace(GANG, nodes=0, accelerator="", relative_speed=math.nan),) * 1_000,
            env=pairs,
            secrets=(SecretRef(name="", env="=", mount_path="../"),) * 1_000,
            inputs=(Input(uri="", size_bytes=-1, regions=empty, remote_reads=False),) * 1_000,
        ),
        terms=make_terms(regions=empty, residency=empty),
        labels=pairs,
    )
    found = problems(hostile)
    assert len(found) < 12_000
    told = {problem.field.partition("[")[0] for problem in found}
    lists = ("command", "hardware", "env", "secrets", "inputs")
    assert told >= {f"intent.workload.{name}" for name in lists}
    assert told >= {"intent.terms.regions", "intent.terms.residency", "intent.labels"}
