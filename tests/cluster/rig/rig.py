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
from tests.cluster.rig.certificates import Certificates, write_certificates
from tests.cluster.rig.children import Warden
from tests.cluster.rig.commands import PORTS, Places
from tests.cluster.rig.leases import Leases
from tests.cluster.rig.region import Region
from tests.cluster.rig.waiting import wait_until

ETCD = "etcd"


class Rig:
    """Regions by name. Made complete, or not at all: ``start`` raises with nothing left over.

    ``reach`` adds further ones to a rig that runs.
    """

    def __init__(self, regions: Sequence[str], folder: Path | None = None) -> None:
        self._assets = assets()
        self._names = tuple(regions)
        self._is_own_folder = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="rig-"))
        self.regions: dict[str, Region] = {}
        self._leases: Leases | None = None
        self._warden: Warden | None = None
        self._certificates: Certificates | None = None
        self._etcd_port = 0

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
        self._certificates = write_certificates(self.folder / "certificates")
        self._leases = leases = Leases()
        self._warden = warden = Warden(logs)
        self._etcd_port = client = leases.port()
        etcd = commands.etcd(self._assets, self.folder, client, leases.port())
        warden.start(ETCD, etcd, cwd=self.folder)
        wait_until(lambda: is_healthy(client), 60, "etcd")
        self.reach(*self._names)

    def reach(self, *names: str) -> tuple[Region, ...]:
        """Start the regions that were not started yet, side by side; return those that were."""
        new = [self._region(name) for name in names if name not in self.regions]
        self.regions |= {region.name: region for region in new}
        with ThreadPoolExecutor(max(1, len(new))) as side_by_side:
            list(side_by_side.map(Region.start, new))
        return tuple(new)

    def _region(self, name: str) -> Region:
        leases, warden, made = self._leases, self._warden, self._certificates
        assert leases is not None, "the rig was not started"
        assert warden is not None, "the rig was not started"
        assert made is not None, "the rig was not started"
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
        return Region(places, self._assets, warden, leases.port(), self._etcd_port)


def is_healthy(port: int) -> bool:
    """Whether an etcd serves there."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
            return True
    except OSError:
        return False
