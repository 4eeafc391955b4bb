"""What a pod's containers are to run: arguments, environment, folder, made from its spec.

The rule: what a kubelet would put in is put in, and what a process is told of mounts and of its
gang's names is put into this machine's terms. Read ``Recipe.call``.
"""

from __future__ import annotations

from pathlib import Path

from tests.cluster.rig.machines.addresses import Addresses
from tests.cluster.rig.machines.api import Client, Object
from tests.cluster.rig.machines.containers import Call, Container
from tests.cluster.rig.machines.environment import base, expanded, field, quantity
from tests.cluster.rig.machines.pools import GPU
from tests.cluster.rig.machines.volumes import NotReadyError, Volumes, contents, rewritten


class Surroundings:
    """What pods of a region share: the API server, folders, addresses, and images that fail."""

    def __init__(self, api: Client, folder: Path, addresses: Addresses, region: str) -> None:
        self.api = api
        self.folder = folder
        self.addresses = addresses
        self.region = region
        self.refused_images: dict[str, str] = {}  # by the beginning of an image's name: the error
        self.devices: dict[str, set[int]] = {}  # accelerators in use, by node

    def refusal(self, image: str) -> str:
        """Return why an image cannot be pulled, or an empty text."""
        for beginning, why in self.refused_images.items():
            if image.startswith(beginning):
                return why
        return ""


class Recipe:
    """How to run the containers of one pod."""

    def __init__(self, shared: Surroundings, pod: Object, volumes: Volumes, home: Path) -> None:
        self._shared = shared
        self._pod = pod
        self._meta: Object = pod["metadata"]
        self._spec: Object = pod["spec"]
        self._volumes = volumes
        self._home = home
        self._devices: list[int] = []
        self._subdomain: str = self._spec.get("subdomain", "")
        named = self._spec.get("hostname", "")
        self._hostname: str = named or self._meta["name"]
        self.ip = shared.addresses.of_pod(
            self._meta["namespace"], self._meta["name"], named, self._subdomain
        )

    def log_of(self, container: str) -> Path:
        """Return the file with a container's output."""
        return self._home / "logs" / f"{container}.log"

    def give_back(self) -> None:
        """Give back the node's accelerators."""
        node = self._spec["nodeName"]
        self._shared.devices.get(node, set()).difference_update(self._devices)

    async def call(self, container: Container) -> Call:
        """Return how to run a container. Raises NotReadyError for what it names in vain."""
        spec = container.spec
        mounted = self._volumes.mounted(spec)
        env = base(self._home, self._hostname)
        self._allocate(spec)
        if self._devices:
            env["NVIDIA_VISIBLE_DEVICES"] = ",".join(map(str, self._devices))
        for source in spec.get("envFrom", []):
            env |= await self._all_of(source)
        for entry in spec.get("env", []):
            env[entry["name"]] = expanded(await self._value(entry, spec), env)
        argv = [expanded(a, env) for a in [*spec.get("command", []), *spec.get("args", [])]]
        if not argv:
            raise NotReadyError("no command specified")
        namespace = self._meta["namespace"]

        def told(text: str) -> str:
            named = self._shared.addresses.resolve(text, namespace, self._subdomain)
            return rewritten(named, mounted)

        return Call(
            argv=[told(a) for a in argv],
            env={name: told(value) for name, value in env.items()},
            folder=Path(told(spec.get("workingDir", str(self._home)))),
            home=self._home,
            log=self.log_of(container.name),
        )

    async def _value(self, entry: Object, container: Object) -> str:
        match entry.get("valueFrom"):
            case {"fieldRef": {"fieldPath": "status.podIP" | "status.podIPs"}}:
                return self.ip
            case {"fieldRef": {"fieldPath": "status.hostIP" | "status.hostIPs"}}:
                return "127.0.0.1"
            case {"fieldRef": {"fieldPath": path}}:
                return field(self._pod, path)
            case {"resourceFieldRef": {"resource": resource} as asked}:
                kind, _, name = resource.partition(".")
                amount = quantity(container.get("resources", {}).get(kind, {}).get(name, "0"))
                return str(int(-(-amount // quantity(asked.get("divisor") or "1"))))
            case {"configMapKeyRef": asked}:
                return await self._key_of("configmaps", asked)
            case {"secretKeyRef": asked}:
                return await self._key_of("secrets", asked)
            case _:
                return str(entry.get("value", ""))

    async def _key_of(self, plural: str, asked: Object) -> str:
        namespace, name = self._meta["namespace"], asked["name"]
        found = await contents(self._shared.api, f"/api/v1/namespaces/{namespace}/{plural}/{name}")
        if found is not None and asked["key"] in found:
            return found[asked["key"]].decode()
        if asked.get("optional"):
            return ""
        kind = "Secret" if plural == "secrets" else "ConfigMap"
        if found is None:
            raise NotReadyError(f'{kind.lower()} "{name}" not found')
        raise NotReadyError(f"couldn't find key {asked['key']} in {kind} {namespace}/{name}")

    async def _all_of(self, source: Object) -> dict[str, str]:
        plural, inner = (
            ("secrets", source["secretRef"])
            if "secretRef" in source
            else ("configmaps", source["configMapRef"])
        )
        path = f"/api/v1/namespaces/{self._meta['namespace']}/{plural}/{inner['name']}"
        found = await contents(self._shared.api, path)
        if found is None:
            if inner.get("optional"):
                return {}
            raise NotReadyError(f'{plural.removesuffix("s")} "{inner["name"]}" not found')
        return {source.get("prefix", "") + key: value.decode() for key, value in found.items()}

    def _allocate(self, container: Object) -> None:
        """Take accelerators of the node, as a device plugin does."""
        asked = container.get("resources", {}).get("limits", {}).get(GPU, 0)
        used = self._shared.devices.setdefault(self._spec["nodeName"], set())
        while len(self._devices) < int(asked):
            free = next(n for n in range(len(used) + 1) if n not in used)
            used.add(free)
            self._devices.append(free)
