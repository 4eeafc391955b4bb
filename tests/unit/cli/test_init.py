"""The intent that a newcomer begins with: it can be read, and it can be submitted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker.cli import exits
from broker.cli.init import COMMENT_COLUMN
from broker.cli.main import main
from broker.sdk.intent import load_intent

LONG_COLUMN = 58  # for the lines that reach beyond the first column


@pytest.mark.parametrize(
    "name", ["a", "digits", "a-name-of-forty-characters-as-long-as-it-"[:39] + "x"]
)
def test_what_is_written_is_read_again_and_its_comments_stand_in_columns(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "i.yaml", "--name", name]) == 0
    text = Path("i.yaml").read_text()
    loaded = load_intent("i.yaml", {})
    assert (loaded.run_id, list(loaded.message.workload.command)) == (name, ["python", "train.py"])
    beside = list(re.finditer(r"^(.*[^\s#].*?)  +# .*$", text, re.MULTILINE))
    assert len(beside) > 15
    for found in beside:
        column = found[0].index("# ", len(found[1]))
        is_long = len(found[1]) + 2 > COMMENT_COLUMN
        assert column in ({LONG_COLUMN, len(found[1]) + 2} if is_long else {COMMENT_COLUMN}), found[
            0
        ]


def test_a_file_that_is_called_intent_is_named_as_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["submit", "intent.yaml"]) == exits.INVALID
    assert capsys.readouterr().err.startswith("broker: intent.yaml: cannot be read: ")
    assert main(["init"]) == exits.OK
    assert main(["init"]) == exits.CONFLICT
    assert "broker: intent.yaml is there already" in capsys.readouterr().err


def test_every_line_that_is_commented_out_is_a_field(tmp_path: Path) -> None:
    """Uncommented, all of it is an intent; a field that was renamed would be refused here."""
    file = tmp_path / "i.yaml"
    assert main(["init", str(file), "--name", "digits"]) == 0
    lines = []
    for line in file.read_text().splitlines():
        found = re.match(r"^(\s*)# (\s*(?:- )?\w+:.*)$", line)
        prose = re.match(r"^\s*# (?:What|The gangs)", line)
        lines.append(line if found is None or prose else f"{found[1]}{found[2]}")
    file.write_text("\n".join(lines))
    message = load_intent(file, {"LR": "0.1"}).message
    assert message.terms.limits.user_restarts == 3
    assert list(message.terms.residency) == ["europe"]
    assert message.workload.inputs[0].remote_reads
