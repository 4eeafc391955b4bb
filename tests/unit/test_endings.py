"""How brokerd ends: a code that is stable, and says whether a start again helps."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from broker import daemon, endings
from broker.config import ConfigError
from broker.loops.desk import NewerIncarnationError
from broker.options import StartError
from broker.runtime.tasks import Fatal
from broker.service.address import AddressRefusedError
from broker.store import errors
from broker.store.ledger import LOG_NAME
from regions.local.config import ConfigError as WorldError
from regions.local.spawn import ClusterDidNotStartError
from tests.unit.store.ledgers import committing
from tests.unit.store.test_unwritable import order_of

BY_ERROR = [
    (RuntimeError, 1),
    (Fatal, 1),
    (ConfigError, 2),
    (AddressRefusedError, 2),
    (StartError, 2),
    (WorldError, 2),
    (errors.LogInUseError, 4),
    (errors.LogExistsError, 4),
    (errors.LogConflictError, 4),
    (errors.LogUnwritableError, 5),
    (errors.LogUnreadableError, 5),
    (errors.LogBusyError, 5),
    (errors.LogClosedError, 5),
    (ClusterDidNotStartError, 5),
    (errors.LogDamagedError, 6),
    (errors.LogIncompatibleError, 6),
    (NewerIncarnationError, 7),
]


@pytest.mark.parametrize(("kind", "code"), BY_ERROR)
def test_each_error_has_its_code(kind: type[Exception], code: int) -> None:
    assert endings.code_of(kind("so it is")) == code


def test_each_code_is_told_by_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        daemon.main(["--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    for code, meaning in endings.CODES.items():
        assert f"\n  {code:<5}  {meaning}\n" in said
    assert f"\n  {endings.SIGNALS}\n" in said
    assert {code for _, code in BY_ERROR} <= set(endings.CODES)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a data directory with a log of one run."""
    folder = tmp_path / "data"
    folder.mkdir()
    with committing(folder / LOG_NAME) as (committer, _, _):
        committer.commit([order_of("digits")])
    return folder


def ended(data: Path, *arguments: str) -> int:
    return daemon.main([*arguments, "--data-dir", str(data)])


def test_a_tool_that_is_done_ends_with_0(data: Path, tmp_path: Path) -> None:
    assert ended(data, "backup", str(tmp_path / "b.db")) == 0
    assert ended(data, "rebuild", "--check") == 0
    assert ended(tmp_path / "other", "restore", str(tmp_path / "b.db")) == 0


def test_what_is_not_there_is_a_mistake_of_the_command_line(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for tool in (["backup", str(tmp_path / "b.db")], ["rebuild"], ["restore", str(tmp_path / "b")]):
        assert ended(tmp_path / "empty", *tool) == 2
        assert capsys.readouterr().err.startswith("brokerd: there is no ")
    assert ended(data, "--server", "0.0.0.0:1") == 2
    assert ended(data, "--config", str(tmp_path / "none.toml")) == 2
    with pytest.raises(SystemExit) as refused:
        ended(data, "wat")
    assert refused.value.code == 2


def test_views_that_differ_are_told_from_a_failure(data: Path) -> None:
    with sqlite3.connect(data / LOG_NAME) as connection:
        connection.execute("delete from runs")
    connection.close()
    assert ended(data, "rebuild", "--check") == 3
    assert ended(data, "rebuild") == 0
    assert ended(data, "rebuild", "--check") == 0


def test_a_restore_over_something_is_in_the_way(data: Path, tmp_path: Path) -> None:
    assert ended(data, "backup", str(tmp_path / "b.db")) == 0
    assert ended(data, "restore", str(tmp_path / "b.db")) == 4


def test_a_place_that_takes_no_backup_may_take_it_later(data: Path, tmp_path: Path) -> None:
    assert ended(data, "backup", str(tmp_path / "nowhere" / "b.db")) == 5


def test_what_is_no_log_is_damage(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_bytes(b"a text about capacity, nothing else\n" * 100)
    assert ended(tmp_path / "other", "restore", str(file)) == 6
    (data / LOG_NAME).write_bytes(file.read_bytes())
    assert ended(data, "rebuild", "--check") == 6
    assert ended(data, "backup", str(tmp_path / "b.db")) == 6
