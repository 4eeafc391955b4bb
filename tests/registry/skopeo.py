"""The second opinion: what skopeo makes of the same registries."""

import json
import shutil
import subprocess
from typing import Any

from tests.registry.servers import Server

WITHIN_S = 120


def copy(source: Server, here: str, digest: str, destination: Server, there: str) -> None:
    """Copy all of an image under its digest."""
    _run(
        "copy",
        "--all",
        "--preserve-digests",
        "--src-tls-verify=false",
        "--dest-tls-verify=false",
        f"docker://{source.name}/{here}@{digest}",
        f"docker://{destination.name}/{there}@{digest}",
    )


def raw(server: Server, repository: str, digest: str) -> bytes:
    """Return a manifest's very bytes."""
    place = f"docker://{server.name}/{repository}@{digest}"
    return _run("inspect", "--raw", "--tls-verify=false", place)


def inspect(server: Server, repository: str, tag: str) -> dict[str, Any]:
    """Return what it says of the image for this machine."""
    place = f"docker://{server.name}/{repository}:{tag}"
    told: dict[str, Any] = json.loads(
        _run("--override-arch=amd64", "inspect", "--tls-verify=false", place)
    )
    return told


def _run(*arguments: str) -> bytes:
    program = shutil.which("skopeo")
    assert program is not None, "skopeo is not installed: apt-get install it"
    ended = subprocess.run(
        [program, "--insecure-policy", *arguments],
        capture_output=True,
        check=False,
        timeout=WITHIN_S,
    )
    assert ended.returncode == 0, ended.stderr.decode(errors="replace")
    return ended.stdout
