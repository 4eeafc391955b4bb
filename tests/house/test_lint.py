"""The linter refuses what the house forbids, and only there. `make check` runs it on the tree."""

from __future__ import annotations

import subprocess

import pytest

from tests.house.tree import ROOT, SCRIPTS

DOC = '"""A module."""\n\n'
SLEEP = DOC + "import asyncio\n\n\nasync def f() -> None:\n    await asyncio.sleep(1)\n"
TASK = DOC + "import asyncio\n\nasyncio.create_task(f())\n"
PRINT = DOC + 'print("x")\n'

REFUSED = [
    ("broker/loops/a.py", SLEEP, "TID251"),
    ("regions/local/a.py", SLEEP, "TID251"),
    ("broker/service/a.py", TASK, "TID251"),
    ("broker/store/a.py", PRINT, "T201"),
    ("replicator/a.py", PRINT, "T201"),
    ("broker/store/a.py", DOC + 'f(f"SELECT {x} FROM run")\n', "S608"),
    ("broker/loops/a.py", DOC + "import datetime\n\ndatetime.datetime.now()\n", "DTZ005"),
    ("broker/loops/a.py", DOC + "try:\n    f()\nexcept Exception:\n    g()\n", "BLE001"),
    ("regions/launcher/a.py", DOC + "def f(x: int | None) -> None:\n    g(x)\n", "FA102"),
    ("broker/loops/a.py", DOC + "# TO" + "DO: later\n", "FIX002"),
]
ALLOWED = [
    ("broker/runtime/clock.py", SLEEP, "TID251"),
    ("regions/local/clock.py", SLEEP, "TID251"),
    ("tests/unit/a.py", SLEEP, "TID251"),
    ("broker/cli/a.py", PRINT, "T201"),
]


@pytest.mark.parametrize(("path", "text", "code"), REFUSED)
def test_it_is_refused(path: str, text: str, code: str) -> None:
    assert code in codes(path, text)


@pytest.mark.parametrize(("path", "text", "code"), ALLOWED)
def test_it_is_allowed_where_it_belongs(path: str, text: str, code: str) -> None:
    assert code not in codes(path, text)


def codes(path: str, text: str) -> set[str]:
    """Returns the codes of what ruff finds in a text that would stand at this path."""
    found = subprocess.run(
        [
            SCRIPTS / "ruff",
            "check",
            "--no-cache",
            "--output-format=concise",
            f"--stdin-filename={path}",
        ],
        cwd=ROOT,
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stderr == ""
    return {line.split()[1] for line in found.stdout.splitlines() if line.startswith(path)}
