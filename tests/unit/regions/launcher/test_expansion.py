"""Names that are filled in where the process runs."""

import pytest

from regions.launcher.expansion import expand, expand_all

VALUES = {"RANK": "3", "BROKER_EPOCH": "2", "HOME": "/root", "BROKER_DIR": "/w/${RANK}"}
CASES = {
    "a run-time name becomes its value": ("--rank=${RANK}", "--rank=3"),
    "so does one of the broker's own": ("e${BROKER_EPOCH}", "e2"),
    "an escape becomes the literal": ("$${RANK}", "${RANK}"),
    "another name stays": ("${HOME}/$HOME", "${HOME}/$HOME"),
    "a name without a value stays": ("${MASTER_PORT}", "${MASTER_PORT}"),
    "what was filled in is not looked into": ("${BROKER_DIR}", "/w/${RANK}"),
    "what is no name stays": ("${} ${1} ${a-b}", "${} ${1} ${a-b}"),
}


@pytest.mark.parametrize(("text", "filled"), CASES.values(), ids=CASES.keys())
def test_expand(text: str, filled: str) -> None:
    assert expand(text, VALUES) == filled


def test_a_command_and_its_environment_are_filled_in_from_one_place() -> None:
    environ = {"RANK": "1", "NAME": "r${RANK}", "SAME": "plain"}
    assert expand_all(("run", "${RANK}", "${NAME}"), environ) == (
        ("run", "1", "${NAME}"),
        {"RANK": "1", "NAME": "r1", "SAME": "plain"},
    )
