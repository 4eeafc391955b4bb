"""The tree keeps every measurable rule, and every rule finds the fault planted for it."""

from __future__ import annotations

import pytest

from tests.house.rules import PYTHON_RULES, RULES, TEXT_RULES
from tests.house.tree import text_of, written_files

TEXT_SUFFIXES = (
    ".py",
    ".md",
    ".proto",
    ".toml",
    ".txt",
    ".yaml",
    ".yml",
    ".lock",
    "Makefile",
    "run",
)

# A rule that makes the code worse is broken, with its reason here: (rule, file): why.
EXCUSED: dict[tuple[str, str], str] = {}

# Texts that break one rule each, and are only read: a rule that lets its own pass holds nothing.
PLANTED = [
    ("a module is Python 3.11", "broker/a.py", "type Row = tuple[int, str]\n"),
    ("a module has at most 400 lines", "broker/loops/a.py", "x = 1\n" * 401),
    ("a function has at most 70 lines", "broker/a.py", "def f():\n" + "    x = 1\n" * 70),
    ("at most five parameters are positional", "broker/a.py", "def f(self, a, b, c, d, e, f): ..."),
    ("a module says what it is", "broker/loops/a.py", "x = 1\n"),
    ("pure packages ask no clock and open no file", "broker/policy/a.py", "t = datetime.now()"),
    ("pure packages ask no clock and open no file", "broker/model/a.py", "with open(p) as f: ..."),
    ("our own code is never mocked", "tests/unit/test_a.py", "from unittest import mock"),
    ("no test is skipped or expected to fail", "tests/test_a.py", "pytest.mark.sk" + "ip"),
    (
        "what is not there yet is not promised",
        "broker/a.py",
        "def f():\n raise NotImpl" + "ementedError",
    ),
    ("every test can fail", "tests/test_a.py", "def test_nothing():\n    f()\n"),
    ("the project speaks of itself alone", "README.md", "see /wor" + "k/here\n"),
    ("the project speaks of itself alone", "README.md", "as iss" + "ue #3 says\n"),
]


@pytest.mark.parametrize("name", RULES)
def test_the_tree_keeps_the_rule(name: str) -> None:
    suffixes = TEXT_SUFFIXES if name in TEXT_RULES else (".py",)
    findings = [
        finding
        for path in written_files(*suffixes)
        if (name, path) not in EXCUSED
        for finding in RULES[name](path, text_of(path))
    ]
    assert findings == []


@pytest.mark.parametrize(("name", "path", "text"), PLANTED)
def test_a_planted_fault_is_found(name: str, path: str, text: str) -> None:
    assert len(RULES[name](path, text)) == 1


def test_every_rule_has_a_planted_fault() -> None:
    assert {name for name, _, _ in PLANTED} == PYTHON_RULES.keys() | TEXT_RULES.keys()


def test_every_excuse_is_still_needed() -> None:
    assert [(name, path) for name, path in EXCUSED if not RULES[name](path, text_of(path))] == []
