"""What runs inside the user's image asks for nothing but the Python found there: 3.8 at the least.

The launcher stands in front of the user's command, and `broker.sdk.training` inside it. Both are
held to the standard library and to what Python 3.8 knows, in syntax and in library.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.rules import imports, root_of
from tests.house.tree import ROOT, SCRIPTS, text_of, written_files

LAUNCHER = "regions/launcher"
TRAINING = "broker/sdk/training"


@pytest.mark.parametrize("package", [LAUNCHER, TRAINING])
def test_it_imports_the_standard_library_and_itself(package: str) -> None:
    assert [
        f"{path}:{line}: {name}"
        for path in sources(package)
        for line, name in imports(text_of(path))
        if not is_at_hand(name, package)
    ] == []


@pytest.mark.parametrize("package", [LAUNCHER, TRAINING])
def test_it_needs_no_more_than_python_38(package: str) -> None:
    assert too_new([str(ROOT / path) for path in sources(package)]) == ""


@pytest.mark.parametrize(
    "text",
    [
        "match x:\n    case 1: pass\n",
        "@dataclasses.dataclass(slots=True)\nclass A: ...\n",
        "import dataclasses\n\n@dataclasses.dataclass(kw_only=True)\nclass A: ...\n",
        "for a, b in zip(x, y, strict=True): pass\n",
        "from functools import cache\n",
        "name = 'ab'.removeprefix('a')\n",
        "import asyncio\nasyncio.to_thread(f)\n",
    ],
)
def test_what_is_too_new_is_found(text: str, tmp_path: Path) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text(text)
    assert too_new([str(planted)]) != ""


def test_a_stranger_is_found() -> None:
    assert not is_at_hand("yaml.safe_load", LAUNCHER)
    assert not is_at_hand("regions.cluster.Queue", LAUNCHER)


def sources(package: str) -> list[str]:
    """Returns the files of a package, or of the module of that name."""
    found = [p for p in written_files(".py") if p.startswith((f"{package}/", f"{package}.py"))]
    assert found, f"{package} is gone; this test looks at nothing"
    return found


def is_at_hand(name: str, package: str) -> bool:
    """Whether an import is of the standard library or of the package itself."""
    itself = package.replace("/", ".")
    return root_of(name) in sys.stdlib_module_names or f"{name}.".startswith(f"{itself}.")


def too_new(paths: list[str]) -> str:
    """Returns what vermin says of files that need more than Python 3.8; nothing when none does."""
    command = [
        str(SCRIPTS / "vermin"),
        "--target=3.8-",
        "--violations",
        "--no-tips",
        "-vvv",
        *paths,
    ]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return "" if found.returncode == 0 else found.stdout + found.stderr
