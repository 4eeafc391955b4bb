"""The ground that all figures stand on: three equipped regions, and what brokerds are joined to.

The rule: nobody goes through a region's door, whose program would be measured too, and no Kueue
gives up pods that come late, for a hundred at once do. Read ``Ground``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from regions.kueue import bootstrap
from tests.bench.clusters.counting import flows
from tests.bench.clusters.diary import Diary
from tests.bench.clusters.multikueue import Manager
from tests.cluster.rig import fleet
from tests.cluster.rig.brokerd import TEAM, Brokerd, Joined
from tests.cluster.rig.manifests import namespace
from tests.cluster.rig.region import Region
from tests.cluster.rig.rig import Rig

ZONES = {
    "us-central1": "us-central1-a",
    "europe-west4": "europe-west4-b",
    "asia-east1": "asia-east1-c",
}
NEAR = next(iter(ZONES))
QUEUE = "training"
NODE_GPUS = 8
RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """As whom a brokerd comes to a region, and in which namespace its gangs run there."""

    user: str
    namespace: str


SEEING = Member(user="broker", namespace=TEAM)
"""It may see all, machines that stand free too."""
NARROW = Member(user="stranger", namespace="narrow")
"""It has the rights that ``broker regions bootstrap`` gives, but may not see machines: which of
them stand free is not known to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    singles: int  # starts one at a time, a side
    runs: int  # at once, a side
    rounds: int  # of so many at once
    workloads: int
    rest_s: float


class Ground:
    """Three regions side by side, the diary that all commands write to, and who manages them.

    Use it as a context manager. It ends the one brokerd that runs, and starts MultiKueue's control
    plane when it is first asked for.
    """

    def __init__(self, rig: Rig, folder: Path, size: Size, say: Callable[[str], None]) -> None:
        self.regions: Mapping[str, Region] = dict(rig.regions)
        self.size = size
        self.say = say
        self.diary = Diary(folder / "diary")
        self._rig = rig
        self._folder = folder
        self._brokerd: Brokerd | None = None
        self._manager: Manager | None = None

    def __enter__(self) -> Self:
        self.say("equipping three regions")
        with ThreadPoolExecutor(len(ZONES)) as side_by_side:
            list(side_by_side.map(self._equip, self.regions.values()))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave()

    def manager(self) -> Manager:
        """Return MultiKueue's control plane over the three regions."""
        if self._manager is None:
            self.say("starting a fourth control plane, as MultiKueue's manager")
            [region] = self._rig.reach("manager")
            patient(region)
            self._manager = Manager(region, self.regions, QUEUE, TEAM, self._quota())
        return self._manager

    def brokerd(
        self,
        name: str,
        member: Member,
        regions: Sequence[str] = tuple(ZONES),
        *,
        dearer_by: float = 0.1,
    ) -> Brokerd:
        """Start a brokerd that is joined to some of the regions, in the place of the one before.

        Its data are its own, by ``name``. Each region is dearer than the one before, so that the
        first is everybody's first choice; ``dearer_by`` 0: none is.
        """
        self.leave()
        self._brokerd = Brokerd(
            self._folder / name,
            [
                Joined(
                    region=one,
                    kubeconfig=self.regions[one].kubeconfig(member.user, is_direct=True),
                    namespace=member.namespace,
                    queue=QUEUE,
                    store=self.regions[one].store / name,
                    prices={"spot": f"{1 + number * dearer_by:.2f}"},
                )
                for number, one in enumerate(regions)
            ],
        )
        try:
            self._brokerd.start()
        except TimeoutError as error:
            # Its log goes with the bench's folder.
            error.add_note(self._brokerd.last_words())
            raise
        return self._brokerd

    def leave(self) -> None:
        """End the brokerd that runs, if one does."""
        if self._brokerd is not None:
            self._brokerd.close()
            self._brokerd = None

    def _quota(self) -> int:
        return NODE_GPUS * self._machines() * len(ZONES)

    def _machines(self) -> int:
        return max(1, -(-self.size.runs // len(ZONES)))

    def _equip(self, region: Region) -> None:
        """Give a region its queue and its machines, and count what brokerd asks of it."""
        patient(region)
        region.api.apply(*fleet.everything())
        made = fleet.pool("SPOT", ZONES[region.name])
        region.set_pool(made)
        share = fleet.Share(capacity_type="SPOT", nominal=NODE_GPUS * self._machines())
        narrow = bootstrap.Settings(
            namespace=NARROW.namespace,
            queues={QUEUE: QUEUE},
            users=(NARROW.user,),
            pod_security="privileged",  # on the rig a store is a directory of the machine
        )
        region.api.apply(
            namespace(TEAM),
            fleet.cluster_queue(QUEUE, (share,)),
            fleet.local_queue(QUEUE, TEAM, QUEUE),
            *(without_machines(piece.manifest) for piece in bootstrap.pieces(narrow)),
            all_rights(SEEING.user),
            *flows(SEEING.user),
        )
        region.add_nodes(made.name, self._machines())


def patient(region: Region) -> None:
    """Have the region's Kueue wait for pods as long as they take, as it does by itself."""
    region.kueue_down()
    region.kueue_up(waitForPodsReady=None)


def without_machines(manifest: fleet.Object) -> fleet.Object:
    """Return a manifest; if it is a role, without the right to see machines."""
    if "rules" not in manifest:
        return manifest
    rules = [
        {**rule, "resources": [each for each in rule["resources"] if each != "nodes"]}
        for rule in manifest["rules"]
    ]
    return {**manifest, "rules": [rule for rule in rules if rule["resources"]]}


def all_rights(user: str) -> fleet.Object:
    """Return what lets a user do everything."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "bench"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }
