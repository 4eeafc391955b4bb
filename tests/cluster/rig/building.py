"""Builds the rig's programs from pinned Go modules, once per set of pins, into the user's cache.

The rule: a folder of the cache is complete or absent. It is named by a hash of all that goes in
(``go.mod``, ``go.sum``, our mains, flags), filled beside its place and renamed into it at the end.
What a start needs of the modules' files (CRDs, webhooks, kwok's stages) is copied too, so that a
start needs no Go. Read ``build``; ``programs`` is what is built.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

GO = Path(__file__).parent / "go"
KUBERNETES = "1.35.4"
KUEUE = "0.17.0"
PARALLEL = "2"  # compilers at once: each takes up to 1.5 GB
# Kueue reads its certificates from paths that only root can make. Both become this one, below the
# folder that it is started in.
KUEUE_CERTIFICATES = "certificates"
COMPONENT = "k8s.io/component-base/version"


class RigNotBuiltError(Exception):
    """The programs are not in the cache, or cannot be built; the text says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One binary: the folder of ``go/`` with its pins, the package, and what the linker sets."""

    name: str
    package: str
    linked: tuple[tuple[str, str], ...] = ()
    moves: tuple[tuple[str, str], ...] = ()  # of its main: a literal, and what stands there instead

    @property
    def module(self) -> str:
        """The module that holds the package."""
        return self.package.partition("/cmd/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """Files of a module that a start needs."""

    pins: str
    module: str
    pattern: str
    folder: str


PROGRAMS = (
    Program(name="etcd", package="."),
    Program(
        name="kube",
        package=".",
        linked=(
            (f"{COMPONENT}.gitVersion", f"v{KUBERNETES}"),
            (f"{COMPONENT}.gitMajor", KUBERNETES.split(".", maxsplit=1)[0]),
            (f"{COMPONENT}.gitMinor", KUBERNETES.split(".")[1]),
        ),
    ),
    Program(
        name="kueue",
        package="sigs.k8s.io/kueue/cmd/kueue",
        linked=(
            ("sigs.k8s.io/kueue/pkg/version.GitVersion", f"v{KUEUE}"),
            ("sigs.k8s.io/kueue/pkg/visibility.certDir", KUEUE_CERTIFICATES),
        ),
        moves=(('"/etc/kueue/metrics/certs"', f'"{KUEUE_CERTIFICATES}"'),),
    ),
    Program(name="jobset", package="sigs.k8s.io/jobset"),
    Program(name="kwok", package="sigs.k8s.io/kwok/cmd/kwok"),
)
COPIES = (
    Copied(
        pins="kueue",
        module="sigs.k8s.io/kueue",
        pattern="config/components/crd/bases/*.yaml",
        folder="crds",
    ),
    Copied(
        pins="kueue",
        module="sigs.k8s.io/kueue",
        pattern="config/components/crd/patches/webhook_in_*.yaml",
        folder="converted",
    ),
    Copied(
        pins="kueue",
        module="sigs.k8s.io/kueue",
        pattern="config/components/webhook/manifests.yaml",
        folder="webhooks/kueue",
    ),
    Copied(
        pins="kueue",
        module="k8s.io/autoscaler/cluster-autoscaler/apis",
        pattern="config/crd/*provisioningrequests.yaml",
        folder="crds",
    ),
    Copied(
        pins="jobset",
        module="sigs.k8s.io/jobset",
        pattern="config/components/crd/bases/*.yaml",
        folder="crds",
    ),
    Copied(
        pins="jobset",
        module="sigs.k8s.io/jobset",
        pattern="config/components/webhook/manifests.yaml",
        folder="webhooks/jobset",
    ),
    Copied(
        pins="kwok",
        module="sigs.k8s.io/kwok",
        pattern="kustomize/stage/node/fast/node-initialize.yaml",
        folder="stages",
    ),
    Copied(
        pins="kwok",
        module="sigs.k8s.io/kwok",
        pattern="kustomize/stage/node/heartbeat-with-lease/node-*.yaml",
        folder="stages",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assets:
    """Where the built programs and the files beside them are."""

    folder: Path
    etcd: Path
    apiserver: tuple[str, ...]
    controllers: tuple[str, ...]
    scheduler: tuple[str, ...]
    kueue: Path
    jobset: Path
    kwok: Path

    def files(self, folder: str) -> list[Path]:
        """Return the copied files of one folder (see COPIES), by name."""
        return sorted((self.folder / "files" / folder).rglob("*.yaml"))


def assets() -> Assets:
    """Return what was built for the pins of this checkout. Raises RigNotBuiltError."""
    folder = place()
    if not folder.is_dir():
        raise RigNotBuiltError(
            "the rig's programs are not built yet: python -m tests.cluster.rig build"
            " (about 20 minutes on 2 cores, once)"
        )
    given = kubebuilder()
    kube = str(folder / "bin" / "kube")
    return Assets(
        folder=folder,
        etcd=given / "etcd" if given else folder / "bin" / "etcd",
        apiserver=(str(given / "kube-apiserver"),) if given else (kube, "kube-apiserver"),
        controllers=(kube, "kube-controller-manager"),
        scheduler=(kube, "kube-scheduler"),
        kueue=folder / "bin" / "kueue",
        jobset=folder / "bin" / "jobset",
        kwok=folder / "bin" / "kwok",
    )


def build(say: Callable[[str], None]) -> Assets:
    """Build what is missing; with all there, return at once. Raises RigNotBuiltError."""
    folder = place()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with only_one(folder.parent / "lock", say):
        if not folder.is_dir():
            need_go()
            # A build that was killed leaves this: each run of the compiler that it finished is
            # in Go's own cache, so the folder itself is not worth keeping.
            started = folder.with_suffix(".unfinished")
            shutil.rmtree(started, ignore_errors=True)
            fill(started, say)
            started.rename(folder)
            say(f"built into {folder}")
    return assets()


def fill(folder: Path, say: Callable[[str], None]) -> None:
    """Build every program and copy every file into a new folder."""
    (folder / "bin").mkdir(parents=True)
    todo = [p for p in PROGRAMS if not (p.name == "etcd" and kubebuilder())]
    for number, program in enumerate(todo, 1):
        say(f"[{number}/{len(todo)}] {program.name}: building")
        began = time.monotonic()
        compile_program(program, folder / "bin", folder / "main")
        size_mb = (folder / "bin" / program.name).stat().st_size / 1e6
        say(
            f"[{number}/{len(todo)}] {program.name}: {time.monotonic() - began:.0f} s,"
            f" {size_mb:.0f} MB"
        )
    for copied in COPIES:
        copy(copied, folder / "files" / copied.folder)
    shutil.rmtree(folder / "main", ignore_errors=True)


def compile_program(program: Program, bin_folder: Path, scratch: Path) -> None:
    """Run the compiler for one program."""
    pins, package = GO / program.name, program.package
    if program.moves:
        pins, package = moved_main(program, scratch), "."
    flags = " ".join(f"-X {name}={value}" for name, value in program.linked)
    go(
        "build",
        "-trimpath",
        "-ldflags",
        f"-s -w {flags}".strip(),
        "-o",
        str(bin_folder / program.name),
        package,
        cwd=pins,
    )


def moved_main(program: Program, scratch: Path) -> Path:
    """Return a folder with a module's own main package in which some literals are others."""
    pins = GO / program.name
    go("mod", "download", program.module, cwd=pins)
    source = module_folder(program.module, pins) / program.package.removeprefix(
        program.module + "/"
    )
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    for name in ("go.mod", "go.sum"):
        shutil.copyfile(pins / name, scratch / name)
    for file in sorted(source.glob("*.go")):
        if file.name.endswith("_test.go"):
            continue
        text = file.read_text()
        for literal, other in program.moves:
            text = text.replace(literal, other)
        (scratch / file.name).write_text(text)
    written = "".join(file.read_text() for file in scratch.glob("*.go"))
    for _, other in program.moves:
        if written.count(other) != 1:
            raise RigNotBuiltError(f"{program.package} has not exactly one place for {other}")
    return scratch


def copy(copied: Copied, folder: Path) -> None:
    """Copy files of a module, all of which must be there."""
    go("mod", "download", copied.module, cwd=GO / copied.pins)
    found = sorted(module_folder(copied.module, GO / copied.pins).glob(copied.pattern))
    if not found:
        raise RigNotBuiltError(f"{copied.module} has no {copied.pattern}")
    folder.mkdir(parents=True, exist_ok=True)
    for file in found:
        shutil.copyfile(file, folder / file.name)


def module_folder(module: str, pins: Path) -> Path:
    """Return where Go keeps the sources of a module."""
    return Path(go("list", "-m", "-f", "{{.Dir}}", module, cwd=pins).strip())


def go(*argv: str, cwd: Path) -> str:
    """Run the go command with the pins as they are, and return its output."""
    done = subprocess.run(
        ["go", *argv],
        cwd=cwd,
        env={
            **os.environ,
            "CGO_ENABLED": "0",
            "GOFLAGS": f"-mod=readonly -buildvcs=false -p={PARALLEL}",
            "GOWORK": "off",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RigNotBuiltError(f"go {argv[0]} failed in {cwd}:\n{done.stderr[-3000:]}")
    return done.stdout


def need_go() -> None:
    """Raise RigNotBuiltError unless there is a Go that can build the pins."""
    wanted = max(
        tuple(int(n) for n in found.split("."))
        for pins in GO.glob("*/go.mod")
        for found in re.findall(r"^go ([\d.]+)$", pins.read_text(), re.MULTILINE)
    )
    words = (
        f"Go {'.'.join(map(str, wanted))} or newer is needed to build the rig (https://go.dev/dl)"
    )
    if shutil.which("go") is None:
        raise RigNotBuiltError(f"{words}; no go command is on the PATH")
    said = subprocess.run(["go", "version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"go(\d+)\.(\d+)", said)
    if found is None or tuple(map(int, found.groups())) < wanted[:2]:
        raise RigNotBuiltError(f"{words}; here is: {said.strip()}")


def place() -> Path:
    """Return the folder of the cache for the pins of this checkout."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "capacity-broker" / "rig" / key()


def key() -> str:
    """Return a name for all that goes into a build."""
    digest = hashlib.sha256(repr((PROGRAMS, COPIES, bool(kubebuilder()))).encode())
    for file in sorted(GO.rglob("*")):
        if file.is_file():
            digest.update(f"{file.relative_to(GO)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def kubebuilder() -> Path | None:
    """Return the folder with etcd and kube-apiserver that the environment names, if it does."""
    named = os.environ.get("KUBEBUILDER_ASSETS")
    return Path(named) if named else None


@contextmanager
def only_one(lock: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the cache for one builder; a second one waits, and then finds all built."""
    with lock.open("a") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another build is under way; waiting for it")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
