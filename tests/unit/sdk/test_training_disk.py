"""A disk that takes no save ends that save and nothing else, whoever says so and however."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.sdk import training
from tests.unit.sdk.test_training_job import (
    LONG_S,
    ROOT,
    complete_steps,
    job_of,
    left_staged,
    save,
)


class FailedElsewhere(BaseException):
    """As a collective save of PyTorch says it: by rank, what was raised there."""

    def __init__(self, failures: dict[int, tuple[BaseException, str]]) -> None:
        super().__init__("not every rank saved")
        self.failures = failures


def write_to_a_full_disk(part: Path) -> None:
    """Write until the device says that nothing is left."""
    (part / "weights").symlink_to("/dev/full")
    (part / "weights").write_bytes(b"w" * 100_000)


def wrap_a_full_disk(part: Path) -> None:
    try:
        write_to_a_full_disk(part)
    except OSError as error:
        raise RuntimeError("the writer failed") from error


def hear_of_a_full_disk(part: Path) -> None:
    (part / "weights").write_text("whole")
    raise FailedElsewhere({1: (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "line 3")})


def hear_of_a_torn_archive(part: Path) -> None:
    raise FailedElsewhere({1: (RuntimeError("[enforce fail] . unexpected pos 704 vs 598"), "")})


def exceed_a_quota(part: Path) -> None:
    raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), str(part / "weights"))


def break_at_a_name_that_is_no_text(part: Path) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO), os.fsencode(part) + b"/\xff")


def break_where_it_went_to(part: Path) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO), os.path.relpath(part / "weights"))


@pytest.mark.parametrize(
    "fail",
    [
        break_at_a_name_that_is_no_text,
        break_where_it_went_to,
        write_to_a_full_disk,
        wrap_a_full_disk,
        hear_of_a_full_disk,
        hear_of_a_torn_archive,
        exceed_a_quota,
    ],
)
def test_law_a_disk_that_takes_no_save_stops_no_training(
    tmp_path: Path, fail: Callable[[Path], None]
) -> None:
    job = job_of(tmp_path)
    with job:
        job.report(10, loss=0.5)
        with job.saving(10) as part:
            fail(part)
        assert left_staged(tmp_path) == []
        said = progress(tmp_path)
        assert (said["step"], said["loss"]) == (10, 0.5)
        assert str(said["fields"]["checkpoint_trouble"]).startswith("step 10 was not saved: ")

        save(job, 20)
        job.report(20, loss=0.25)
    assert complete_steps(tmp_path) == [20]
    assert "checkpoint_trouble" not in progress(tmp_path)["fields"]


def test_law_a_save_without_a_place_for_it_stops_no_training(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    private = tmp_path / "private-0"
    private.rmdir()
    private.write_text("the disk came back as something else")
    save(job, 10)
    private.unlink()
    private.mkdir()
    save(job, 20)
    assert job.close(LONG_S)
    assert complete_steps(tmp_path) == [20]


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a shape that differs"),
        FileNotFoundError(errno.ENOENT, "no such file", "weights"),
        OSError(errno.ENOSPC, "nothing is left", "/elsewhere/a-log"),
        KeyboardInterrupt(),
        FailedElsewhere({1: (ValueError("a shape that differs"), "")}),
    ],
)
def test_what_the_training_does_wrong_in_a_save_is_raised(
    tmp_path: Path, error: BaseException
) -> None:
    job = job_of(tmp_path)

    def break_off() -> None:
        with job.saving(5):
            raise error

    with pytest.raises(type(error)):
        break_off()
    assert "checkpoint_trouble" not in str(list(tmp_path.glob("private-0/progress.json")))


def test_a_run_that_could_not_save_its_last_step_does_not_succeed(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    with pytest.raises(training.CheckpointError, match=r"step 20 was not saved: .*No space"):  # noqa: PT012, SIM117
        with job:
            save(job, 10)
            with job.saving(20) as part:
                write_to_a_full_disk(part)
            assert job.acknowledge(20) == 10
    assert complete_steps(tmp_path) == [10]


def test_a_step_that_is_saved_is_not_lost_to_a_second_try(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    with job:
        save(job, 10)
        with job.saving(10) as part:
            write_to_a_full_disk(part)
        assert job.acknowledge(10) == 10
    assert complete_steps(tmp_path) == [10]
    assert left_staged(tmp_path) == []


@pytest.mark.alone
def test_a_file_that_may_not_grow_so_large_ends_its_save_alone(tmp_path: Path) -> None:
    script = """
import resource
from broker.sdk import training
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
with training.Job.from_env() as job:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    with job.saving(3) as part:
        (part / "weights").write_bytes(b"w" * 5_000_000)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with job.saving(6) as part:
        (part / "weights").write_bytes(b"w" * 5_000_000)
"""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environ,
        check=True,
        timeout=60,
        capture_output=True,
    )
    assert b"step 3 was not saved: [Errno 27] File too large" in ran.stderr
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-6"]


def progress(home: Path, rank: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((home / f"private-{rank}" / "progress.json").read_text())
    return found
