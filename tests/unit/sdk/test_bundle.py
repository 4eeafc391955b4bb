"""Working directories, packed: what git would keep, the same bytes, and nothing from outside."""

from __future__ import annotations

import gzip
import hashlib
import os
import socket
import string
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.sdk import bundle as bundles
from broker.sdk.bundle import pack
from broker.sdk.errors import BundleError
from broker.sdk.worktree import files_of
from regions.launcher import bundle as launcher

Make = Callable[[Path], None]


def write(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    subprocess.run(
        ["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True, timeout=30
    )


def unpacked(root: Path, target: Path) -> dict[str, str]:
    """Pack, and unpack with the launcher's own code."""
    with pack(root) as packed:
        data = b"".join(packed.chunks(1000))
    assert (hashlib.sha256(data).hexdigest(), len(data)) == (packed.digest, packed.size_bytes)
    archive = target.with_suffix(".tar.gz")
    archive.write_bytes(data)
    launcher._unpack(str(archive), str(target))
    return {
        str(path.relative_to(target)): path.read_text()
        for path in sorted(target.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(params=["git", "no git"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    if request.param == "git":
        git(root, "init")
    return root


def test_what_is_ignored_stays_at_home(root: Path) -> None:
    write(root, "train.py", "lib/a.py", "lib/b.log", "data/big.bin", "keep/x.log", "a.log")
    (root / ".gitignore").write_text("*.log\n/data/\n")
    (root / "keep" / ".gitignore").write_text("!x.log\n")
    assert files_of(root) == (
        ".gitignore", "keep/.gitignore", "keep/x.log", "lib/a.py", "train.py",
    )  # fmt: skip


def test_what_is_packed_is_what_unpacks(root: Path, tmp_path: Path) -> None:
    write(root, "train.py", "lib/deep/er/a.py", "naïve name.txt", " spaces ")
    (root / "run.sh").write_text("#!/bin/sh")
    (root / "run.sh").chmod(0o755)
    (root / "link.py").symlink_to("train.py")
    found = unpacked(root, tmp_path / "there")
    assert found == {
        " spaces ": " spaces ",
        "lib/deep/er/a.py": "lib/deep/er/a.py",
        "link.py": "train.py",
        "naïve name.txt": "naïve name.txt",
        "run.sh": "#!/bin/sh",
        "train.py": "train.py",
    }
    assert os.access(tmp_path / "there" / "run.sh", os.X_OK)
    assert not os.access(tmp_path / "there" / "train.py", os.X_OK)


def test_tracked_files_count_even_when_ignored_and_deleted_ones_do_not(tmp_path: Path) -> None:
    git(tmp_path, "init")
    write(tmp_path, "a.log", "gone.py", "new.py")
    git(tmp_path, "add", "-f", "a.log", "gone.py")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "gone.py").unlink()
    assert files_of(tmp_path) == (".gitignore", "a.log", "new.py")


def test_repositories_within_are_packed_by_their_own_rules(tmp_path: Path) -> None:
    git(tmp_path, "init")
    write(tmp_path, "a.py", "inner/b.py", "inner/b.tmp")
    git(tmp_path / "inner", "init")
    (tmp_path / "inner" / ".gitignore").write_text("*.tmp\n")
    assert files_of(tmp_path) == ("a.py", "inner/.gitignore", "inner/b.py")
    git(tmp_path / "inner", "add", ".")
    git(tmp_path / "inner", "commit", "-m", "x")
    git(tmp_path, "add", "inner")  # now a submodule without a name, as git calls it
    assert files_of(tmp_path) == ("a.py", "inner/.gitignore", "inner/b.py")


def test_a_folder_of_a_repository_is_packed_alone(tmp_path: Path) -> None:
    git(tmp_path, "init")
    write(tmp_path, "a.py", "sub/b.py", "sub/c.log")
    (tmp_path / ".gitignore").write_text("*.log\n")
    assert files_of(tmp_path / "sub") == ("b.py",)


def test_the_same_files_give_the_same_bytes(root: Path, tmp_path: Path) -> None:
    write(root, "b.py", "a/c.py")
    other = tmp_path / "other"
    other.mkdir()
    write(other, "a/c.py", "b.py")
    os.utime(other / "b.py", (1, 1))
    (other / "b.py").chmod(0o600)
    with pack(root) as one, pack(other) as two:
        assert one.digest == two.digest
        one.file.seek(0)
        with tarfile.open(fileobj=gzip.GzipFile(fileobj=one.file), mode="r:") as archive:
            members = archive.getmembers()
    assert [(m.name, m.mtime, m.uid, m.gid, m.uname, m.mode) for m in members] == [
        ("a/c.py", 0, 0, 0, "", 0o644),
        ("b.py", 0, 0, 0, "", 0o644),
    ]


def outside(root: Path) -> None:
    write(root.parent, "secret")
    (root / "l").symlink_to("../secret")


def absolute(root: Path) -> None:
    (root / "l").symlink_to("/etc/passwd")


def nowhere(root: Path) -> None:
    (root / "l").symlink_to("missing")


def loop(root: Path) -> None:
    (root / "l").symlink_to("l")


def folder(root: Path) -> None:
    write(root, "d/a")
    (root / "l").symlink_to("d")


def chain(root: Path) -> None:
    outside(root)
    (root / "l").rename(root / "m")
    (root / "l").symlink_to("m")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (outside, "l is a link that leads out"),
        (absolute, "l is a link that leads out"),
        (nowhere, "l is a link that leads nowhere"),
        (loop, "l is a link that leads nowhere"),
        (folder, "l is a link to a folder"),
        (chain, "l is a link that leads out"),
    ],
)
def test_a_link_that_cannot_be_packed_is_named(root: Path, make: Make, said: str) -> None:
    write(root, "a.py")
    make(root)
    with pytest.raises(BundleError, match=said):
        pack(root)


def test_a_folder_that_a_link_replaced_brings_nothing_from_outside(tmp_path: Path) -> None:
    root, other = tmp_path / "work", tmp_path / "other"
    root.mkdir()
    git(root, "init")
    write(root, "d/a", "b")
    git(root, "add", ".")
    write(other, "a")
    (root / "d" / "a").unlink()
    (root / "d").rmdir()
    (root / "d").symlink_to(other)
    with pytest.raises(BundleError, match="d is a link that leads out"):
        files_of(root)


def test_pipes_and_sockets_are_left_out(root: Path) -> None:
    write(root, "a.py")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(root / "sock"))
    assert files_of(root) == ("a.py",)


def test_what_is_too_large_is_refused_before_it_is_sent(root: Path) -> None:
    (root / "noise").write_bytes(os.urandom(3 << 20))
    with pytest.raises(BundleError, match=r"over 1 MiB packed: name what is large in \.gitignore"):
        pack(root, size_max=1 << 20)
    with pack(root, size_max=4 << 20) as packed:
        assert packed.size_bytes > 3 << 20


def test_too_many_files_are_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "FILES_MAX", 2)
    write(root, "a", "b", "c")
    with pytest.raises(BundleError, match="holds 3 files; the most is 2"):
        pack(root)


def test_a_file_that_cannot_be_read_and_a_name_that_is_no_text_are_named(root: Path) -> None:
    os.close(os.open(os.fsencode(root) + b"/\xff", os.O_CREAT | os.O_WRONLY))
    with pytest.raises(BundleError, match="is not UTF-8"):
        pack(root)
    with pytest.raises(BundleError, match="is not a directory"):
        pack(root / "missing")


def test_progress_is_told(root: Path) -> None:
    write(root, "a", "b")
    told: list[tuple[int, int]] = []
    with pack(root, on_progress=lambda done, total: told.append((done, total))):
        assert told == [(1, 2), (2, 2)]


NAMES = st.text(
    alphabet=string.ascii_letters + "._- é\n$'\"\\*?[]", min_size=1, max_size=12
).filter(lambda name: name not in (".", "..", ".git", ".gitignore") and len(name.encode()) < 200)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(paths=st.lists(st.lists(NAMES, min_size=1, max_size=3), max_size=5), in_git=st.booleans())
def test_any_names_pack_and_unpack_or_are_refused_with_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, paths: list[list[str]], *, in_git: bool
) -> None:
    root = tmp_path_factory.mktemp("work")
    if in_git:
        git(root, "init")
    written = set()
    for parts in paths:
        path = root.joinpath(*parts)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x")
        except OSError:
            continue  # a file stands where a folder is wanted
        written.add(str(path.relative_to(root)))
    assert set(unpacked(root, root.with_suffix(".out"))) == written


def test_a_folder_whose_ignore_file_cannot_be_looked_at_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(4096 // 256):  # longer in all than what the system takes as a path
        os.mkdir("d" * 255)
        os.chdir("d" * 255)
    with pytest.raises(BundleError, match=r"\.gitignore cannot be used: .*too long"):
        pack(str(tmp_path))
