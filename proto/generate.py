"""Turns proto/broker/v1 into the package broker/v1, and holds the protos to their rules.

The rule it keeps: what is committed is what the installed protoc makes of the protos, and no client
built against released.binpb breaks. `main` reads first.

    proto/generate.py             write broker/v1
    proto/generate.py --check     change nothing, fail where something is stale or against a rule
    proto/generate.py --release   accept the protos as what clients are built against
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "proto"
GENERATED = ROOT / "broker" / "v1"
RELEASED = PROTOS / "released.binpb"
SCRIPTS = Path(sysconfig.get_path("scripts"))


class Refused(Exception):
    """The protos, or what was generated from them, are not as they must be; the text says why."""


def main(arguments: list[str]) -> int:
    """Does what the flags say; returns the exit code."""
    parser = argparse.ArgumentParser(description="Generate broker/v1 from proto/.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="change nothing, fail when stale")
    what.add_argument("--release", action="store_true", help="accept the protos as released")
    flags = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            image = compile_protos(Path(scratch))
            fresh = generated_files(Path(scratch) / "broker" / "v1")
            if flags.check:
                check_rules(image)
                check_current(fresh)
            elif flags.release:
                RELEASED.write_bytes(without_comments(image))
            else:
                replace_generated(fresh)
        except Refused as refusal:
            print(refusal, file=sys.stderr)
            return 1
    return 0


def compile_protos(out: Path) -> Path:
    """Runs protoc into `out`: messages, services, their type stubs, and an image for buf."""
    sources = sorted(str(path.relative_to(PROTOS)) for path in PROTOS.glob("broker/v1/*.proto"))
    if not sources:
        raise Refused("There is no proto in proto/broker/v1.")
    image = out / "image.binpb"
    run(
        [sys.executable, "-m", "grpc_tools.protoc"]
        + [f"-I{root}" for root in (PROTOS, package_root("google.rpc"), bundled_protos())]
        + ["--include_imports", "--include_source_info", f"--descriptor_set_out={image}"]
        + [f"--python_out={out}", f"--grpc_python_out={out}"]
        + [f"--plugin=protoc-gen-{name}={SCRIPTS}/protoc-gen-{name}" for name in STUB_PLUGINS]
        + [f"--{name}_out=quiet:{out}" for name in STUB_PLUGINS]
        + sources
    )
    drop_empty_services(out)
    return image


def drop_empty_services(out: Path) -> None:
    """Removes the service modules of protos that declare no service; nobody imports them."""
    for module in out.glob("broker/v1/*_pb2_grpc.py"):
        if "class " not in module.read_text():
            module.unlink()
            module.with_suffix(".pyi").unlink()


STUB_PLUGINS = ("mypy", "mypy_grpc")


def check_rules(image: Path) -> None:
    """Refuses what buf finds: style, missing comments, format, a change that breaks a client."""
    if not RELEASED.exists():
        raise Refused(f"{RELEASED.relative_to(ROOT)} is missing: nothing says what may not break.")
    buf, rules = str(SCRIPTS / "buf"), ["--config", str(PROTOS / "buf.yaml")]
    run([buf, "format", "--diff", "--exit-code", str(PROTOS)])
    run([buf, "lint", str(image), *rules])
    run([buf, "breaking", str(image), "--against", str(RELEASED), *rules])


def check_current(fresh: dict[str, bytes]) -> None:
    """Refuses when a committed file differs from the generated one, is missing, or is left over."""
    committed = generated_files(GENERATED)
    stale = sorted(
        name for name in committed.keys() | fresh.keys() if committed.get(name) != fresh.get(name)
    )
    if stale:
        raise Refused(f"broker/v1 is not what proto/ says; run `make proto`: {', '.join(stale)}")


def replace_generated(fresh: dict[str, bytes]) -> None:
    """Makes broker/v1 exactly the generated files, beside its __init__.py."""
    for name in generated_files(GENERATED).keys() - fresh.keys():
        (GENERATED / name).unlink()
    for name, content in fresh.items():
        (GENERATED / name).write_bytes(content)


def generated_files(folder: Path) -> dict[str, bytes]:
    """Returns name and content of what protoc makes, which is all that has _pb2 in its name."""
    return {path.name: path.read_bytes() for path in folder.glob("*_pb2*.py*")}


def without_comments(image: Path) -> bytes:
    """Returns the image without comments and positions, which break nobody when they change."""
    files = FileDescriptorSet.FromString(image.read_bytes())
    for file in files.file:
        file.ClearField("source_code_info")
    return files.SerializeToString(deterministic=True)


def package_root(package: str) -> Path:
    """Returns the directory from which the installed package's own protos are imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise Refused(f"The package {package} is not installed.")
    return Path(spec.submodule_search_locations[0]).parents[package.count(".")]


def bundled_protos() -> Path:
    """Returns where grpc_tools keeps the protos of google.protobuf."""
    return package_root("grpc_tools") / "grpc_tools" / "_proto"


def run(command: list[str]) -> None:
    """Runs a tool to its end; refuses with everything it said when it fails."""
    result = subprocess.run(
        command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if result.returncode != 0:
        raise Refused(f"{Path(command[0]).name} {command[1]}:\n{result.stdout.rstrip()}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
