"""The rig's builder: a folder of the cache is complete or absent, and named by what went in.

A small program stands in for Go: the builder's own conduct is what is looked at here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.rig import building
from tests.cluster.rig.waiting import wait_until
from tests.house.tree import ROOT

# Answers as `go` does: a module's folder, a version, and a "binary" with the arguments in it.
GO = """#!/bin/sh
case "$1" in
version) echo "go version go${GO_SAYS:-1.99.0} linux/amd64" ;;
mod) ;;
list) echo "$GO_MODULES/$5" ;;
build)
  while [ "$1" != -o ]; do shift; done
  [ "$(basename "$2")" = "$GO_FAILS" ] && { echo "no such package" >&2; exit 1; }
  [ "$(basename "$2")" = "$GO_HANGS" ] && { touch "$GO_MODULES/hanging"; exec sleep 600; }
  echo built > "$2" ;;
esac
"""


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Go whose modules have all files that are copied; returns the modules' folder."""
    modules, tools = tmp_path / "modules", tmp_path / "tools"
    for copied in building.COPIES:
        file = modules / copied.module / copied.pattern.replace("*", "some")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("kind: Some\n")
    main = modules / "sigs.k8s.io/kueue/cmd/kueue/main.go"
    main.parent.mkdir(parents=True)
    main.write_text('package main\n\nvar path = "/etc/kueue/metrics/certs"\n')
    tools.mkdir()
    (tools / "go").write_text(GO)
    (tools / "go").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    monkeypatch.setenv("GO_MODULES", str(modules))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return modules


def test_it_is_built_once(go: Path) -> None:
    said: list[str] = []
    first = building.build(said.append)
    built = {p.name for p in (first.folder / "bin").iterdir()}
    assert (built, len(said)) == ({"etcd", "kube", "kueue", "jobset", "kwok"}, 11)
    for copied in building.COPIES:
        assert first.files(copied.folder) != []
    said.clear()
    assert (building.build(said.append), said) == (first, [])


def test_kueues_certificates_are_where_no_right_is_needed(go: Path, tmp_path: Path) -> None:
    kueue = next(p for p in building.PROGRAMS if p.name == "kueue")
    main = building.moved_main(kueue, tmp_path / "main")
    assert 'path = "certificates"' in (main / "main.go").read_text()
    assert (main / "go.sum").read_bytes() == (building.GO / "kueue" / "go.sum").read_bytes()


def test_a_main_that_has_changed_is_not_built_as_if_it_had_not(go: Path, tmp_path: Path) -> None:
    (go / "sigs.k8s.io/kueue/cmd/kueue/main.go").write_text("package main\n")
    with pytest.raises(building.RigNotBuiltError, match="exactly one place"):
        building.build(lambda _: None)
    assert not building.place().exists()


def test_a_build_that_fails_leaves_nothing_that_looks_built(
    go: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GO_FAILS", "jobset")
    with pytest.raises(building.RigNotBuiltError, match="no such package"):
        building.build(lambda _: None)
    with pytest.raises(building.RigNotBuiltError, match="not built yet"):
        building.assets()
    monkeypatch.setenv("GO_FAILS", "")
    building.build(lambda _: None)
    building.assets()


@pytest.mark.alone
def test_a_build_that_is_killed_leaves_nothing_that_looks_built(
    go: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = subprocess.Popen(
        [sys.executable, "-m", "tests.cluster.rig", "build"],
        cwd=ROOT,
        env={**os.environ, "GO_HANGS": "kueue"},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_until((go / "hanging").exists, 60, "the third compiler")
    os.killpg(killed.pid, 9)
    killed.wait(30)
    with pytest.raises(building.RigNotBuiltError, match="not built yet"):
        building.assets()
    building.build(lambda _: None)
    building.assets()


@pytest.mark.parametrize("says", ["1.21.0", "0.9"])
def test_an_old_go_is_refused_by_name(go: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    monkeypatch.setenv("GO_SAYS", says)
    with pytest.raises(building.RigNotBuiltError, match=rf"or newer is needed.*go{says}"):
        building.build(lambda _: None)


def test_without_go_it_says_what_to_install(
    go: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(building.RigNotBuiltError, match=r"newer is needed .*no go command"):
        building.build(lambda _: None)


def test_other_assets_are_taken_where_the_environment_names_them(
    go: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "envtest"))
    made = building.build(lambda _: None)
    assert not (made.folder / "bin" / "etcd").exists()
    assert (made.etcd, made.apiserver) == (
        tmp_path / "envtest" / "etcd",
        (str(tmp_path / "envtest" / "kube-apiserver"),),
    )


def test_a_pin_that_changes_is_another_folder(
    go: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = building.key()
    pins = tmp_path / "pins"
    for file in building.GO.rglob("*"):
        if file.is_file():
            copy = pins / file.relative_to(building.GO)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    monkeypatch.setattr(building, "GO", pins)
    assert building.key() == before
    sums = pins / "kwok" / "go.sum"
    sums.write_bytes(sums.read_bytes() + b"\n")
    assert building.key() != before
