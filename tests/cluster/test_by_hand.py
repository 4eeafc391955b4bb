"""The rig by hand: what ``make cluster-up`` says to type works, and ``down`` ends all of it."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.cluster.rig.__main__ import READY, REGIONS, holder, main

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.long,
    # ``up`` leaves its own child running on purpose.
    pytest.mark.filterwarnings("ignore:subprocess \\d+ is still running:ResourceWarning"),
]


def test_what_is_said_to_type_next_works_and_down_ends_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "up"
    try:
        assert main(["up", f"--folder={folder}"]) == 0
        told = capsys.readouterr().out
        assert (folder / READY).read_text().rstrip() in told
        export, *commands = [line.strip() for line in told.splitlines() if line.startswith("  ")]
        pairs = dict(word.split("=", 1) for word in shlex.split(export)[1:])
        for command in commands:
            done = subprocess.run(
                shlex.split(command),
                env={**os.environ, **pairs},
                check=False,
                capture_output=True,
                text=True,
                timeout=240,
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            if command.endswith(" regions"):
                assert all(name in done.stdout for name in REGIONS)
        assert main(["up", f"--folder={folder}"]) == 0  # they are up already, and it says so
        assert f"already up in {folder}" in capsys.readouterr().out
    finally:
        assert main(["down", f"--folder={folder}"]) == 0
    assert holder(folder) is None
    assert sorted(path.name for path in folder.iterdir()) == ["lock", "rig.log"]
    assert main(["down", f"--folder={folder}"]) == 0
    assert "nothing is up" in capsys.readouterr().out
