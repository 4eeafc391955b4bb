"""Which files of a working directory go with a run: what git would keep.

The rule: in a git repository these are the tracked files and the untracked ones that are not
ignored; elsewhere all files that no .gitignore names. Nothing outside the directory is ever listed.
Read ``files_of`` first.
"""

import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from broker.sdk.errors import BundleError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

GIT_LIMIT_S = 60
DEPTH_MAX = 16  # of repositories within repositories
PATH_MAX = 1_000
FOLDER_DEPTH_MAX = 100
IGNORE_MAX_BYTES = 1024 * 1024


def files_of(root: Path) -> tuple[str, ...]:
    """Return the paths of the files, relative to ``root``, sorted. Raises BundleError."""
    found = set(_kept(root, _listed(root, "", 0)))
    return tuple(sorted(found))


def _listed(root: Path, within: str, depth: int) -> Iterator[str]:
    if depth > DEPTH_MAX:
        raise BundleError(f"{within} is a repository within {DEPTH_MAX} others")
    folder = root / within
    names = _git_names(folder) if shutil.which("git") and _is_in_repository(folder) else None
    if names is None:
        names = _walked(folder)
    for name in names:
        path = f"{within}{name.rstrip('/')}"
        if _is_folder(root / path):  # a repository of its own: a submodule, or just a clone
            yield from _listed(root, f"{path}/", depth + 1)
        else:
            yield path


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _is_in_repository(folder: Path) -> bool:
    return any((above / ".git").exists() for above in (folder.resolve(), *folder.resolve().parents))


def _git_names(folder: Path) -> list[str] | None:
    """Ask git; None when the folder is no repository of this user's, or wholly ignored by it."""
    command = ["git", "-C", str(folder), "ls-files", "-z", "-co", "--exclude-standard"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=GIT_LIMIT_S, check=False, env=environ
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BundleError(f"git could not list {folder}: {error}") from error
    if done.returncode != 0:
        return None
    names = [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]
    # A scratch folder that the repository around it ignores has a working directory all the same.
    return names or None


def _kept(root: Path, paths: Iterable[str]) -> Iterator[str]:
    """Yield what is there, once it was seen that it can be packed."""
    real_root = root.resolve()
    folders: dict[Path, bool] = {}
    for path in paths:
        _check_name(path)
        folder = (root / path).parent
        if folder not in folders:
            folders[folder] = folder.resolve() == real_root / folder.relative_to(root)
        if not folders[folder]:
            continue  # tracked, and a link has taken its folder's place since
        try:
            mode = os.lstat(root / path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue  # tracked, and deleted since
        if stat.S_ISLNK(mode):
            _check_link(root, real_root, path)
        elif not stat.S_ISREG(mode):
            continue  # a pipe, a socket or a device: git keeps none of them
        yield path


def _check_name(path: str) -> None:
    if len(path) > PATH_MAX:
        raise BundleError(f"{path[:60]}… is longer than {PATH_MAX} characters")
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise BundleError(f"the name {path!a} is not UTF-8: rename it, or ignore it") from error


def _check_link(root: Path, real_root: Path, path: str) -> None:
    try:
        target = (root / path).resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise BundleError(
            f"{path} is a link that leads nowhere: remove it, or ignore it"
        ) from error
    if not target.is_relative_to(real_root):
        raise BundleError(
            f"{path} is a link that leads out of the working directory: replace it by a copy,"
            " or ignore it"
        )
    if not target.is_file():
        raise BundleError(f"{path} is a link to a folder: replace it by a copy, or ignore it")


# ---- Where there is no git -------------------------------------------------------------------


def _walked(root: Path) -> list[str]:
    return list(_walk(root, "", ()))


def _walk(
    root: Path, within: str, ignores: "tuple[tuple[str, GitIgnoreSpec], ...]"
) -> Iterator[str]:
    if within.count("/") > FOLDER_DEPTH_MAX:
        raise BundleError(f"{within[:60]}… is deeper than {FOLDER_DEPTH_MAX} folders")
    spec = _ignore_file(root / within / ".gitignore")
    if spec is not None:
        ignores = (*ignores, (within, spec))
    try:
        entries = sorted(os.scandir(root / within), key=lambda entry: entry.name)
    except OSError as error:
        raise BundleError(f"{within or root} cannot be read: {error.strerror}") from error
    for entry in entries:
        path = f"{within}{entry.name}"
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name == ".git" or _is_ignored(f"{path}/" if is_folder else path, ignores):
            continue
        if is_folder:
            yield from _walk(root, f"{path}/", ignores)
        else:
            yield path


def _ignore_file(path: Path) -> "GitIgnoreSpec | None":
    try:
        if not path.is_file():
            return None
        from pathspec import GitIgnoreSpec

        with path.open("rb") as file:
            lines = file.read(IGNORE_MAX_BYTES).decode(errors="replace").splitlines()
        return GitIgnoreSpec.from_lines(lines)
    except (OSError, ValueError) as error:
        raise BundleError(f"{path} cannot be used: {error}") from error


def _is_ignored(path: str, ignores: "tuple[tuple[str, GitIgnoreSpec], ...]") -> bool:
    for within, spec in reversed(ignores):  # the file nearest by has the last word
        verdict = spec.check_file(path.removeprefix(within)).include
        if verdict is not None:
            return verdict
    return False
