"""What a start begins with is all there, and is what was chosen, before the command runs."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from regions.launcher import layout
from regions.launcher.resume import fault_of
from regions.launcher.store import DirectoryStore, StoreUnreachable
from replicator.checkpoint.describe import attest
from replicator.checkpoint.formats import Format
from replicator.stores import DirectoryStore as ContentDirectory
from tests.fakes.checkpoints import PATH, save, unheard

FOLDER = PATH.prefix.rstrip("/")
FILES = {"model": b"12345678", "optimizer/state": b"123"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    save(ContentDirectory.create(tmp_path / "root"), PATH, FILES)
    return tmp_path / "root"


def attested(root: Path) -> str:
    return attest(ContentDirectory(root), PATH, Format.FILES, unheard).manifest.digest


def test_what_is_there_as_the_broker_left_it_passes(root: Path) -> None:
    digest = attested(root)
    store = DirectoryStore(str(root))
    assert [fault_of(store, FOLDER, told) for told in (digest, None)] == ["", ""]


def alter(path: Path) -> None:
    document = json.loads(path.read_bytes())
    document["files"][1]["size_bytes"] += 1
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("name", "harm", "said"),
    [
        ("model", Path.unlink, "'model' is not there as the manifest says"),
        ("model", lambda path: path.write_bytes(b"1"), "'model' is not there"),
        ("optimizer/state", Path.unlink, "'optimizer/state' is not there"),
        (".complete", Path.unlink, "'.complete' is not there"),
        ("_REPLICA.json", Path.unlink, "has no _REPLICA.json any more"),
        ("_REPLICA.json", lambda path: path.write_bytes(b"["), "cannot be read (JSONDecodeError"),
        ("_REPLICA.json", lambda path: path.write_bytes(b"[]"), "cannot be read (TypeError"),
        ("_REPLICA.json", alter, "cannot be read (ValueError"),
    ],
)
def test_what_is_not_there_as_it_was_left_starts_nothing(
    root: Path, name: str, harm: Callable[[Path], object], said: str
) -> None:
    digest = attested(root)
    harm(root / FOLDER / name)
    assert said in fault_of(DirectoryStore(str(root)), FOLDER, digest)


def test_a_link_in_the_place_of_a_file_is_none(root: Path, tmp_path: Path) -> None:
    digest = attested(root)
    model = root / FOLDER / "model"
    model.rename(tmp_path / "model")
    model.symlink_to(tmp_path / "model")
    assert "'model' is not there" in fault_of(DirectoryStore(str(root)), FOLDER, digest)


def test_another_checkpoint_than_was_chosen_starts_nothing(root: Path) -> None:
    attested(root)
    said = fault_of(DirectoryStore(str(root)), FOLDER, "0" * 64)
    assert said == f"{FOLDER} holds another checkpoint than was chosen"


def test_what_no_seal_tells_of_needs_no_manifest(root: Path) -> None:
    assert fault_of(DirectoryStore(str(root)), FOLDER, None) == ""


def test_a_store_that_is_away_is_not_one_without_the_checkpoint(root: Path) -> None:
    digest = attested(root)
    root.rename(root.with_name("away"))
    with pytest.raises(StoreUnreachable):
        fault_of(DirectoryStore(str(root)), FOLDER, digest)


def test_a_grant_tells_by_its_seals_what_it_resumes_from() -> None:
    first, second = layout.EpochId(1, "a" * 32), layout.EpochId(1, "b" * 32)
    grant = layout.Grant(
        placement="p",
        epoch=layout.EpochId(2, "c" * 32),
        world_size=1,
        incarnation=1,
        resume_from=layout.RunKeys("r").checkpoint(first, 20),
        bundle=None,
        seals=(
            layout.Seal(epoch=second, steps=((20, "2" * 64),)),
            layout.Seal(epoch=first, steps=((10, "0" * 64), (20, "1" * 64))),
        ),
    )
    assert grant.resume_digest == "1" * 64
