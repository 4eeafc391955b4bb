"""A job saves into a bucket and resumes from it, whatever befalls the calls."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker.sdk.training import CheckpointError, Job, bucket, durable, wire
from broker.sdk.training.bucket import BucketFolder, BucketPlace
from broker.sdk.training.wire import Door, Wire
from replicator.checkpoint.describe import attest
from replicator.checkpoint.formats import Format
from replicator.checkpoint.manifest import Manifest
from replicator.checkpoint.paths import CheckpointPath
from replicator.stores.gcs import PATIENCE, GcsStore, Notes, open_access, read_location
from tests.fakes.gcs import CUT, HALF, LOST, WRONG, FakeGcs, serve
from tests.fakes.gcs.faults import Fault

STORE = "gs://east/broker"
CHECKPOINTS = "runs/run-1/e000002-aaaaaaaaaaaa/checkpoints"
LONG_S = 30.0
TOKEN = "token-of-training"
PIECE_BYTES = 256 << 10


@dataclass
class Scene:
    """A bucket that is a store, and the jobs that use it."""

    fake: FakeGcs
    home: Path

    def job(self, rank: int = 0, world_size: int = 1, **environ: str) -> Job:
        private_dir = self.home / f"private-{rank}"
        private_dir.mkdir(exist_ok=True)
        return Job.from_env(
            {
                "RANK": str(rank),
                "WORLD_SIZE": str(world_size),
                "BROKER_EPOCH": "2",
                "BROKER_CHECKPOINT_URI": f"{STORE}/{CHECKPOINTS}",
                "BROKER_DIR": str(private_dir),
                "BROKER_STORE_ENDPOINT": self.fake.url,
                "BROKER_STORE_TOKENS": str(self.home / "token"),
                **environ,
            }
        )

    def resuming(self, digest: str = "") -> Job:
        return self.job(
            BROKER_RESUME_FROM=f"{STORE}/{CHECKPOINTS}/step-20", BROKER_RESUME_DIGEST=digest
        )

    def attested(self, checkpoint_format: Format) -> Manifest:
        """Let the broker write down what training saved."""
        tokens, self.fake.tokens = self.fake.tokens, None
        access = open_access(self.fake.client()._credentials, self.fake.url)
        store = GcsStore(access, read_location(STORE), PATIENCE, Notes(self.home / "notes"))
        path = CheckpointPath.parse(f"{CHECKPOINTS}/step-20")
        replica = attest(store, path, checkpoint_format, lambda size_bytes: None)
        access.close()
        self.fake.tokens = tokens
        return replica.manifest

    def write(self, name: str, data: bytes) -> None:
        """Be somebody who writes into the checkpoint."""
        self.fake.cloud.insert("east", f"broker/{CHECKPOINTS}/step-20/{name}", data, {}, {})

    def remove(self, name: str) -> None:
        """Be somebody who removes of the checkpoint."""
        self.fake.cloud.delete("east", f"broker/{CHECKPOINTS}/step-20/{name}", {})

    def names(self) -> list[str]:
        stored = self.fake.cloud.bucket("east").objects
        prefix = f"broker/{CHECKPOINTS}/"
        return sorted(name.removeprefix(prefix) for name in stored if name.startswith(prefix))

    def data(self, name: str) -> bytes:
        return self.fake.cloud.find("east", f"broker/{CHECKPOINTS}/{name}", {}).data

    def sent_bytes(self) -> int:
        """How many bytes of pieces went to the store, repeats counted."""
        spans = [
            query["range"].removeprefix("bytes ").partition("/")[0].split("-")
            for query in self.fake.faults.queries("uploads.send")
            if not query["range"].startswith("bytes *")
        ]
        return sum(int(last) - int(first) + 1 for first, last in spans)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr(bucket, "PIECE_BYTES", PIECE_BYTES)
    monkeypatch.setattr(bucket, "SMALL_BYTES", PIECE_BYTES)
    monkeypatch.setattr(bucket, "PAUSE_S", 0.01)
    monkeypatch.setattr(wire, "CALL_S", 1.0)
    (tmp_path / "token").write_text(TOKEN)
    with serve() as fake:
        fake.tokens = {TOKEN}
        fake.cloud.make_bucket("east", "us-east4", "STANDARD")
        fake.cloud.insert("east", "broker/.store", b"", {}, {})
        yield Scene(fake, tmp_path)


def save(job: Job, step: int, **files: bytes) -> None:
    with job.saving(step) as part:
        (part / f"rank-{job.grant.rank}").write_bytes(b"w")
        for name, data in files.items():
            (part / name).write_bytes(data)


def test_a_checkpoint_of_a_gang_is_complete_when_the_last_rank_saved(scene: Scene) -> None:
    first, second = scene.job(0, 2), scene.job(1, 2)
    save(first, 20)
    assert not first.flush(0.5)
    assert "step-20/.complete" not in scene.names()
    save(second, 20)
    assert second.close(LONG_S)
    assert first.close(LONG_S)
    assert scene.names() == [
        f"step-20/{name}"
        for name in (".complete", ".part-0.json", ".part-1.json", "rank-0", "rank-1")
    ]


def test_the_broker_finds_what_training_saved(scene: Scene) -> None:
    job = scene.job()
    save(job, 20, weights=bytes(3 * PIECE_BYTES + 5))
    assert job.close(LONG_S)
    assert scene.attested(Format.FILES).size_bytes > 3 * PIECE_BYTES


@pytest.mark.parametrize("fault", [503, CUT, LOST, HALF], ids=str)
def test_a_piece_that_went_wrong_is_all_that_is_sent_again(scene: Scene, fault: Fault) -> None:
    data = bytes(range(256)) * (PIECE_BYTES // 256 * 5 + 7)
    scene.fake.faults.plan("uploads.send", None, None, fault)
    job = scene.job()
    save(job, 20, weights=data)
    assert job.close(LONG_S)
    assert scene.data("step-20/weights") == data
    assert scene.sent_bytes() <= len(data) + PIECE_BYTES


@pytest.mark.parametrize("operation", ["objects.insert", "objects.get", "objects.list"])
@pytest.mark.parametrize("fault", [503, CUT, LOST], ids=str)
def test_a_trouble_that_passes_changes_nothing(scene: Scene, operation: str, fault: Fault) -> None:
    scene.fake.faults.plan(operation, fault, None, fault)
    job = scene.job()
    save(job, 20)
    assert job.close(LONG_S)
    assert "step-20/.complete" in scene.names()


def test_a_save_is_never_refused_and_what_is_there_is_not_sent_again(scene: Scene) -> None:
    scene.fake.faults.plan("objects.insert", *[None] * 2, *[CUT] * 40)
    job = scene.job()
    save(job, 20, a=b"a", b=b"b")
    assert not job.flush(2.0)
    scene.fake.faults.scripts["objects.insert"].clear()
    assert job.close(LONG_S)
    generations = [
        scene.fake.cloud.find("east", f"broker/{CHECKPOINTS}/step-20/{name}", {}).generation
        for name in ("a", "b", "rank-0")
    ]
    assert generations == sorted(generations)
    assert scene.data("step-20/b") == b"b"


def test_nothing_is_saved_into_what_is_no_store(scene: Scene) -> None:
    scene.fake.cloud.delete("east", "broker/.store", {})
    job = scene.job()
    save(job, 20)
    assert not job.flush(1.0)
    assert scene.names() == []
    scene.fake.cloud.insert("east", "broker/.store", b"", {}, {})
    assert job.close(LONG_S)


@pytest.mark.parametrize("fault", [None, 503, CUT, HALF], ids=str)
def test_a_resume_brings_the_checkpoint_here_whole(scene: Scene, fault: Fault) -> None:
    data = bytes(range(256)) * 10_000
    job = scene.job()
    save(job, 20, weights=data)
    assert job.close(LONG_S)
    scene.fake.faults.plan("objects.media", None, None, fault)
    found = scene.resuming().resume_dir(verify=True)
    assert found is not None
    assert ((found / "weights").read_bytes(), found.name) == (data, "step-20")


def test_what_is_not_what_was_saved_is_refused(scene: Scene) -> None:
    job = scene.job()
    save(job, 20, weights=b"1234")
    assert job.close(LONG_S)
    scene.fake.faults.plan("objects.media", None, None, WRONG)
    with pytest.raises(CheckpointError, match="is not the file that was saved"):
        scene.resuming().resume_dir()
    assert scene.resuming().resume_dir() is not None


def test_a_checkpoint_that_is_not_complete_is_refused_aloud(scene: Scene) -> None:
    with pytest.raises(CheckpointError, match="step-20 is not complete"):
        scene.resuming().resume_dir()


def test_a_checkpoint_of_dcp_is_brought_with_its_marker_last(scene: Scene) -> None:
    job = scene.job()
    save(job, 20, **{".metadata": b"pickled", "__0_0.distcp": b"shard"})
    assert job.close(LONG_S)
    assert "step-20/.complete" not in scene.names()
    found = scene.resuming().resume_dir(verify=True)
    assert found is not None
    assert (found / ".metadata").read_bytes() == b"pickled"
    assert (found / "__0_0.distcp").read_bytes() == b"shard"


DCP = {".metadata": b"pickled", "__0_0.distcp": b"shard"}


@pytest.mark.parametrize(
    ("files", "checkpoint_format"),
    [(DCP, Format.PYTORCH_DCP), ({"weights": b"1234"}, Format.FILES)],
)
def test_what_the_broker_wrote_down_comes_along_and_holds(
    scene: Scene, files: dict[str, bytes], checkpoint_format: Format
) -> None:
    job = scene.job()
    save(job, 20, **files)
    assert job.close(LONG_S)
    manifest = scene.attested(checkpoint_format)
    found = scene.resuming(manifest.digest).resume_dir(verify=True)
    assert found is not None
    names = {path.name for path in found.iterdir()}
    assert names == {*(file.name for file in manifest.files), "_REPLICA.json"}


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda scene: scene.write("__0_0.distcp", b"drahs"), "has another crc32c than its"),
        (lambda scene: scene.write("__0_0.distcp", b"shards"), "is not there as its manifest says"),
        (lambda scene: scene.remove("__0_0.distcp"), "is not there as its manifest says"),
        (lambda scene: scene.remove("_REPLICA.json"), "by which it was chosen"),
        (lambda scene: scene.write("_REPLICA.json", b"{}"), "cannot be read"),
        (
            lambda scene: scene.fake.faults.plan("objects.media", None, WRONG),
            "is not the file that was saved",
        ),
    ],
)
def test_what_is_not_what_the_broker_wrote_down_is_refused(
    scene: Scene, harm: Callable[[Scene], None], said: str
) -> None:
    job = scene.job()
    save(job, 20, **DCP)
    assert job.close(LONG_S)
    digest = scene.attested(Format.PYTORCH_DCP).digest
    harm(scene)
    with pytest.raises(CheckpointError, match=said):
        scene.resuming(digest).resume_dir()


def test_another_checkpoint_than_was_granted_is_refused(scene: Scene) -> None:
    job = scene.job()
    save(job, 20, **DCP)
    assert job.close(LONG_S)
    scene.attested(Format.PYTORCH_DCP)
    with pytest.raises(CheckpointError, match="not the checkpoint that this start was granted"):
        scene.resuming("0" * 64).resume_dir()


@pytest.mark.parametrize("name", ["../../../../outside", "/outside", "a//b", "./a"])
@pytest.mark.parametrize("is_dcp", [False, True])
def test_nothing_is_written_outside_the_directory_that_a_checkpoint_is_brought_to(
    scene: Scene, name: str, is_dcp: bool
) -> None:
    name = name.replace("/outside", str(scene.home / "outside")) if name[0] == "/" else name
    step = f"broker/{CHECKPOINTS}/step-20/"
    files = [{"name": name, "size_bytes": 1, "sha256": durable.digest(b"x").sha256}]
    marker = json.dumps({"schema_version": 1, "step": 20, "epoch": 2, "files": files}).encode()
    told = {name: b"x", ".metadata" if is_dcp else ".complete": marker}
    for one, data in told.items():
        scene.fake.cloud.insert("east", step + one, data, {}, {})
    with pytest.raises(CheckpointError):
        scene.resuming().resume_dir()
    brought = [
        path for path in scene.home.rglob("*") if path.is_file() and path.read_bytes() == b"x"
    ]
    assert brought == []


def test_processes_that_share_a_directory_bring_it_once(scene: Scene) -> None:
    job = scene.job()
    save(job, 20, weights=bytes(100_000))
    assert job.close(LONG_S)
    scene.fake.faults.asked.clear()
    jobs = [scene.resuming() for _ in range(4)]
    threads = [threading.Thread(target=one.resume_dir) for one in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG_S)
    # The marker twice, and each file once.
    assert scene.fake.faults.calls("objects.media") == 3 + 3


def test_training_outside_the_broker_never_begins_with_what_is_anothers(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(scene.home))
    for name in ("mine", "yours"):
        place = f"{STORE}/runs/{name}/e/checkpoints"
        job = scene.job(BROKER_DIR="", BROKER_CHECKPOINT_URI=place)
        save(job, 20, whose=name.encode())
        assert job.flush(LONG_S)
        found = job.resume_dir(verify=True)
        assert job.close(LONG_S)
        assert found is not None
        assert (found / "whose").read_text() == name


def test_what_a_store_refuses_is_no_absence(scene: Scene) -> None:
    scene.fake.tokens = set()
    door = Door(scene.fake.url, str(scene.home / "token"))
    wired = Wire(door)
    with pytest.raises(OSError, match="401"):
        BucketFolder(BucketPlace("east", "x", door), wired).read("anything")
    wired.close()
