"""A namespace as ``broker regions bootstrap`` sets it up, and the port with its rights alone.

The rule: the platform team's part is done with the admin's kubeconfig, by the program itself; the
port logs in as the account that was made, with a token that the cluster gave for it, and holds no
other right. The namespace admits pods of the standard ``restricted`` only. Read ``MemberWorld``.
"""

from __future__ import annotations

import base64
import random
from pathlib import Path
from typing import Any

import yaml

from broker.cli.main import main
from regions.kueue.access import Api, Deadlines
from regions.kueue.bootstrap import ACCOUNT, RUNNING, WAITING
from regions.kueue.clock import SystemClock
from regions.kueue.cluster import KueueCluster
from regions.kueue.credentials import Endpoint
from regions.kueue.flavors import FlavorSettings
from regions.kueue.profile_rules import read_profiles
from regions.kueue.queue_view import QueueSettings
from regions.kueue.rights import Right, Scope
from regions.kueue.sites import KueueSettings
from regions.launcher.store import DirectoryStore
from tests.cluster.ground import MOUNT, QUICK, ZONE, pool_of
from tests.cluster.kueue_world import FLAVOR, KueueWorld
from tests.cluster.rig import fleet
from tests.cluster.rig.machines.pools import GPU
from tests.cluster.rig.region import Region
from tests.cluster.rig.waiting import wait_until
from tests.contract.cluster.world import Shape

RBAC = "rbac.authorization.k8s.io/v1"
GCSFUSE = "gcsfuse.csi.storage.gke.io"
Json = dict[str, Any]


class MemberWorld(KueueWorld):
    """A namespace that was bare, with what bootstrap made of it."""

    def __init__(self, region: Region, root: Path, shape: Shape) -> None:
        super().__init__(region, root, shape)
        self.name = self.name.replace("contract", "member")
        self.store = region.folder / "remote" / GCSFUSE / self.name
        self.store.parent.mkdir(parents=True, exist_ok=True)
        DirectoryStore.create(str(self.store))

    @property
    def accounts(self) -> str:
        """The namespace of the broker's account."""
        return f"{self.name}-system"

    def bootstrap(self, *more: str) -> int:
        """Run the program as the platform team would; return its exit code."""
        kubeconfig = str(self.region.kubeconfig())
        return main(
            [
                *("regions", "bootstrap", "--kubeconfig", kubeconfig, "--namespace", self.name),
                *("--account-namespace", self.accounts, "--queue", f"ours={self.name}-ours"),
                *more,
            ]
        )

    def api(self) -> Api:
        """The API as the broker's account, with its rights alone."""
        config = yaml.safe_load(self.region.kubeconfig().read_text())
        [cluster] = (each["cluster"] for each in config["clusters"])
        where = f"/api/v1/namespaces/{self.accounts}/serviceaccounts/{ACCOUNT}/token"
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        }
        token = self.region.api.call("POST", where, body)["status"]["token"]

        async def tokens() -> str:
            return str(token)

        own = Endpoint(
            host=cluster["server"],
            ca_pem=base64.b64decode(cluster["certificate-authority-data"]).decode(),
            token=tokens,
        )
        return Api(own, SystemClock(), Deadlines(call_s=10.0))

    def connect(self) -> KueueCluster:
        known = FlavorSettings(
            capacity_type=self._shape.capacity_type,
            accelerator="H100",
            accelerators_per_node=1,
            zones=(ZONE,),
        )
        volume = {"name": "store", "mount_path": MOUNT, "bucket": self.name}
        profile = {"store": MOUNT, "volumes": [volume]}
        return KueueCluster(
            self.api(),
            DirectoryStore(str(self.store)),
            KueueSettings(
                cluster="west",
                region="eu-west4",
                queues=QueueSettings(namespace=self.name, flavors={FLAVOR: known}),
                priority_classes=frozenset({WAITING, RUNNING}),
                profiles=read_profiles({"default": profile}, allows_host_paths=False),
                pace=QUICK,
                gate_fresh_s=4.0,
            ),
            clock=SystemClock(),
            chance=random.Random(1),
            store_s=10.0,
        )

    def take_away(self, right: Right) -> list[Json]:
        """Take a right out of its role; return the rules as they were."""
        role = self._role(right.scope)
        kept = [
            {**rule, "resources": [each for each in rule["resources"] if each != right.resource]}
            if right.group in rule["apiGroups"] and list(right.verbs) == rule["verbs"]
            else rule
            for rule in role["rules"]
        ]
        self._write(role, [rule for rule in kept if rule["resources"]])
        found: list[Json] = role["rules"]
        return found

    def give_back(self, right: Right, rules: list[Json]) -> None:
        """Put a role's rules back."""
        self._write(self._role(right.scope), rules)

    def _write(self, role: Json, rules: list[Json]) -> None:
        api, meta = self.region.api, role["metadata"]
        where = api.path(RBAC, role["kind"], meta.get("namespace", ""), meta["name"])
        api.call("PUT", where, {**role, "rules": rules})

    def _role(self, scope: Scope) -> Json:
        kind, name, namespace = {
            Scope.CLUSTER: ("ClusterRole", f"capacity-broker-{self.name}", ""),
            Scope.GANGS: ("Role", "capacity-broker", self.name),
            Scope.NODE_EVENTS: ("Role", f"capacity-broker-{self.name}", "default"),
        }[scope]
        found = self.region.api.find(RBAC, kind, name, namespace)
        assert found is not None
        return {"apiVersion": RBAC, "kind": kind, **found}

    def ours(self) -> list[str]:
        """What is there that was set up, whoever's member it is for."""
        api = self.region.api
        selector = "capacity-broker.dev/part=member"
        kinds = {
            "v1": ("Namespace", "ServiceAccount"),
            RBAC: ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
            "networking.k8s.io/v1": ("NetworkPolicy",),
            fleet.KUEUE: ("WorkloadPriorityClass", "ClusterQueue", "LocalQueue"),
        }
        return [
            f"{kind} {found['metadata']['name']}"
            for version, names in kinds.items()
            for kind in names
            for found in api.all(version, kind, labelSelector=selector)
        ]

    def _set_up(self) -> None:
        self.region.set_pool(
            pool_of(
                self.name,
                max_nodes=self._shape.max_nodes,
                delay_s=self._shape.startup_s,
                backoff_s=1.0,
                is_autoscaled=True,
                idle_s=20.0,
            )
        )
        spec = {"nodeLabels": {"cloud.google.com/gke-nodepool": self.name}}
        self.region.api.apply(
            fleet.named(fleet.KUEUE, "ResourceFlavor", FLAVOR, spec), *self._queues()
        )
        assert self.bootstrap("--apply", "--yes") == 0
        wait_until(lambda: self._is_active("ours"), 30, "the queue")

    def _queues(self) -> list[Json]:
        """The ClusterQueues that are there before."""
        return [self._cluster_queue("ours")]

    def _leave(self) -> None:
        if self.region.api.find("v1", "Namespace", self.name):
            super()._leave()
        self.bootstrap("--remove", "--yes")


class OwnQueueWorld(MemberWorld):
    """A namespace whose ClusterQueue is the broker's own, made by bootstrap too."""

    def bootstrap(self, *more: str) -> int:
        own = ("--own-cluster-queue", f"{self.name}-ours", "--cohort", self.name)
        return super().bootstrap(*own, "--flavor", f"{FLAVOR}:{GPU}={self._shape.nominal}", *more)

    def _queues(self) -> list[Json]:
        return []
