"""A pod's volumes as folders of this machine, and its mount paths as those folders.

The rule: no mount is made, so that no right is needed: wherever a process is told a mount path, in
its arguments, environment or working directory, it is told the folder instead. A volume that names
what is not there is not ready, in the kubelet's words. Read ``Volumes.prepare``.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.cluster.rig.machines.api import Client, Object, RefusedError
from tests.cluster.rig.machines.environment import field

TOKEN_S = 3600


class NotReadyError(Exception):
    """Something that the pod names is not there yet; the text is the kubelet's."""


class Volumes:
    """The volumes of one pod. ``remote`` holds what CSI drivers and claims name."""

    def __init__(self, api: Client, pod: Object, home: Path, remote: Path) -> None:
        self._api = api
        self._pod = pod
        self._home = home / "volumes"
        self._remote = remote
        self._folders: dict[str, Path] = {}

    async def prepare(self) -> None:
        """Make every volume. Raises NotReadyError for the first that cannot be made."""
        for volume in self._pod["spec"].get("volumes", []):
            if volume["name"] not in self._folders:
                self._folders[volume["name"]] = await self._make(volume)

    def mounted(self, container: Object) -> Mapping[str, Path]:
        """Return the folder, or the file of a volume, that stands for each mount path."""
        found = {}
        for mount in container.get("volumeMounts", []):
            folder = self._folders[mount["name"]]
            if mount.get("subPath"):
                folder = folder / mount["subPath"]
                if not folder.exists():
                    folder.mkdir(parents=True)
            found[mount["mountPath"].rstrip("/") or "/"] = folder
        return found

    async def _make(self, volume: Object) -> Path:
        name = volume["name"]
        folder = self._home / name
        match volume:
            case {"hostPath": source}:
                return of_host(name, source)
            case {"csi": source}:
                bucket = source.get("volumeAttributes", {}).get("bucketName", name)
                return existing(self._remote / source["driver"] / bucket)
            case {"persistentVolumeClaim": {"claimName": claim}}:
                return existing(self._remote / "claims" / claim)
        fresh = existing(folder)
        try:
            await self._fill(volume, fresh)
        except NotReadyError as error:
            raise not_set_up(name, str(error)) from error
        return fresh

    async def _fill(self, volume: Object, folder: Path) -> None:
        match volume:
            case {"configMap": source}:
                await self._files(folder, "configmaps", source.get("name", ""), source)
            case {"secret": source}:
                await self._files(folder, "secrets", source.get("secretName", ""), source)
            case {"downwardAPI": source}:
                self._fields(folder, source.get("items", []))
            case {"projected": {"sources": sources}}:
                for source in sources:
                    await self._project(source, folder)

    async def _project(self, source: Object, folder: Path) -> None:
        match source:
            case {"configMap": inner}:
                await self._files(folder, "configmaps", inner["name"], inner)
            case {"secret": inner}:
                await self._files(folder, "secrets", inner["name"], inner)
            case {"downwardAPI": inner}:
                self._fields(folder, inner.get("items", []))
            case {"serviceAccountToken": inner}:
                await self._token(folder / inner["path"], inner)

    async def _files(self, folder: Path, plural: str, name: str, source: Object) -> None:
        path = f"/api/v1/namespaces/{self._pod['metadata']['namespace']}/{plural}/{name}"
        content = await contents(self._api, path)
        if content is None:
            if source.get("optional"):
                return
            raise NotReadyError(f'{plural.removesuffix("s")} "{name}" not found')
        wanted = source.get("items") or [{"key": key, "path": key} for key in content]
        for item in wanted:
            if item["key"] not in content:
                raise NotReadyError(f"references non-existent {plural} key: {item['key']}")
            file = folder / item["path"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content[item["key"]])
            file.chmod(item.get("mode") or source.get("defaultMode") or 0o644)

    def _fields(self, folder: Path, items: Sequence[Object]) -> None:
        for item in items:
            if "fieldRef" in item:
                (folder / item["path"]).write_text(field(self._pod, item["fieldRef"]["fieldPath"]))

    async def _token(self, file: Path, source: Object) -> None:
        namespace = self._pod["metadata"]["namespace"]
        account = self._pod["spec"].get("serviceAccountName", "default")
        body = {"spec": {"expirationSeconds": source.get("expirationSeconds", TOKEN_S)}}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        answer = await self._api.call("POST", path, body)
        written(file, answer["status"]["token"])


def of_host(volume: str, source: Object) -> Path:
    path = Path(source["path"])
    if source.get("type") == "Directory" and not path.is_dir():
        raise not_set_up(volume, f"hostPath type check failed: {path} is not a directory")
    return path


def not_set_up(volume: str, why: str) -> NotReadyError:
    return NotReadyError(f'MountVolume.SetUp failed for volume "{volume}" : {why}')


async def contents(api: Client, path: str) -> dict[str, bytes] | None:
    """Return the data of a ConfigMap or Secret, or None when there is none."""
    try:
        found = await api.get(path)
    except RefusedError as error:
        if error.status != 404:
            raise
        return None
    if path.rsplit("/", 2)[1] == "secrets":
        return {key: base64.b64decode(v) for key, v in (found.get("data") or {}).items()}
    plain = {key: value.encode() for key, value in (found.get("data") or {}).items()}
    coded = {key: base64.b64decode(v) for key, v in (found.get("binaryData") or {}).items()}
    return plain | coded


def rewritten(text: str, mounted: Mapping[str, Path]) -> str:
    """Return a text in which each mount path is the folder that stands for it."""
    if not mounted:
        return text
    longest_first = sorted(mounted, key=len, reverse=True)
    pattern = r"(?<![\w./-])(" + "|".join(map(re.escape, longest_first)) + r")(?![\w.-])"
    return re.sub(pattern, lambda m: str(mounted[m[1]]), text)


def existing(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def written(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
