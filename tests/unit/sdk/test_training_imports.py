"""The training library is for any image with Python 3.8: the standard library and nothing else."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = sorted((ROOT / "broker" / "sdk" / "training").glob("*.py"))
AROUND = [ROOT / "broker" / "__init__.py", ROOT / "broker" / "sdk" / "__init__.py"]


@pytest.mark.parametrize("path", [*AROUND, *SOURCES], ids=lambda path: path.name)
def test_it_is_python_3_8(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    assert ast.get_docstring(tree)


def test_importing_it_loads_the_standard_library_only() -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); from broker.sdk import training;"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    command = [sys.executable, "-I", "-S", "-c", script, str(ROOT)]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    strangers = set(loaded.stdout.split()) - sys.stdlib_module_names
    assert strangers - {"__main__"} == {"broker"}
