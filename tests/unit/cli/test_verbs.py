"""The verbs: all load, all say how they are used, and none shows a stack trace."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from broker.cli import exits
from broker.cli.answers import ANSWERS
from broker.cli.main import _tell, main
from broker.cli.verbs import BROKER, VERBS, Family, Verb, wants_json
from broker.sdk import errors
from broker.v1 import (
    broker_service_pb2,
    checkpoint_pb2,
    event_pb2,
    offer_pb2,
    region_pb2,
    region_service_pb2,
    run_pb2,
    run_service_pb2,
    team_pb2,
)

NAMES = [name for section in VERBS.values() for name in section]


def leaves() -> Iterator[tuple[str, Verb]]:
    """Yield every verb with its whole name."""
    context = click.Context(BROKER)
    for name in NAMES:
        command = BROKER.get_command(context, name)
        if isinstance(command, Family):
            for inner in command.commands.values():
                assert isinstance(inner, Verb)
                yield f"{name} {inner.name}", inner
        else:
            assert isinstance(command, Verb)
            yield name, command


LEAVES = list(leaves())


@pytest.mark.parametrize(("name", "verb"), LEAVES, ids=[name for name, _ in LEAVES])
def test_every_verb_has_help_with_an_example_that_can_be_typed(
    name: str, verb: Verb, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*name.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--output" in shown
    assert "RANGE" not in shown
    assert "Example:" in shown
    assert "With --output json:" in shown
    lines = [line.strip() for line in verb.example.strip().splitlines()]
    assert any(f"broker {name.removesuffix(' list')}" in line for line in lines)
    assert verb.help


def test_what_each_verb_answers_to_programs_is_said() -> None:
    assert sorted(ANSWERS) == sorted(name for name, _ in LEAVES)
    modules = (
        broker_service_pb2, checkpoint_pb2, event_pb2, offer_pb2, region_pb2, region_service_pb2,
        run_pb2, run_service_pb2, team_pb2,
    )  # fmt: skip
    messages = {name for one in modules for name in one.DESCRIPTOR.message_types_by_name}
    named = {word for said in ANSWERS.values() for word in re.findall(r"\b[A-Z][a-z]\w+", said)}
    assert named - messages == set()


@pytest.mark.parametrize("name", [n for n in NAMES if isinstance(BROKER.get_command(click.Context(BROKER), n), Family)])  # fmt: skip  # noqa: E501
def test_every_family_lists_its_verbs_with_an_example(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Commands:" in shown
    assert "Example:" in shown


def test_the_help_lists_every_verb_and_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert [name for name in NAMES if f"  {name} " not in shown] == []
    assert [code for code, meaning in exits.CODES.items() if f"{code}" not in shown] == []


def test_every_error_has_its_exit_code() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    of_ours = [
        k for k in kinds if issubclass(k, errors.BrokerError) and k is not errors.BrokerError
    ]
    assert len(of_ours) == 18
    assert set(exits._BY_ERROR) == set(of_ours)
    assert set(exits._BY_ERROR.values()) <= set(exits.CODES)


def test_a_verb_that_is_not_there_names_the_one_that_was_meant(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["staus", "digits"]) == exits.USAGE
    assert "did you mean `broker status`?" in capsys.readouterr().err


def test_where_nobody_listens_it_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = f"--server=unix:{tmp_path}/none"
    assert main([server, "status", "digits"]) == exits.UNREACHABLE
    said = capsys.readouterr().err
    assert said.startswith(f"broker: no broker answers at unix:{tmp_path}/none\n")
    assert "Start it with `brokerd`" in said
    assert main([server, "-o", "json", "status", "digits"]) == exits.UNREACHABLE
    assert '"reason": "UNREACHABLE"' in capsys.readouterr().err


def test_an_address_that_is_none_is_a_matter_of_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--server", "banana", "status", "digits"]) == exits.USAGE
    said = "--server: 'banana' is neither unix:/PATH nor HOST:PORT\n"
    assert capsys.readouterr().err == f"broker: {said}"
    monkeypatch.setenv("BROKER_SERVER", "banana")
    assert main(["ls"]) == exits.USAGE
    said = "BROKER_SERVER: 'banana' is neither unix:/PATH nor HOST:PORT\n"
    assert capsys.readouterr().err == f"broker: {said}"


@pytest.mark.parametrize(
    "typed",
    [
        ["status", "dig\udcff"],
        ["cancel", "digits", "--message", "\udcff"],
        ["--team", "\udcff", "ls"],
        ["submit", "--no-workdir", "--hardware", "1xH100", "--capacity", "spot", "--", "\udcff"],
    ],
)
def test_what_is_typed_and_no_text_is_a_matter_of_usage(
    typed: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([f"--server=unix:{tmp_path}/none", *typed]) == exits.USAGE
    assert capsys.readouterr().err.endswith("\\udcff' is not text in UTF-8\n")


def test_a_fault_of_ours_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("broker.cli.session.find", fail)
    assert main(["doctor"]) == exits.FAULT
    assert capsys.readouterr().err == (
        "broker: a fault of this program: ZeroDivisionError: oh\nBROKER_DEBUG=1 shows where.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["submit", "i.yaml", "python"], "unexpected extra argument"),
        (["cancel", "digits", "--grace", "soon"], "not a duration such as 90s"),
        (["compare", "digits"], "name 2 to 8 runs"),
        (["resume", "digits", "--from-step", "1", "--from-beginning"], "exclude each other"),
        (["local", "preempt", "us-east4"], "either --flavor or --placement"),
        (["team", "caps", "vision"], "which cap to change"),
        (["amend", "digits", "--wat"], "No such option"),
        (["ls", "--label", "x"], "not KEY=VALUE"),
        (["status"] + ["x"] * 2, "unexpected extra argument"),
    ],
)
def test_what_is_typed_wrong_is_told_before_anybody_is_asked(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--server", "unix:/nowhere", *arguments]) == exits.USAGE
    assert said in capsys.readouterr().err


def test_all_that_is_missing_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--server", "unix:/nowhere", "submit", "--max-wait", "soon"]) == exits.INVALID
    assert capsys.readouterr().err.splitlines() == [
        "broker: some fields are not as they must be:",
        "  terms.max_wait: 'soon' is not a duration such as 90s, 30m or 1h30m",
        "  workload.command: is missing: name an intent file, or give the command after --",
        "  workload.hardware: is missing; such as --hardware 8xH100",
        "  terms.capacity_types: is missing; such as --capacity spot",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["submit", "--hardware", "x", "--capacity", "spot", "--", "a"], "workload.hardware[0]: "),
        (["submit", "--hardware", "8xH100", "--", "true"], "terms.capacity_types: is missing"),
        (["submit", "--capacity", "spot", "--", "true"], "workload.hardware: is missing"),
        (["submit", "nowhere.yaml"], "nowhere.yaml: cannot be read"),
        (["status", "a/b/c"], "RUN: 'a/b/c' is neither RUN nor TEAM/RUN"),
    ],
)
def test_a_field_that_is_wrong_is_named_before_anybody_is_asked(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--server", "unix:/nowhere", *arguments]) == exits.INVALID
    assert capsys.readouterr().err.startswith(f"broker: {said}")


def test_a_command_without_its_dashes_is_told_where_it_goes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["submit", "--hardware", "1xH100", "python3", "train.py"]) == exits.USAGE
    told = capsys.readouterr().err
    assert "extra argument (train.py); what is to be run comes after --" in told


@pytest.mark.parametrize("typed", [["staus"], ["status", "--wat"], ["submit", "--env", "x"]])
def test_a_program_is_told_in_json_that_it_is_not_understood(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["-o", "json", *typed]) == exits.USAGE
    said = json.loads(capsys.readouterr().err)["error"]
    assert (said["reason"], said["violations"], said["exit_code"]) == ("USAGE", [], exits.USAGE)
    assert said["message"]


@pytest.mark.parametrize(
    ("typed", "is_json"),
    [
        ("status -o json", True),
        ("--output=json status", True),
        ("status -o table", False),
        ("submit -- train -o json", False),
    ],
)
def test_json_is_asked_for_before_the_dashes(typed: str, *, is_json: bool) -> None:
    assert wants_json(typed.split()) is is_json


def test_a_number_that_is_none_is_called_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoints", "mark", "digits", "abc"]) == exits.USAGE
    assert "'abc' is not a valid number." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("intent.terms.regions[0]: there is no region mars", "terms.regions[0]: there is no"),
        ("run_id: is not an id", "name: is not an id"),
        ("the intent. is a word", "the intent. is a word"),
    ],
)
def test_a_field_is_named_as_it_stands_in_the_file(
    said: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _tell(errors.Invalid(said), [])
    assert capsys.readouterr().err.startswith(f"broker: {told}")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["submit", "--capacity", "s"], ["spot"]),
        (["amend", "digits", "--after-max-wait", ""], ["fail", "keep-waiting", "last-rung"]),
        (["ls", "--state", "r"], ["rejected", "running"]),
        (["ls", "--state", "e"], ["ended"]),
    ],
)
def test_the_words_of_a_flag_are_completed(typed: list[str], offered: list[str]) -> None:
    found = ShellComplete(BROKER, {}, "broker", "_BROKER_COMPLETE")
    items = found.get_completions(typed[:-1], typed[-1])
    assert sorted(item.value for item in items) == offered
