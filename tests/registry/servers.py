"""Debian's docker-registry as processes of this machine, each on a port and in a folder of its own.

The rule: none of them outlives the tests, and what they hold is read from their folders as well,
past every interface. Read ``Servers.start`` first.
"""

import json
import shutil
import socket
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.rig.children import Warden
from tests.cluster.rig.waiting import wait_until

# "who" with the password "open-sesame".
HTPASSWD = "who:$2b$04$hvgianeFx.Dd2rLa/Hs20eAGOC4zD0m9k5qE/ybEMFfNdL94Fh4xe\n"
USER, PASSWORD = "who", "open-sesame"
UP_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A registry that answers at ``name``."""

    name: str
    folder: Path
    log: Path

    def blobs(self, repository: str) -> set[str]:
        """Return the digests of blobs that a repository links."""
        return self._links(repository, "_layers/sha256")

    def manifests(self, repository: str) -> set[str]:
        """Return the digests of manifests that a repository links."""
        return self._links(repository, "_manifests/revisions/sha256")

    def content(self, digest: str) -> bytes:
        """Return the bytes that lie on the disk under a digest."""
        _, _, hexadecimal = digest.partition(":")
        folder = self.folder / "docker/registry/v2/blobs/sha256"
        return (folder / hexadecimal[:2] / hexadecimal / "data").read_bytes()

    def uploads(self) -> int:
        """Return how many blobs were uploaded whole, by the registry's own log."""
        told = self.log.read_text(errors="replace").splitlines()
        return sum(
            "http.request.method=PUT" in line
            and "blobs/uploads/" in line
            and "response completed" in line
            for line in told
        )

    def _links(self, repository: str, kind: str) -> set[str]:
        folder = self.folder / "docker/registry/v2/repositories" / repository / kind
        found = folder.glob("*/link") if folder.is_dir() else ()
        return {link.read_text() for link in found}


class Servers:
    """Starts registries, and ends them all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._warden = Warden(folder)

    def start(self, kind: str, port: int | None = None, **config: object) -> Server:
        """Start a registry with these sections of its configuration; wait until it answers.

        One of a ``kind`` that was started before takes up what that one left.
        """
        program = shutil.which("docker-registry")
        assert program is not None, "docker-registry is not installed: apt-get install it"
        port = port or free_port()
        folder = self._folder / kind
        folder.mkdir(exist_ok=True)
        written = self._folder / f"{kind}.yml"
        written.write_text(
            json.dumps(
                {
                    "version": 0.1,
                    "log": {"level": "info"},
                    "storage": {"filesystem": {"rootdirectory": str(folder)}},
                    "http": {"addr": f"127.0.0.1:{port}"},
                    # It takes no manifest with URLs otherwise.
                    "validation": {"manifests": {"urls": {"allow": ["^https://"]}}},
                    **config,
                }
            )
        )
        self._warden.start(kind, [program, "serve", str(written)], cwd=self._folder)
        server = Server(name=f"127.0.0.1:{port}", folder=folder, log=self._warden.log_of(kind))
        wait_until(lambda: answers(server), UP_WITHIN_S, f"the registry {kind}")
        return server

    def stop(self, kind: str) -> None:
        """End one at once, as a crash does."""
        self._warden.kill(kind)

    def htpasswd(self) -> Path:
        """Return a file of who may enter."""
        path = self._folder / "htpasswd"
        path.write_text(HTPASSWD)
        return path

    def close(self) -> None:
        """End them all."""
        self._warden.close()


def answers(server: Server) -> bool:
    """Whether a registry speaks."""
    try:
        with urllib.request.urlopen(f"http://{server.name}/v2/", timeout=5):
            return True
    except urllib.error.HTTPError as error:
        return error.code == 401
    except OSError:
        return False


def free_port() -> int:
    """Return a port of the loopback that nobody listens at now."""
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        port: int = door.getsockname()[1]
        return port
