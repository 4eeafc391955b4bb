"""What the first page tells people to type is there, and its script trains."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click

from broker.cli.verbs import BROKER
from broker.demo.__main__ import NEXT
from broker.sdk import training
from tests.unit.demo.gang import ROOT

README = (ROOT / "README.md").read_text()
TYPED = re.compile(r"(?:^|[`$>] ?|&& |: )broker ((?:[a-z][a-z-]*[ \n]?)+)", re.MULTILINE)


def test_every_verb_on_the_page_is_one_of_the_command_line() -> None:
    typed = [words.split() for words in TYPED.findall(README + NEXT)]
    assert len(typed) > 20
    assert [words for words in typed if not is_a_verb(BROKER, words)] == []


def test_a_verb_that_is_not_there_is_found() -> None:
    assert TYPED.findall("broker submitt x.yaml\n`broker regions cordn R`") == [
        "submitt x",
        "regions cordn ",
    ]
    assert not is_a_verb(BROKER, ["submitt", "x"])
    assert not is_a_verb(BROKER, ["regions", "cordn"])


def test_the_script_on_the_page_trains_saves_and_resumes(tmp_path: Path) -> None:
    (script,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    source = f"def train_one_step():\n    return 0.5\n\n{script}"
    (tmp_path / "train.py").write_text(source.replace("1001", "301"))
    for _ in range(2):  # the second time there is nothing left to do
        done = subprocess.run(
            [sys.executable, "train.py"],
            cwd=tmp_path,
            env={**_without_broker(), "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
    newest = training.newest_complete(tmp_path / "checkpoints")
    assert newest is not None
    assert training.step_of(newest) == 300


def is_a_verb(group: click.Group, words: list[str]) -> bool:
    """Whether the words begin with a verb, and, if that is a group, with a verb of it."""
    context = click.Context(group)
    found = group.get_command(context, words[0])
    if isinstance(found, click.Group) and len(words) > 1:
        return found.get_command(context, words[1]) is not None
    return found is not None


def _without_broker() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("BROKER_")}
