"""Scanning, describing and copying, case by case. The laws are in tests/property."""

import hashlib
import os
import signal
from pathlib import Path

import pytest

from replicator.checkpoint.copy import copy
from replicator.checkpoint.describe import attest, describe, renew
from replicator.checkpoint.formats import REPLICA_NAME, Format
from replicator.checkpoint.paths import CheckpointPath
from replicator.checkpoint.removal import clear_leftover, remove
from replicator.checkpoint.scan import Stage, scan
from replicator.checkpoint.verify import Depth, Health, is_ready, verify
from replicator.errors import (
    Cancelled,
    Changed,
    Conflict,
    Corrupt,
    Incomplete,
    StoreUnreachable,
)
from replicator.stores import DirectoryStore
from tests.fakes.checkpoints import PATH, marker_of, save, save_partial, unheard
from tests.fakes.object_store import Interrupted, MemoryObjectStore

FILES = {"model": b"12345678", "optimizer/state": b"abc"}


def step(number: int) -> CheckpointPath:
    return CheckpointPath(run_key=PATH.run_key, epoch=PATH.epoch, step=number)


def test_a_scan_says_what_is_complete_and_what_is_not_newest_first() -> None:
    store = MemoryObjectStore()
    save(store, step(9), FILES)
    save(store, step(100), FILES)
    save_partial(store, step(110), FILES)
    replica = attest(store, step(9), Format.FILES, unheard)
    store.put("runs/r1/e000001-abc/checkpoints/step-007/model", [b"1"])
    store.put("runs/r1/e000001-abc/checkpoints/notes", [b"1"])
    save(store, CheckpointPath(run_key="r1", epoch="e000002-def", step=500), FILES)
    found = scan(store, "r1", "e000001-abc", Format.FILES)
    assert [(one.path.step, one.stage, one.digest) for one in found.checkpoints] == [
        (110, Stage.PARTIAL, None),
        (100, Stage.COMPLETE, None),
        (9, Stage.ATTESTED, replica.manifest.digest),
    ]
    assert found.checkpoints[0].why == "its marker .complete is not there"
    assert found.checkpoints[0].size_bytes == 11
    assert found.newest_complete == found.checkpoints[1]
    assert [one.name.rpartition("checkpoints/")[2] for one in found.foreign] == [
        "notes",
        "step-007/model",
    ]


def test_a_scan_of_nothing_finds_nothing_and_of_a_silent_store_raises() -> None:
    store = MemoryObjectStore()
    assert scan(store, "r1", "e000001-abc", Format.FILES).newest_complete is None
    store.is_reachable = False
    with pytest.raises(StoreUnreachable):
        scan(store, "r1", "e000001-abc", Format.FILES)
    with pytest.raises(StoreUnreachable):
        is_ready(store, PATH, "0" * 64)


def test_what_a_zombie_writes_over_an_attested_checkpoint_is_seen(tmp_path: Path) -> None:
    store = DirectoryStore.create(tmp_path)
    save(store, PATH, FILES)
    replica = attest(store, PATH, Format.FILES, unheard)
    assert is_ready(store, PATH, replica.manifest.digest)
    save(store, PATH, {**FILES, "model": b"87654321"})
    assert not is_ready(store, PATH, replica.manifest.digest)
    (found,) = scan(store, PATH.run_key, PATH.epoch, Format.FILES).checkpoints
    assert found.stage is Stage.COMPLETE
    with pytest.raises(Conflict):
        attest(store, PATH, Format.FILES, unheard)
    with pytest.raises(Changed):
        copy(replica, store, MemoryObjectStore(), unheard)


def test_equal_bytes_written_again_are_attested_again(tmp_path: Path) -> None:
    store = DirectoryStore.create(tmp_path)
    save(store, PATH, FILES)
    replica = attest(store, PATH, Format.FILES, unheard)
    save(store, PATH, FILES)
    assert verify(store, PATH, Depth.QUICK, unheard).health is Health.FAULTY
    assert verify(store, PATH, Depth.DEEP, unheard).health is Health.SOUND
    assert attest(store, PATH, Format.FILES, unheard).manifest == replica.manifest
    assert is_ready(store, PATH, replica.manifest.digest)


@pytest.mark.parametrize("is_manifest_kept", [True, False])
def test_a_copy_whose_every_byte_is_there_gets_its_manifest_anew(is_manifest_kept: bool) -> None:
    store = MemoryObjectStore()
    save(store, PATH, FILES)
    digest = attest(store, PATH, Format.FILES, unheard).manifest.digest
    save(store, PATH, FILES)
    if not is_manifest_kept:
        store.put(PATH.prefix + REPLICA_NAME, [b"{"])
    assert not is_ready(store, PATH, digest)
    assert renew(store, PATH, digest, Format.FILES, unheard)
    assert is_ready(store, PATH, digest)


@pytest.mark.parametrize("harm", ["model", ".complete", "all"])
def test_a_copy_that_is_not_what_was_sealed_gets_none(harm: str) -> None:
    store = MemoryObjectStore()
    save(store, PATH, FILES)
    digest = attest(store, PATH, Format.FILES, unheard).manifest.digest
    store.delete(PATH.prefix + REPLICA_NAME)
    if harm == "all":
        save(store, PATH, {**FILES, "model": b"87654321"})
    elif harm == "model":
        store.put(PATH.prefix + harm, [b"87654321"])
    else:
        store.delete(PATH.prefix + harm)
    assert not renew(store, PATH, digest, Format.FILES, unheard)
    assert store.stat(PATH.prefix + REPLICA_NAME) is None


def test_damage_that_keeps_size_and_time_is_found_by_a_deep_look(tmp_path: Path) -> None:
    store = DirectoryStore.create(tmp_path)
    save(store, PATH, FILES)
    attest(store, PATH, Format.FILES, unheard)
    file = tmp_path / PATH.prefix / "model"
    before = file.stat()
    with file.open("r+b") as damaged:
        damaged.write(b"X")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert verify(store, PATH, Depth.QUICK, unheard).health is Health.SOUND
    deep = verify(store, PATH, Depth.DEEP, unheard)
    assert (deep.health, deep.faults) == (
        Health.FAULTY,
        ("model is not the file of the manifest",),
    )
    destination = MemoryObjectStore()
    assert deep.replica is not None
    with pytest.raises(Corrupt):
        copy(deep.replica, store, destination, unheard)
    assert destination.stat(PATH.prefix + "model") is None
    assert not is_ready(destination, PATH, deep.replica.manifest.digest)


def test_a_file_that_is_not_what_the_marker_claims_is_corrupt() -> None:
    store = MemoryObjectStore()
    save_partial(store, PATH, {**FILES, "model": b"ABCDEFGH"})
    store.put(PATH.prefix + ".complete", [marker_of(FILES)])
    with pytest.raises(Corrupt):
        describe(store, PATH, Format.FILES, unheard)


def test_a_checkpoint_with_a_link_in_it_is_incomplete(tmp_path: Path) -> None:
    store = DirectoryStore.create(tmp_path)
    save(store, PATH, {"__0_0.distcp": b"1"}, Format.PYTORCH_DCP)
    (tmp_path / PATH.prefix / "__1_0.distcp").symlink_to("/etc/hostname")
    (found,) = scan(store, PATH.run_key, PATH.epoch, Format.PYTORCH_DCP).checkpoints
    assert found.stage is Stage.PARTIAL
    with pytest.raises(Incomplete, match="not a regular file"):
        describe(store, PATH, Format.PYTORCH_DCP, unheard)


def test_half_a_checkpoint_is_not_described() -> None:
    store = MemoryObjectStore()
    save_partial(store, PATH, FILES)
    with pytest.raises(Incomplete):
        attest(store, PATH, Format.FILES, unheard)
    assert store.stat(PATH.prefix + REPLICA_NAME) is None


def test_another_content_at_the_destination_is_a_conflict_and_stays() -> None:
    source, destination = MemoryObjectStore(), MemoryObjectStore()
    save(source, PATH, FILES)
    save(destination, PATH, {"model": b"other"})
    replica = attest(source, PATH, Format.FILES, unheard)
    before = destination.list("runs/")
    with pytest.raises(Conflict):
        copy(replica, source, destination, unheard)
    assert destination.list("runs/") == before
    theirs = attest(destination, PATH, Format.FILES, unheard)
    with pytest.raises(Conflict):
        copy(replica, source, destination, unheard)
    assert is_ready(destination, PATH, theirs.manifest.digest)


def test_a_copy_tells_its_progress_and_can_be_cancelled_and_taken_up() -> None:
    source, destination = MemoryObjectStore(), MemoryObjectStore()
    save(source, PATH, FILES)
    replica = attest(source, PATH, Format.FILES, unheard)
    heard: list[int] = []

    def cancel_in_the_second_file(size_bytes: int) -> None:
        heard.append(size_bytes)
        if sum(heard) > 8:
            raise Cancelled(str(PATH), "stopped")

    with pytest.raises(Cancelled):
        copy(replica, source, destination, cancel_in_the_second_file)
    names = [entry.name for entry in destination.list(PATH.prefix).entries]
    assert names == [PATH.prefix + "model"]
    heard.clear()
    copy(replica, source, destination, heard.append)
    assert sum(heard) == replica.manifest.size_bytes


def test_copying_what_is_there_moves_no_byte() -> None:
    source, destination = MemoryObjectStore(), MemoryObjectStore()
    save(source, PATH, FILES)
    replica = attest(source, PATH, Format.FILES, unheard)
    first = copy(replica, source, destination, unheard)
    heard: list[int] = []
    assert copy(replica, source, destination, heard.append) == first
    assert heard == []


@pytest.mark.parametrize("point", range(0, 48, 3))
def test_a_process_killed_while_it_copies_between_directories_leaves_no_replica(
    tmp_path: Path, point: int
) -> None:
    source = DirectoryStore.create(tmp_path / "source")
    destination = DirectoryStore.create(tmp_path / "destination")
    save(source, PATH, FILES)
    replica = attest(source, PATH, Format.FILES, unheard)

    def kill(here: int) -> None:
        if here == point:
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        # The child must never return into the test runner, whatever the copy does.
        try:
            copy(replica, source, Interrupted(destination, kill), unheard)
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    was_killed = os.WIFSIGNALED(status)
    assert was_killed or os.WEXITSTATUS(status) == 0
    if is_ready(destination, PATH, replica.manifest.digest):
        assert verify(destination, PATH, Depth.DEEP, unheard).health is Health.SOUND
    copy(replica, source, destination, unheard)
    assert verify(destination, PATH, Depth.DEEP, unheard).health is Health.SOUND
    assert is_ready(destination, PATH, replica.manifest.digest)


def test_a_copy_holds_one_chunk_and_not_one_file(tmp_path: Path) -> None:
    source = DirectoryStore.create(tmp_path / "source")
    destination = DirectoryStore.create(tmp_path / "destination")
    data = hashlib.sha256(b"seed").digest() * 200_000
    save(source, PATH, {"model": data})
    heard: list[int] = []
    replica = attest(source, PATH, Format.FILES, unheard)
    copy(replica, source, destination, heard.append)
    assert max(heard) == 1024 * 1024
    assert (tmp_path / "destination" / PATH.prefix / "model").read_bytes() == data


def test_removing_frees_everything_and_its_folder(tmp_path: Path) -> None:
    store = DirectoryStore.create(tmp_path)
    save(store, PATH, FILES)
    attest(store, PATH, Format.FILES, unheard)
    size_bytes = sum(entry.size_bytes for entry in store.list(PATH.prefix).entries)
    assert remove(store, PATH) == size_bytes
    assert not (tmp_path / PATH.prefix).exists()
    assert (tmp_path / PATH.prefix).parent.is_dir()
    assert remove(store, PATH) == 0


def test_a_leftover_is_cleared_only_while_it_is_one() -> None:
    store = MemoryObjectStore()
    store.now_s = 100.0
    save_partial(store, PATH, FILES)
    assert clear_leftover(store, PATH, now_s=150.0, older_than_s=60.0) == 0
    store.now_s = 160.0
    store.put(PATH.prefix + "late", [b"still alive"])
    assert clear_leftover(store, PATH, now_s=170.0, older_than_s=60.0) == 0
    save(store, step(30), FILES)
    assert clear_leftover(store, step(30), now_s=900.0, older_than_s=60.0) == 0
    assert clear_leftover(store, PATH, now_s=900.0, older_than_s=60.0) == 22
    assert clear_leftover(store, PATH, now_s=900.0, older_than_s=60.0) == 0


def test_a_destination_that_somebody_else_writes_to_meanwhile_is_no_replica() -> None:
    source, destination = MemoryObjectStore(), MemoryObjectStore()
    save(source, PATH, FILES)
    replica = attest(source, PATH, Format.FILES, unheard)
    marker = PATH.prefix + replica.manifest.marker.name
    is_written_over = False

    def write_over(_: int) -> None:
        nonlocal is_written_over
        if destination.stat(marker) is not None and not is_written_over:
            is_written_over = True
            destination.put(PATH.prefix + "model", [b"of somebody else"])

    with pytest.raises(Changed):
        copy(replica, source, Interrupted(destination, write_over), unheard)
    assert not is_ready(destination, PATH, replica.manifest.digest)
    assert destination.stat(PATH.prefix + REPLICA_NAME) is None
