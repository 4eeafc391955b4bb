"""The layers hold, and each contract breaks when an import that it forbids is planted."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

from tests.house.tree import ROOT, SCRIPTS, text_of

PLANTED = {
    "broker/access/planted.py": "import grpc\n",
    "broker/store/planted.py": "import broker.service\nimport grpc\nimport regions\n",
    "broker/runtime/planted.py": "import broker.history\n",
    "broker/model/planted.py": "import time\n",
    "broker/service/planted.py": "import sqlite3\n",
    "regions/planted.py": "import replicator\n",
    "replicator/planted.py": "import broker\n",
    "regions/launcher/planted.py": "import yaml\n",
    "regions/kueue/objects/planted.py": "import kubernetes\n",
    "regions/gcp/shapes.py": "import grpc\n",
    "replicator/oci/headers.py": "import aiohttp\n",
    "broker/sdk/planted.py": "import broker.history\n",
    "broker/cli/planted.py": "import regions\n",
}


def test_the_layers_hold() -> None:
    code, output = lint_imports(ROOT)
    assert code == 0, output


def test_each_contract_breaks_on_a_planted_import(tmp_path: Path) -> None:
    for package in ("broker", "regions", "replicator"):
        shutil.copytree(ROOT / package, tmp_path / package)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for path, text in PLANTED.items():
        (tmp_path / path).write_text(text)
    code, output = lint_imports(tmp_path)
    kept = [name for name in contracts() if f"{name} KEPT" in output]
    assert (code, kept) == (1, []), output


def test_every_contract_is_a_sentence() -> None:
    assert [name for name in contracts() if len(name.split()) < 4] == []


def contracts() -> list[str]:
    """Returns the names of the contracts, in their order."""
    declared = tomllib.loads(text_of("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    return [contract["name"] for contract in declared]


def lint_imports(root: Path) -> tuple[int, str]:
    """Runs import-linter in a tree; returns its exit code and its output as one line."""
    result = subprocess.run(
        [SCRIPTS / "lint-imports", "--no-logo", "--no-cache"],
        cwd=root,
        env={"PYTHONPATH": str(root), "COLUMNS": "400"},
        capture_output=True,
        text=True,
        check=False,
    )
    return result.returncode, re.sub(r"\s+", " ", result.stdout + result.stderr)
