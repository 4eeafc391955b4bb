"""broker/v1 is what the protos say, and each rule about protos refuses the fault planted for it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.tree import ROOT

RELEASED = """\
syntax = "proto3";

package broker.v1;

import "google/api/field_behavior.proto";

// A thing.
message Thing {
  // Its name.
  string name = 1 [(google.api.field_behavior) = REQUIRED];
}
"""
PLANTED = [
    ("  // Its name.\n", "", "non-empty comment"),
    ("string name = 1", "string Name = 1", "lower_snake_case"),
    ("string name = 1", "int64 name = 1", "changed type"),
    ("// A thing.\nmessage", "// A thing.\n\n\nmessage", "buf format"),
    ("string name = 1", "strin name = 1", "not defined"),
]


def test_the_generated_code_is_current_and_the_protos_keep_their_rules() -> None:
    code, said = generate(ROOT, "--check")
    assert code == 0, said


def test_protos_as_released_pass(released: Path) -> None:
    assert generate(released, "--check") == (0, "")


@pytest.mark.parametrize(("old", "new", "sentence"), PLANTED)
def test_a_planted_fault_is_refused(old: str, new: str, sentence: str, released: Path) -> None:
    (released / "proto/broker/v1/thing.proto").write_text(RELEASED.replace(old, new))
    code, said = generate(released, "--check")
    assert (code, sentence in said) == (1, True), said


def test_generated_code_that_is_stale_or_left_over_is_refused(released: Path) -> None:
    (released / "broker/v1/gone_pb2.py").write_text("")
    (released / "broker/v1/thing_pb2.pyi").write_text("")
    code, said = generate(released, "--check")
    assert (code, said.split(": ")[-1]) == (1, "gone_pb2.py, thing_pb2.pyi\n")


@pytest.fixture(scope="module")
def first_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small tree whose one proto is generated and accepted."""
    root = tmp_path_factory.mktemp("released")
    (root / "proto/broker/v1").mkdir(parents=True)
    (root / "broker/v1").mkdir(parents=True)
    for name in ("generate.py", "buf.yaml"):
        shutil.copy(ROOT / "proto" / name, root / "proto")
    (root / "proto/broker/v1/thing.proto").write_text(RELEASED)
    assert generate(root) == generate(root, "--release") == (0, "")
    return root


@pytest.fixture
def released(first_release: Path, tmp_path: Path) -> Path:
    """A copy of that tree, to plant a fault in."""
    return shutil.copytree(first_release, tmp_path / "tree")


def generate(root: Path, *flags: str) -> tuple[int, str]:
    """Runs the generator of a tree; returns its exit code and all that it said."""
    result = subprocess.run(
        [sys.executable, root / "proto/generate.py", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return result.returncode, result.stdout
