"""A rig: one etcd, any number of regions started side by side, nothing left when it ends.

The rule: it can be started several times on one machine at once; ports, loopback networks, folders
and keys are its own. Read ``Rig.start``.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cluster.rig import commands
from tests.cluster.rig.building import assets
from tests.cluster.rig.certificates import write_certificates
from tests.cluster.rig.children import Warden
from tests.cluster.rig.commands import PORTS, Places
from tests.cluster.rig.leases import Leases
from tests.cluster.rig.region import Region
from tests.cluster.rig.waiting import wait_until

ETCD = "etcd"


class Rig:
    """Regions by name. Made complete, or not at all: ``start`` raises with nothing left over."""

    def __init__(self, regions: Sequence[str], folder: Path | None = None) -> None:
        self._assets = assets()
        self._names = tuple(regions)
        self._is_own_folder = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="rig-"))
        self.regions: dict[str, Region] = {}
        self._leases: Leases | None = None
        self._warden: Warden | None = None

    def start(self) -> None:
        """Start etcd, then the regions side by side; return when each of them serves."""
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End everything, give back what was leased, remove the folder if it was made here."""
        if self._warden is not None:
            for region in self.regions.values():
                with contextlib.suppress(Exception):
                    region.stop()
            self._warden.close()
            self._warden = None
        if self._leases is not None:
            self._leases.release()
        if self._is_own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _start(self) -> None:
        logs = self.folder / "logs"
        logs.mkdir(parents=True)
        made = write_certificates(self.folder / "certificates")
        self._leases = leases = Leases()
        self._warden = warden = Warden(logs)
        client, peer = leases.port(), leases.port()
        warden.start(ETCD, commands.etcd(self._assets, self.folder, client, peer), cwd=self.folder)
        wait_until(lambda: is_healthy(client), 60, "etcd")
        for name in self._names:
            folder = self.folder / name
            folder.mkdir()
            places = Places(
                name=name,
                folder=folder,
                ports={port: leases.port() for port in PORTS},
                network=leases.network(),
                admin=folder / "admin-inside.kubeconfig",
                certificates=made,
            )
            door_port = leases.port()
            self.regions[name] = Region(places, self._assets, warden, door_port, client)
        with ThreadPoolExecutor(max(1, len(self._names))) as side_by_side:
            list(side_by_side.map(Region.start, self.regions.values()))


def is_healthy(port: int) -> bool:
    """Whether an etcd serves there."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
            return True
    except OSError:
        return False
