"""Folders of keys: each goes with its process, and no other one does."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from regions.kueue import key_files

HOLDER = """
import sys, time
from regions.kueue.key_files import folder
print(folder(), flush=True)
if sys.argv[1] == "stays":
    time.sleep(600)
"""


def holder(tmp_path: Path, how: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLDER, how]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)


def made_by(process: subprocess.Popen[str]) -> Path:
    assert process.stdout is not None
    return Path(process.stdout.readline().strip())


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    key_files.folder.cache_clear()
    yield tmp_path
    key_files.folder.cache_clear()


def test_a_process_that_ends_leaves_no_folder(tmp_path: Path) -> None:
    with holder(tmp_path, "ends") as process:
        made = made_by(process)
        assert made.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_goes_and_who_lives_keeps_its_own(own: Path) -> None:
    stranger = own / f"{key_files.PREFIX}{os.getuid()}-begins"
    stranger.mkdir()
    with holder(own, "stays") as lives, holder(own, "stays") as dies:
        kept, left = made_by(lives), made_by(dies)
        (left / "client.key").write_text("a key")
        dies.send_signal(signal.SIGKILL)
        dies.wait()
        mine = Path(key_files.folder())
        assert set(own.iterdir()) == {kept, mine, stranger}
        assert mine.stat().st_mode & 0o777 == 0o700
        assert Path(key_files.folder()) == mine
        lives.kill()


def test_a_link_is_not_followed(own: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / key_files.LOCK).write_text("")
    (own / f"{key_files.PREFIX}{os.getuid()}-link").symlink_to(elsewhere)
    key_files.folder()
    assert (elsewhere / key_files.LOCK).exists()
