"""The program as a person uses it: scripts of commands and what they print, on a real brokerd.

A script is blocks of a command, ``----`` and what it prints; a line that begins with ``# `` is for
the reader. What is printed to standard error begins with ``! ``, and an exit code other than 0 is
told at the end as ``[exit 3]``. ``<word>`` in what is expected stands for one word, ``<any>`` for
the rest of a line, ``...`` alone for any lines. Runs of spaces count as one. A command with
``until TEXT: `` before it is repeated until it prints the text.
"""

from __future__ import annotations

import io
import re
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker.cli.main import main
from tests.cli.brokerd import Daemon

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*.txt"))
TREE = HERE.parents[1]
UNTIL_S = 120.0
PAUSE_S = 0.2

pytestmark = pytest.mark.alone


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_script_prints_what_is_written(
    file: Path, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "train.py").write_text((HERE / "train.py").read_text())
    monkeypatch.chdir(work)
    for name, value in {
        "HOME": str(tmp_path),
        "BROKER_SERVER": daemon.server,
        "BROKER_TEAM": file.stem.replace("_", "-"),
        "BROKER_USER": "ann",
        "PYTHON": sys.executable,
        "TREE": str(TREE),
        "COLUMNS": "100",
    }.items():
        monkeypatch.setenv(name, value)
    for block in read(file.read_text()):
        told = block.perform()
        assert matches(block.expected, told), (
            f"{file.name}:{block.line}: {block.command}\n"
            f"--- expected\n{block.expected}\n--- printed\n{told}"
        )


def test_every_script_is_found() -> None:
    assert len(FILES) >= 5


@dataclass(frozen=True)
class Block:
    """One command and what it is to print."""

    line: int
    command: str
    expected: str

    def perform(self) -> str:
        """Run it; return what it printed."""
        found = re.fullmatch(r"until (.+?): (.+)", self.command)
        if found is None:
            return run(self.command)
        text, command = found.groups()
        deadline = time.monotonic() + UNTIL_S
        while text not in _squeezed(told := run(command)):
            assert time.monotonic() < deadline, f"{text!r} never came; at last:\n{told}"
            time.sleep(PAUSE_S)
        return told


def read(text: str) -> Iterator[Block]:
    """Yield the blocks of a script."""
    lines = text.splitlines()
    starts = [i - 1 for i, line in enumerate(lines) if line == "----"]
    for at, following in zip(starts, [*starts[1:], len(lines)], strict=True):
        told = [line for line in lines[at + 2 : following] if not line.startswith("# ")]
        yield Block(at + 1, lines[at], "\n".join(told).strip())


def run(command: str) -> str:
    """Run a command line; return standard output, then errors, then the exit code."""
    # Only these: what else stands within ${} is for the program to fill in, or to refuse.
    command = command.replace("@TREE", str(TREE))
    program, *arguments = shlex.split(command)
    assert program == "broker", command
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    out.flush()
    assert isinstance(out.buffer, io.BytesIO)
    told = out.buffer.getvalue().decode().splitlines()
    told += [f"! {line}" for line in err.getvalue().splitlines()]
    if code:
        told.append(f"[exit {code}]")
    return "\n".join(told).strip()


def matches(expected: str, told: str) -> bool:
    """Whether what was printed is what was expected."""
    pattern = "\n".join(_pattern(line) for line in expected.splitlines())
    pattern = pattern.replace("ANY-LINES\n", "(?:.*\n)*").replace("\nANY-LINES", "(?:\n.*)*")
    return (
        re.fullmatch(pattern, "\n".join(_squeezed(line) for line in told.splitlines())) is not None
    )


def _pattern(line: str) -> str:
    if line.strip() == "...":
        return "ANY-LINES"
    parts = re.split(r"<(any|[a-z-]+)>", _squeezed(line))
    shown = [re.escape(one) if i % 2 == 0 else _hole(one) for i, one in enumerate(parts)]
    return "".join(shown)


def _hole(name: str) -> str:
    return ".*" if name == "any" else r"\S+"


def _squeezed(line: str) -> str:
    return re.sub(r" +", " ", line.rstrip())


@pytest.mark.parametrize(
    ("expected", "told", "is_same"),
    [
        ("a   b", "a b", True),
        ("a <n> c", "a 17 c", True),
        ("a <n> c", "a 1 7 c", False),
        ("a <any>", "a b c d", True),
        ("a\n...\nz", "a\nz", True),
        ("a\n...\nz", "a\nb\nc\nz", True),
        ("a\n...", "a", True),
        ("...\nz", "b\nz", True),
        ("a", "a\nb", False),
        ("a.c", "abc", False),
    ],
)
def test_the_comparison_sees_what_differs(expected: str, told: str, *, is_same: bool) -> None:
    assert matches(expected, told) is is_same
