"""Every import is of a declared dependency, and the lock has them all, with hashes.

The client installs without the daemon's packages: what `broker.sdk` and `broker.cli` import is
found among the base dependencies. That they reach no other package of the broker is a contract of
the layers, so what they import is all that they need.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from broker import brokerd
from tests.house.rules import imports, root_of
from tests.house.tree import ROOT, project_files, text_of, written_files

OURS = {"broker", "regions", "replicator"}
CLIENT = ("broker/__init__.py", "broker/sdk/", "broker/cli/", "broker/v1/")
BUNDLE = "broker/demo/training"
LOCK = ".ci/requirements.lock"
PROJECT: dict[str, Any] = tomllib.loads(text_of("pyproject.toml"))


@pytest.mark.parametrize(
    ("where", "extras"),
    [
        (CLIENT, ()),
        (("broker/", "regions/", "replicator/"), ("daemon", "demo", "gcp")),
        (("regions/", "replicator/"), ("daemon", "gcp")),
        (("broker/demo/",), ("demo",)),
    ],
)
def test_every_import_is_declared(where: tuple[str, ...], extras: tuple[str, ...]) -> None:
    files = [p for p in project_files() if p.endswith(".py") and p.startswith(where)]
    assert files != []
    assert [
        f"{path}:{line}: {name}"
        for path in files
        for line, name in imports(text_of(path))
        if not is_declared(name, declared(*extras)) and not is_in_bundle(path, name)
    ] == []


@pytest.mark.parametrize("name", ["sqlite_utils.Database", "prometheus_client.Counter", "numpy.a"])
def test_a_package_of_the_daemon_is_found_in_the_client(name: str) -> None:
    assert not is_declared(name, declared())
    assert is_declared(name, declared("daemon", "demo"))


def test_what_brokerd_looks_for_is_the_extra_of_its_name() -> None:
    found = packages_distributions()
    asked = {canonicalize_name(found[name][0]) for name in brokerd.NEEDED}
    assert asked == names(PROJECT["project"]["optional-dependencies"]["daemon"])


def test_brokerd_without_the_extra_says_how_to_get_it() -> None:
    # -S: no package that was installed is found, so it may import none to say so.
    found = subprocess.run(
        [sys.executable, "-S", "-m", "broker.brokerd", "--help"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=ROOT,
    )
    assert (found.returncode, found.stdout) == (brokerd.USAGE, "")
    assert "pip install '.[daemon]'" in found.stderr
    assert found.stderr.count("\n") == 1


def test_the_lock_has_every_declared_dependency() -> None:
    everything = declared("daemon", "demo", "gcp") | names(PROJECT["dependency-groups"]["dev"])
    assert everything - locked().keys() == set()


def test_the_lock_has_hashes_for_all() -> None:
    assert [name for name, entry in locked().items() if "--hash=sha256:" not in entry] == []


def test_the_lock_names_no_host() -> None:
    assert (
        re.findall(r"https?:|--(?:extra-)?index-url|--find-links|--trusted-host|@", text_of(LOCK))
        == []
    )


def test_tests_import_what_is_declared() -> None:
    everything = declared("daemon", "demo", "gcp") | names(PROJECT["dependency-groups"]["dev"])
    strangers = {
        name
        for path in written_files(".py")
        for _, name in imports(text_of(path))
        if path.startswith("tests/") and not is_declared(name, everything | {"packaging"})
    }
    assert strangers == set()


def is_in_bundle(path: str, name: str) -> bool:
    """Whether a script of the demo's bundle imports the file that is packed beside it."""
    folder, _, _ = path.rpartition("/")
    return folder == BUNDLE and (ROOT / folder / f"{root_of(name)}.py").is_file()


def declared(*extras: str) -> set[str]:
    """Returns the names of the base dependencies and of those extras."""
    optional = PROJECT["project"]["optional-dependencies"]
    return names(PROJECT["project"]["dependencies"]).union(*(names(optional[e]) for e in extras))


def names(requirements: list[str]) -> set[str]:
    """Returns the distribution names of requirements."""
    return {canonicalize_name(Requirement(line).name) for line in requirements}


def locked() -> dict[str, str]:
    """Returns each locked distribution with its whole entry."""
    entries = re.split(r"\n(?=\w)", text_of(LOCK).strip())
    return {canonicalize_name(entry.split("==")[0]): entry for entry in entries}


def is_declared(name: str, distributions: set[str]) -> bool:
    """Whether an imported name is ours, Python's, or of one of these distributions."""
    top = root_of(name)
    if top in OURS | {"tests"} | sys.stdlib_module_names:
        return True
    return bool({canonicalize_name(d) for d in PROVIDERS.get(top, [])} & distributions)


PROVIDERS = packages_distributions()
