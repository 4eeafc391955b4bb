"""Intents as YAML: what is read, what is filled in, and what is refused by its path."""

from __future__ import annotations

import io
import json
import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.sdk import yamltext
from broker.sdk.errors import BrokerError, IntentError
from broker.sdk.gathering import FOUND_MAX
from broker.sdk.intent import load_intent, parse_intent, parse_message
from broker.sdk.showing import as_yaml
from broker.sdk.substitution import fill_in
from broker.v1 import intent_pb2, region_pb2

WHOLE = """
name: digits
team: vision
workload:
  command: python train.py --lr ${LR} --rank ${RANK}
  hardware:
    - 2x8xH100
    - {accelerator: A100, accelerators_per_node: 8, nodes: 4, relative_speed: 0.5}
  env: {DEBUG: yes, ZEROES: 007, EMPTY: ""}
  resources: {cpu_millis: 4000, memory_bytes: 32GiB}
  checkpoint: {format: pytorch-dcp, interval: 10m}
terms:
  capacity_types: [spot, On-Demand]
  regions: us-east4
  max_wait: 1h30m
  after_max_wait: last-rung
  deadline: 2030-03-01T18:00:00Z
  budget: $500
  limits: {user_restarts: 0}
  priority:
"""


def parsed(text: str, **variables: str) -> intent_pb2.Intent:
    return parse_intent(text.encode(), "i.yaml", variables).message


def refused(text: str, **variables: str) -> str:
    with pytest.raises(IntentError) as caught:
        parsed(text, **variables)
    return str(caught.value)


def refusal(data: bytes) -> BrokerError | None:
    """Read any bytes; return what is said against them."""
    try:
        parse_intent(data, "i.yaml", {})
    except BrokerError as error:
        return error
    return None


def test_an_intent_is_read_as_it_is_meant() -> None:
    found = parse_intent(WHOLE.encode(), "i.yaml", {"LR": "0.1"})
    assert (found.run_id, found.team) == ("digits", "vision")
    work, terms = found.message.workload, found.message.terms
    assert list(work.command) == ["python", "train.py", "--lr", "0.1", "--rank", "${RANK}"]
    assert [(h.nodes, h.accelerators_per_node, h.accelerator) for h in work.hardware] == [
        (2, 8, "H100"),
        (4, 8, "A100"),
    ]
    assert dict(work.env) == {"DEBUG": "yes", "ZEROES": "007", "EMPTY": ""}
    assert (work.resources.cpu_millis, work.resources.memory_bytes) == (4000, 32 << 30)
    assert work.checkpoint.format == intent_pb2.CHECKPOINT_FORMAT_PYTORCH_DCP
    assert list(terms.capacity_types) == [
        intent_pb2.CAPACITY_TYPE_SPOT,
        intent_pb2.CAPACITY_TYPE_ON_DEMAND,
    ]
    assert list(terms.regions) == ["us-east4"]
    assert (terms.max_wait.seconds, terms.budget.units, terms.budget.currency_code) == (
        5400,
        500,
        "USD",
    )
    assert terms.after_max_wait == intent_pb2.AFTER_MAX_WAIT_LAST_RUNG
    assert terms.limits.HasField("user_restarts")
    assert terms.limits.user_restarts == 0
    assert terms.priority == 0


def test_what_is_written_out_reads_as_the_same() -> None:
    from broker.cli.yamlout import dumped

    intent = parsed(WHOLE, LR="0.1")
    text = dumped(as_yaml(intent)).replace("${RANK}", "$RANK")
    again = parsed(text)
    again.workload.command[-1] = "${RANK}"
    assert again == intent


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("workload: {comand: x}", "workload.comand: is not known; did you mean command?"),
        ("wat: 1", "wat: is not known"),
        ("workload: [1]", "workload: must be a map"),
        ("terms: {max_wait: soon}", "terms.max_wait: 'soon' is not a duration"),
        ("terms: {capacity_types: [spott]}", "terms.capacity_types[0]: 'spott' is none of"),
        ("terms: {capacity_types: [unspecified]}", "terms.capacity_types[0]: "),
        ("terms: {priority: high}", "terms.priority: 'high' is not a whole number"),
        ("terms: {priority: 99999999999}", "terms.priority: 99999999999 is too large"),
        ("terms: {budget: -5}", "terms.budget: '-5' is not an amount"),
        ("terms: {deadline: soon}", "terms.deadline: 'soon' is not a time"),
        ("terms: {limits: {user_restarts: [1]}}", "terms.limits.user_restarts: must be a single"),
        ("workload: {hardware: [H100]}", "workload.hardware[0]: 'H100' is not hardware such as"),
        ("workload: {hardware: [{nodes: x}]}", "workload.hardware[0].nodes: 'x' is not a whole"),
        ("workload: {inputs: [{remote_reads: maybe}]}", "workload.inputs[0].remote_reads: 'maybe'"),
        ('workload: {command: "a \'b"}', "workload.command: cannot be split into words"),
        ("workload: {env: {A: [1]}}", 'workload.env["A"]: must be a single value'),
        ("name: [a]", "name: must be a text"),
        ("a: {b", "i.yaml: line 1: is not YAML"),
        ("a: 1\na: 2", "i.yaml: line 2: 'a' is there twice"),
        ("? [a]\n: 1", "i.yaml: line 1: a key must be a text"),
        ("- a", "i.yaml: must be a map with workload and terms"),
        ("", "i.yaml: must be a map with workload and terms"),
        ("a: 1\n---\nb: 2", "i.yaml: line 2: is not YAML"),
        ("labels: {a: ${X}}", "within { } or [ ] a ${VAR} needs quotes"),
    ],
)
def test_what_is_wrong_is_named_by_its_path(text: str, said: str) -> None:
    assert said in refused(text)


def test_everything_that_is_wrong_is_told_at_once_each_with_its_line() -> None:
    text = """
name: [a]
workload:
  command: train ${LR}
  hardware: [H100, 8xH100, {nodes: x, wat: 1}]
  env: {A: [1], B: two, C: [2]}
terms:
  capacity_types: [spott, flex]
  max_wait: soon
  budget: ${MONEY}
labels: ok
"""
    with pytest.raises(IntentError) as caught:
        parsed(text)
    assert [(one.field, one.message.rpartition(", ")[2]) for one in caught.value.violations] == [
        ("workload.command", "line 4)"),
        ("terms.budget", "line 10)"),
        ("name", "line 2)"),
        ("workload.hardware[0]", "line 5)"),
        ("workload.hardware[2].nodes", "line 5)"),
        ("workload.hardware[2].wat", "line 5)"),
        ('workload.env["A"]', "line 6)"),
        ('workload.env["C"]', "line 6)"),
        ("terms.capacity_types[0]", "line 8)"),
        ("terms.max_wait", "line 9)"),
        ("labels", "line 11)"),
    ]


def test_a_text_that_is_wrong_throughout_is_told_in_part() -> None:
    text = "workload:\n" + "".join(f"  wrong{n}: 1\n" for n in range(5_000))
    with pytest.raises(IntentError) as caught:
        parsed(text)
    assert len(caught.value.violations) == FOUND_MAX


def test_a_missing_variable_is_named_with_its_path() -> None:
    text = "workload: {command: [train, '--lr=${LR}']}"
    assert refused(text).startswith("workload.command[1]: the variable LR is not set")


def test_a_variable_holds_its_text_and_no_more() -> None:
    """What a variable holds makes no structure, no other value, and no further variable."""
    text = "workload: {command: ['${A}'], env: {B: '${B}'}}\nlabels: {c: '${B}'}"
    found = parsed(text, A="x, y]\nz: 1", B="${RANK}")
    assert list(found.workload.command) == ["x, y]\nz: 1"]
    assert found.workload.env["B"] == "$${RANK}"
    assert found.labels["c"] == "${RANK}"


def test_an_escape_stays_literal_and_run_time_names_are_left_to_the_run() -> None:
    assert fill_in("$${HOME} ${BROKER_RUN} ${RANK}", {}, is_run=True) == (
        "$${HOME} ${BROKER_RUN} ${RANK}"
    )
    assert fill_in("$${HOME}", {}) == "${HOME}"
    for text in ("${BROKER_RUN}", "${RANK}", "${", "${}", "${A B}", "${A", "${A${B}}"):
        with pytest.raises(ValueError, match="variable"):
            fill_in(text, {"A": "x", "B": "y"})


@given(st.text(alphabet="$ {}AB\\", max_size=30), st.text(alphabet="${}A", max_size=5))
def test_filling_in_says_a_sentence_or_leaves_nothing_unfilled(text: str, value: str) -> None:
    said, filled = "", ""
    try:
        filled = fill_in(text, {"A": value, "B": ""}, is_run=True)
    except ValueError as error:
        said = str(error)
    assert "variable" in said if said else "${" not in filled.replace("$${", "")


def test_aliases_unfold_within_a_bound() -> None:
    bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9)
    )
    assert f"holds more than {yamltext.NODES_MAX} values" in refused(bomb)
    assert "deeper than" in refused("a: &a [*a]")
    assert "deeper than" in refused("[" * 3000)
    assert "deeper than" in refused("a: " + "[" * 50 + "]" * 50)
    assert "the most is" in refused("a: " + "x" * yamltext.TEXT_MAX_BYTES)
    assert parsed("labels: {a: &x one, b: *x}").labels["b"] == "one"


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system ['true']",
        "!!python/name:os.system",
        "a: !x 1",
        "!!binary x",
    ],
)
def test_no_tag_is_followed(text: str) -> None:
    assert "is not known" in refused(text) or "must be a map" in refused(text)


@pytest.mark.parametrize("text", ["?", '"": 1', "team: a\nlabels:\n  ? x\n  '': ${LOST}"])
def test_a_key_without_a_name_is_refused_with_its_line(text: str) -> None:
    line = text.count("\n") + 1
    assert f"line {line}: a key is empty" in refused(text)


@given(st.binary(max_size=200))
@example(b"?")
def test_any_bytes_are_an_intent_or_a_sentence(data: bytes) -> None:
    error = refusal(data)
    assert error is None or error.field


LEAVES = st.one_of(
    st.text(alphabet=string.printable, max_size=12), st.integers(), st.booleans(), st.floats()
)
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["workload", "terms", "hardware", "command", "env", "inputs", "limits", "max_wait"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(TREES)
def test_any_tree_is_an_intent_or_a_sentence_with_its_path(tree: object) -> None:
    error = refusal(json.dumps(tree).encode())
    assert error is None or (error.field and error.message.startswith(error.field))


def test_a_policy_reads_as_it_is_written() -> None:
    from broker.cli.yamlout import dumped

    policy = region_pb2.Policy(name="regions/a/policy", allowed=False, weight=0.5, etag="3")
    policy.price_caps.add(capacity_type=intent_pb2.CAPACITY_TYPE_SPOT).price_per_gpu_hour.units = 3
    policy.patience.quota.seconds = 90
    again = region_pb2.Policy()
    parse_message(dumped(as_yaml(policy)).encode(), "policy.yaml", again, {})
    policy.price_caps[0].price_per_gpu_hour.currency_code = "USD"
    assert again == policy


def test_a_file_that_is_not_there_is_said_so() -> None:
    with pytest.raises(IntentError, match=r"nowhere\.yaml: cannot be read: No such file"):
        load_intent("nowhere.yaml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (WHOLE.replace("1h30m", "soon"), "terms.max_wait: 'soon' is not a duration"),
        (WHOLE.replace("us-east4", "{a: b}"), "terms.regions: must be a list"),
        (WHOLE.replace("nodes: 4", "nodes: four"), "workload.hardware[1].nodes: 'four'"),
        (WHOLE.replace("memory_bytes", "memory"), "workload.resources.memory: is not known"),
        (WHOLE.replace("spot", "spit"), "terms.capacity_types[0]: "),
        (WHOLE.replace("{user_restarts: 0}", "3"), "terms.limits: must be a map"),
        (WHOLE.replace("${LR}", "${LA}"), "workload.command: the variable LA is not set"),
        (WHOLE.replace("$500", "&a [b]\n  residency: *a"), "terms.budget: must be a single value"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, said: str) -> None:
    found = refused(text, LR="0.1")
    assert found.startswith(said)
    changed = [
        at
        for at, (old, new) in enumerate(zip(WHOLE.split("\n"), text.split("\n"), strict=False), 1)
        if old != new
    ]
    assert found.endswith(f" (i.yaml, line {changed[0]})")
    assert found.count("(i.yaml, line ") == 1


def test_an_intent_comes_by_standard_input_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(WHOLE.encode())))
    assert load_intent("-", {"LR": "0.1"}).run_id == "digits"
