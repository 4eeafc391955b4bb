"""The form of a checkpoint: it counts when it is whole, and never before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.sdk.training import checkpoint
from broker.sdk.training.checkpoint import CheckpointError, Maker
from broker.sdk.training.shelf import DirectoryFolder, DirectoryShelf

MAKER = Maker(step=40, epoch=3, world_size=3)


def staged(root: Path, rank: int, **files: str) -> Path:
    """A part of `rank` on the local disk; a double underscore in a name stands for a dot."""
    directory = root / f"staged-{rank}"
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / name.replace("__", ".")).write_text(text)
    return directory


def forget(checkpoints: Path, rank: int) -> None:
    checkpoint.forget_part(DirectoryShelf(checkpoints, is_in_store=False), rank)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    return tmp_path / "store" / "step-40"


def test_the_marker_names_every_file_with_its_digest(tmp_path: Path, target: Path) -> None:
    maker = Maker(step=40, epoch=3, world_size=1)
    part = staged(tmp_path, 0, weights__bin="12345")
    (part / "shards").mkdir()
    (part / "shards" / "0").write_text("")
    checkpoint.carry_part(part, DirectoryFolder(target), rank=0, maker=maker)
    assert checkpoint.seal(DirectoryFolder(target), maker=maker, dcp_metadata=None)

    marker = json.loads((target / ".complete").read_text())
    names = [entry["name"] for entry in marker["files"]]
    sizes = [(target / name).stat().st_size for name in names]
    assert names == [".part-0.json", "shards/0", "weights.bin"]
    assert [entry["size_bytes"] for entry in marker["files"]] == sizes
    assert {k: v for k, v in marker.items() if k != "files"} == {
        "schema_version": 1,
        "step": 40,
        "epoch": 3,
        "world_size": 1,
    }
    on_disk = {p.relative_to(target).as_posix() for p in target.rglob("*") if p.is_file()}
    assert on_disk == {*names, ".complete"}
    checkpoint.verify(target)


@given(order=st.permutations([0, 1, 2]), tries=st.lists(st.integers(0, 2), max_size=6))
def test_law_it_is_complete_only_when_every_part_is_there(
    tmp_path_factory: pytest.TempPathFactory, order: list[int], tries: list[int]
) -> None:
    root = tmp_path_factory.mktemp("law")
    (root / "store").mkdir()
    target = root / "store" / "step-40"
    carried: set[int] = set()
    for rank in [*tries, *order]:
        part = staged(root, rank, **{f"weights-{rank}": str(rank)})
        if rank in tries and rank in carried:
            forget(target.parent, rank)  # the process began anew
            carried -= set() if checkpoint.is_complete(target) else {rank}
        else:
            checkpoint.carry_part(part, DirectoryFolder(target), rank=rank, maker=MAKER)
            carried.add(rank)
        is_whole = carried == {0, 1, 2}
        assert checkpoint.seal(DirectoryFolder(target), maker=MAKER, dcp_metadata=None) == is_whole
        assert checkpoint.is_complete(target) == is_whole


def test_what_counts_is_never_touched_again(tmp_path: Path, target: Path) -> None:
    for rank in range(3):
        part = staged(tmp_path, rank, **{f"weights-{rank}": "first"})
        checkpoint.carry_part(part, DirectoryFolder(target), rank=rank, maker=MAKER)
    checkpoint.seal(DirectoryFolder(target), maker=MAKER, dcp_metadata=None)
    before = contents(target)

    for rank in range(3):
        part = staged(tmp_path, rank, **{f"weights-{rank}": "second"}, more="more")
        checkpoint.carry_part(part, DirectoryFolder(target), rank=rank, maker=MAKER)
        forget(target.parent, rank)
    assert checkpoint.seal(DirectoryFolder(target), maker=MAKER, dcp_metadata=None)
    assert contents(target) == before


@pytest.mark.parametrize(
    "other",
    [
        Maker(step=40, epoch=3, world_size=2),
        Maker(step=40, epoch=2, world_size=3),
        Maker(step=39, epoch=3, world_size=3),
    ],
)
def test_a_part_of_another_gang_is_not_sealed(tmp_path: Path, target: Path, other: Maker) -> None:
    for rank, maker in enumerate([MAKER, other, MAKER]):
        part = staged(tmp_path, rank, **{f"weights-{rank}": "w"})
        checkpoint.carry_part(part, DirectoryFolder(target), rank=rank, maker=maker)
    assert not checkpoint.seal(DirectoryFolder(target), maker=MAKER, dcp_metadata=None)
    assert not checkpoint.is_complete(target)


def test_two_ranks_that_share_a_name_are_told(tmp_path: Path, target: Path) -> None:
    for rank in range(3):
        part = staged(tmp_path, rank, config="same", weights=f"of rank {rank}")
        checkpoint.carry_part(part, DirectoryFolder(target), rank=rank, maker=MAKER)
    with pytest.raises(CheckpointError, match="files named weights at step 40"):
        checkpoint.seal(DirectoryFolder(target), maker=MAKER, dcp_metadata=None)
    assert not checkpoint.is_complete(target)


@pytest.mark.parametrize("half", ["", "{", '{"schema_version": 1', "[]", '{"files": [{"a": 1}]}'])
def test_half_a_marker_is_none(target: Path, half: str) -> None:
    target.mkdir(parents=True)
    (target / ".complete").write_text(half)
    assert not checkpoint.is_complete(target)
    assert checkpoint.newest_complete(target.parent) is None


def test_the_metadata_of_dcp_is_the_marker_and_comes_last(tmp_path: Path, target: Path) -> None:
    metadata = staged(tmp_path, 0, __0_0__distcp="shard 0", **{".metadata": "pickled"})
    for rank in range(3):
        assert not checkpoint.is_complete(target)
        part = staged(tmp_path, rank, **{f"__{rank}_0.distcp": f"shard {rank}"})
        checkpoint.carry_part(part, DirectoryFolder(target), rank=rank, maker=MAKER)
    assert not (target / ".metadata").exists()
    assert checkpoint.seal(
        DirectoryFolder(target), maker=MAKER, dcp_metadata=metadata / ".metadata"
    )
    assert (target / ".metadata").read_text() == "pickled"
    assert not (target / ".complete").exists()
    checkpoint.verify(target)
    (target / ".1_0.distcp").write_text("shard X")
    with pytest.raises(CheckpointError, match="is not the file that was saved"):
        checkpoint.verify(target)


def test_a_directory_that_dcp_itself_wrote_counts(target: Path) -> None:
    target.mkdir(parents=True)
    (target / "__0_0.distcp").write_bytes(b"tensor")
    (target / ".metadata.tmp").write_bytes(b"pickled")
    assert not checkpoint.is_complete(target)
    (target / ".metadata.tmp").rename(target / ".metadata")
    assert checkpoint.is_complete(target)
    assert checkpoint.newest_complete(target.parent) == target


def test_the_newest_is_the_highest_complete_step_by_number(tmp_path: Path) -> None:
    for name in ("step-9", "step-10", "step-11", "step-012", "best", "step-99x"):
        (tmp_path / name).mkdir()
        if name != "step-11":
            (tmp_path / name / ".metadata").write_text("x")
    assert checkpoint.newest_complete(tmp_path) == tmp_path / "step-10"
    assert checkpoint.newest_complete(tmp_path / "nowhere") is None


@pytest.mark.parametrize("name", [".complete", ".part-0.json", ".tmp-x", ".metadata"])
def test_reserved_names_are_refused(tmp_path: Path, name: str) -> None:
    part = staged(tmp_path, 1)
    (part / name).write_text("x")
    with pytest.raises(CheckpointError, match="rank 1 must not save a file named"):
        checkpoint.check_part(part, 1)


@pytest.mark.parametrize("blocked", ["a/0", "b/0", "c/0"])
def test_a_carry_that_broke_off_is_repeated_whole(
    tmp_path: Path, target: Path, blocked: str
) -> None:
    maker = Maker(step=40, epoch=3, world_size=1)
    part = staged(tmp_path, 0)
    for name in ("a/0", "b/0", "c/0"):
        (part / name).parent.mkdir()
        (part / name).write_text(name)
    obstacle = target / blocked.partition("/")[0]
    target.mkdir(parents=True)
    obstacle.write_text("in the way")

    with pytest.raises(OSError, match="exists"):
        checkpoint.carry_part(part, DirectoryFolder(target), rank=0, maker=maker)
    assert not checkpoint.seal(DirectoryFolder(target), maker=maker, dcp_metadata=None)
    obstacle.unlink()
    checkpoint.carry_part(part, DirectoryFolder(target), rank=0, maker=maker)
    assert checkpoint.seal(DirectoryFolder(target), maker=maker, dcp_metadata=None)
    checkpoint.verify(target)


def test_a_part_that_its_marker_vouches_for_is_not_written_again(
    tmp_path: Path, target: Path
) -> None:
    part = staged(tmp_path, 1, weights="w")
    checkpoint.carry_part(part, DirectoryFolder(target), rank=1, maker=MAKER)
    before = [(p.name, p.stat().st_ino, p.stat().st_mtime_ns) for p in sorted(target.iterdir())]
    checkpoint.carry_part(part, DirectoryFolder(target), rank=1, maker=MAKER)
    after = [(p.name, p.stat().st_ino, p.stat().st_mtime_ns) for p in sorted(target.iterdir())]
    assert after == before

    (part / "weights").write_text("other")
    checkpoint.carry_part(part, DirectoryFolder(target), rank=1, maker=MAKER)
    assert (target / "weights").read_text() == "other"


def contents(directory: Path) -> dict[str, bytes]:
    def files() -> Iterator[Path]:
        return (path for path in directory.rglob("*") if path.is_file())

    return {path.name: path.read_bytes() for path in files()}
