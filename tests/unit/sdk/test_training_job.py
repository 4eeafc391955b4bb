"""A job saves whatever happens to the store, resumes from what it is told, and hears a drain."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.sdk import training
from broker.sdk.training import Job, folders
from broker.sdk.training.carrier import MAX_STAGED, Carrier, Staged
from replicator.checkpoint.describe import attest
from replicator.checkpoint.formats import Format
from replicator.stores import DirectoryStore
from tests.fakes.checkpoints import PATH, unheard
from tests.fakes.checkpoints import save as save_into

ROOT = Path(__file__).parents[3]
LONG_S = 30.0


def job_of(home: Path, rank: int = 0, world_size: int = 1, **environ: str) -> Job:
    private_dir = home / f"private-{rank}"
    private_dir.mkdir(parents=True, exist_ok=True)
    if not (home / "away").exists():
        make_store(home / "store")
    return Job.from_env(
        {
            "RANK": str(rank),
            "WORLD_SIZE": str(world_size),
            "BROKER_RUN": "teams/optics/runs/prism",
            "BROKER_EPOCH": "2",
            "BROKER_CHECKPOINT_URI": (home / "store" / "checkpoints").as_uri(),
            "BROKER_DIR": str(private_dir),
            **environ,
        }
    )


def make_store(root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    (root / ".store").touch()


def save(job: Job, step: int, text: str = "w") -> None:
    with job.saving(step) as part:
        (part / f"rank-{job.grant.rank}").write_text(text)


def complete_steps(home: Path) -> list[int]:
    found = (home / "store" / "checkpoints").iterdir()
    return sorted(training.step_of(p) for p in found if training.is_complete(p))


def left_staged(home: Path) -> list[str]:
    return [path.name for path in home.glob("private-*/.staged-*/*")]


@pytest.fixture(params=["nothing is there", "an empty mount point is there"])
def out_of_reach(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[], None]:
    """A store whose disk went away; call it to bring the store back."""
    make_store(tmp_path / "away")
    mount_point = tmp_path / "store"
    if request.param == "an empty mount point is there":
        mount_point.mkdir()

    def come_back() -> None:
        if mount_point.exists():
            mount_point.rmdir()  # which fails if anything was made in it
        (tmp_path / "away").rename(mount_point)

    return come_back


def test_a_checkpoint_of_a_gang_is_complete_when_the_last_rank_saved(tmp_path: Path) -> None:
    jobs = [job_of(tmp_path, rank, 3) for rank in range(3)]
    for job in (jobs[0], jobs[2]):
        save(job, 20, f"of rank {job.grant.rank}")
    assert jobs[2].flush(LONG_S)
    assert not jobs[0].flush(0.1)
    assert complete_steps(tmp_path) == []

    save(jobs[1], 20, "of rank 1")
    assert [job.close(LONG_S) for job in jobs] == [True, True, True]
    target = tmp_path / "store" / "checkpoints" / "step-20"
    training.verify(target)
    assert [(target / f"rank-{rank}").read_text() for rank in range(3)] == [
        "of rank 0",
        "of rank 1",
        "of rank 2",
    ]
    assert left_staged(tmp_path) == []


def test_law_a_save_is_never_refused_because_the_store_is_out_of_reach(
    tmp_path: Path, out_of_reach: Callable[[], None]
) -> None:
    job = job_of(tmp_path)
    for step in (10, 20):
        save(job, step, f"step {step}")
    assert not job.flush(0.2)

    out_of_reach()
    save(job, 30, "step 30")
    assert job.close(LONG_S)
    assert complete_steps(tmp_path) == [10, 20, 30]
    checkpoints = tmp_path / "store" / "checkpoints"
    assert [(checkpoints / f"step-{s}/rank-0").read_text() for s in (10, 20, 30)] == [
        "step 10",
        "step 20",
        "step 30",
    ]


def test_a_store_that_goes_away_during_a_save_comes_back_as_it_was(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    save(job, 10)
    assert job.flush(LONG_S)
    (tmp_path / "store").rename(tmp_path / "away")
    save(job, 20)
    assert not job.flush(0.2)
    assert not (tmp_path / "store").exists()

    (tmp_path / "away").rename(tmp_path / "store")
    assert job.close(LONG_S)
    assert complete_steps(tmp_path) == [10, 20]


def test_law_no_store_is_made_where_there_is_none(tmp_path: Path) -> None:
    checkpoints = tmp_path / "store" / "runs" / "r" / "e1" / "checkpoints"
    with pytest.raises(FileNotFoundError, match="no store is there"):
        folders.make_in_store(checkpoints)
    assert list(tmp_path.iterdir()) == []

    make_store(tmp_path / "store")
    for _ in range(2):
        folders.make_in_store(checkpoints)
        assert checkpoints.is_dir()
    (tmp_path / "store" / "file").touch()
    with pytest.raises(OSError, match="exists"):
        folders.make_in_store(tmp_path / "store" / "file")


def test_a_long_outage_keeps_the_newest_and_says_what_gave_way(
    tmp_path: Path, out_of_reach: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    job = job_of(tmp_path)
    save(job, 1)
    assert not job.flush(0.2)
    for step in range(2, 8):
        save(job, step)
    assert len(left_staged(tmp_path)) == MAX_STAGED
    gave_way = [r.getMessage() for r in caplog.records if "gives way" in r.getMessage()]
    assert [message.split(": ")[1] for message in gave_way] == [
        f"step {step} gives way" for step in range(1, 8 - MAX_STAGED)
    ]

    out_of_reach()
    assert job.close(LONG_S)
    assert complete_steps(tmp_path) == [5, 6, 7]
    assert any("can be written again" in r.getMessage() for r in caplog.records)


def test_a_store_that_hangs_stops_no_training(tmp_path: Path) -> None:
    grant = job_of(tmp_path).grant
    hanging = tmp_path / "store" / "checkpoints" / "step-1" / "weights"
    hanging.parent.mkdir(parents=True)
    os.mkfifo(hanging)  # to open it for writing waits until somebody reads

    carrier = Carrier(grant, room_patience_s=0.1)
    for step in range(1, 3 * MAX_STAGED):
        carrier.make_room()
        part = tmp_path / f"staged-{step}"
        part.mkdir()
        (part / "first").write_text("whole")
        (part / "weights").write_text(f"step {step}")
        carrier.hand_over(Staged(step, part))
        while not (hanging.parent / "first").exists():
            assert carrier.waiting == 1  # and soon it hangs at the file after this one
        assert carrier.waiting <= MAX_STAGED

    elsewhere = hanging.rename(tmp_path / "let go")
    with elsewhere.open("rb") as reader:
        assert reader.read() == b"step 1"
    assert carrier.flush(LONG_S)
    assert complete_steps(tmp_path) == [1, 7, 8]


def test_a_save_that_raises_leaves_nothing(tmp_path: Path) -> None:
    job = job_of(tmp_path)

    def break_off() -> None:
        with job.saving(5) as part:
            (part / "half").write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()
    assert left_staged(tmp_path) == []
    save(job, 5)
    assert job.close(LONG_S)
    assert complete_steps(tmp_path) == [5]
    assert not (tmp_path / "store/checkpoints/step-5/half").exists()


def test_a_step_that_one_rank_gave_up_is_given_up_when_a_newer_one_is_sealed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    zero, one = job_of(tmp_path, 0, 2), job_of(tmp_path, 1, 2)
    save(zero, 5)
    save(zero, 6)
    save(one, 6)
    assert zero.close(LONG_S)
    assert complete_steps(tmp_path) == [6]
    said = [record.getMessage() for record in caplog.records]
    assert said == ["step 5 is given up: not every rank's part has come"]


def test_leaving_in_good_order_without_the_last_checkpoint_is_an_error(
    tmp_path: Path,
) -> None:
    job = Job(job_of(tmp_path, 0, 2).grant, exit_patience_s=0.1)
    with pytest.raises(training.CheckpointError, match="1 checkpoints are not complete"), job:
        save(job, 5)
    one = job_of(tmp_path, 1, 2)
    with one:
        save(one, 5)
    assert job.close(LONG_S)
    assert complete_steps(tmp_path) == [5]


def test_a_step_is_saved_once(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    save(job, 5, "first")
    save(job, 5, "second")
    assert job.close(LONG_S)
    assert (tmp_path / "store/checkpoints/step-5/rank-0").read_text() == "first"


def test_a_part_that_a_predecessor_left_is_not_sealed_with_new_ones(tmp_path: Path) -> None:
    before = job_of(tmp_path, 1, 2)
    save(before, 5, "old")
    assert before.close(LONG_S)

    zero, one = job_of(tmp_path, 0, 2), job_of(tmp_path, 1, 2)
    save(one, 4)
    assert one.flush(LONG_S)
    save(zero, 4)
    save(zero, 5, "new")
    deadline_s = time.monotonic() + LONG_S
    while complete_steps(tmp_path) != [4] and time.monotonic() < deadline_s:
        assert not zero.flush(0.1)
    assert not zero.flush(0.1)
    assert complete_steps(tmp_path) == [4]
    save(one, 5, "new")
    assert zero.close(LONG_S)
    assert (tmp_path / "store/checkpoints/step-5/rank-1").read_text() == "new"


def test_ranks_that_share_a_name_are_told_at_the_next_save(tmp_path: Path) -> None:
    zero, one = job_of(tmp_path, 0, 2), job_of(tmp_path, 1, 2)
    for job in (one, zero):
        with job.saving(5) as part:
            (part / "weights").write_text(f"of rank {job.grant.rank}")
        assert job.flush(LONG_S)
    with pytest.raises(training.CheckpointError, match="files named weights"):
        save(zero, 6)
    save(zero, 7)
    save(one, 7)
    assert zero.close(LONG_S)
    assert complete_steps(tmp_path) == [7]


def test_it_resumes_from_what_the_grant_names(tmp_path: Path) -> None:
    named = tmp_path / "elsewhere" / "step-30"
    assert job_of(tmp_path).resume_dir() is None
    assert job_of(tmp_path, BROKER_RESUME_FROM="").resume_dir() is None

    job = job_of(tmp_path, BROKER_RESUME_FROM=named.as_uri())
    with pytest.raises(training.CheckpointError, match=r"step-30, which is not complete"):
        job.resume_dir()
    named.mkdir(parents=True)
    (named / ".metadata").write_text("pickled")
    assert job.resume_dir() == named
    assert job.resume_dir(verify=True) == named


@pytest.mark.parametrize(
    ("harmed", "data", "is_verified", "said"),
    [
        ("__0_0.distcp", b"shards", False, "is not there as its manifest says"),
        ("__0_0.distcp", None, False, "is not there as its manifest says"),
        ("__0_0.distcp", b"drahs", True, "is not the file that was saved"),
        ("_REPLICA.json", None, False, "by which it was chosen"),
        ("_REPLICA.json", b"[]", False, "cannot be read"),
    ],
)
def test_what_the_broker_wrote_down_is_held_against_what_is_there(
    tmp_path: Path, harmed: str, data: bytes | None, is_verified: bool, said: str
) -> None:
    make_store(tmp_path / "store")
    store = DirectoryStore(tmp_path / "store")
    save_into(store, PATH, {"__0_0.distcp": b"shard"}, Format.PYTORCH_DCP)
    digest = attest(store, PATH, Format.PYTORCH_DCP, unheard).manifest.digest
    named = tmp_path / "store" / PATH.prefix
    job = job_of(tmp_path, BROKER_RESUME_FROM=named.as_uri(), BROKER_RESUME_DIGEST=digest)
    assert job.resume_dir(verify=True) == named
    (named / harmed).unlink()
    if data is not None:
        (named / harmed).write_bytes(data)
    with pytest.raises(training.CheckpointError, match=said):
        job.resume_dir(verify=is_verified)


def test_it_does_not_resume_from_its_own_epoch_unless_told(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    save(job, 5)
    assert job.close(LONG_S)
    assert job_of(tmp_path).resume_dir() is None


def test_outside_the_broker_it_uses_a_local_directory(tmp_path: Path) -> None:
    job = Job.from_env({}, local_dir=tmp_path / "mine")
    assert (job.resume_dir(), job.drain()) == (None, None)
    job.report(1, loss=2.0)
    save(job, 5)
    assert job.close(LONG_S)
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["step-5"]
    assert Job.from_env({}, local_dir=tmp_path / "mine").resume_dir() == tmp_path / "mine/step-5"


def test_a_drain_is_acknowledged_when_the_whole_checkpoint_is_there(tmp_path: Path) -> None:
    zero, one = job_of(tmp_path, 0, 2), job_of(tmp_path, 1, 2)
    assert one.drain() is None
    for rank in range(2):
        note = tmp_path / f"private-{rank}" / "drain.json"
        note.write_text(json.dumps({"reason": "PREEMPTED", "deadline_unix_s": time.time() + 600}))
    assert one.drain() is not None

    save(one, 8)
    save(zero, 8)
    assert [one.acknowledge(8), zero.acknowledge(8)] == [8, 8]
    assert [drained(tmp_path, rank) for rank in range(2)] == [{"step": 8}, {"step": 8}]


def test_a_drain_whose_time_is_over_is_acknowledged_with_what_there_is(tmp_path: Path) -> None:
    zero, one = job_of(tmp_path, 0, 2), job_of(tmp_path, 1, 2)
    (tmp_path / "private-0/drain.json").write_text('{"reason": "x", "deadline_unix_s": 1}')
    save(zero, 4)
    assert zero.acknowledge(4) is None
    assert drained(tmp_path, 0) == {"step": None}

    save(one, 4)
    assert zero.flush(LONG_S)
    save(zero, 8)
    assert zero.acknowledge(8) == 4
    assert drained(tmp_path, 0) == {"step": 4}
    save(one, 8)
    assert [one.close(LONG_S), zero.close(LONG_S)] == [True, True]


@pytest.mark.alone
def test_a_script_that_just_ends_has_saved(tmp_path: Path) -> None:
    script = """
from broker.sdk import training
job = training.Job.from_env()
with job.saving(3) as part:
    (part / "weights").write_bytes(b"w" * 5_000_000)
"""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environ, check=True, timeout=60
    )
    training.verify(tmp_path / "checkpoints/step-3")
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-3"]


def drained(home: Path, rank: int) -> object:
    return json.loads((home / f"private-{rank}" / "drained.json").read_text())
