"""A member cluster set up by its platform team, with their own rights.

The rule: what is there and was not set up by us is never changed: it does, or the whole is refused
before anything is done. All else is tried first (a dry run), said, and applied by the server, so
that fields of others stay theirs. Read ``compare`` first.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import msgspec

from regions.kueue.access import Api
from regions.kueue.bootstrap import Object, Piece, is_ours
from regions.kueue.errors import BrokenError, ConflictError, ForbiddenError, MissingError
from regions.kueue.names import MANAGED_BY, PREFIX

MANAGER = "capacity-broker-bootstrap"
APPLY = "application/apply-patch+yaml"
PLURALS: dict[str, str] = {
    "Namespace": "namespaces",
    "ServiceAccount": "serviceaccounts",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "NetworkPolicy": "networkpolicies",
    "WorkloadPriorityClass": "workloadpriorityclasses",
    "ClusterQueue": "clusterqueues",
    "LocalQueue": "localqueues",
}
_NOT_SAID = frozenset({"managedFields", "resourceVersion", "generation", "uid"})
"""Fields of metadata that the server keeps by itself."""
_MOST_SAID = 200


class What(StrEnum):
    """What becomes of an object."""

    NEW = "new"
    CHANGED = "changed"
    SAME = "as it is"
    OTHERS = "not ours, and does"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What becomes of one object; ``said`` are its changes, why it is refused, or what it lacks."""

    piece: Piece
    what: What
    said: tuple[str, ...] = ()

    @property
    def is_to_do(self) -> bool:
        """Whether applying it changes anything."""
        return self.what in (What.NEW, What.CHANGED)


async def compare(api: Api, pieces: Sequence[Piece], *, force: bool = False) -> tuple[Step, ...]:
    """Say what applying would change. ``force`` takes over fields that others set.

    Raises ClusterError; what the server refuses of one object is that object's step.
    """
    missing: set[str] = set()
    brought = {where(piece.manifest) for piece in pieces}
    steps = []
    for piece in pieces:
        step = await _compare(api, piece, missing, force=force)
        if piece.manifest["kind"] == "LocalQueue" and step.what is not What.REFUSED:
            step = replace(step, said=(*step.said, *await _unserved(api, piece, brought)))
        if step.what is What.NEW and piece.manifest["kind"] == "Namespace":
            missing.add(piece.manifest["metadata"]["name"])
        steps.append(step)
    return tuple(steps)


async def apply(api: Api, step: Step, *, force: bool = False) -> None:
    """Carry out one step. Raises ClusterError."""
    if step.is_to_do:
        await _apply(api, step.piece.manifest, force=force, is_dry=False)


def where(manifest: Object) -> str:
    """Return the path of an object."""
    api, meta = manifest["apiVersion"], manifest["metadata"]
    root = f"/apis/{api}" if "/" in api else f"/api/{api}"
    place = f"/namespaces/{meta['namespace']}" if meta.get("namespace") else ""
    return f"{root}{place}/{PLURALS[manifest['kind']]}/{meta['name']}"


async def find(api: Api, path: str) -> Object | None:
    """Return the object, or list, at a path, None when there is none. Raises ClusterError."""
    try:
        return read(await api.ask("GET", path))
    except MissingError:
        return None


def read(body: bytes) -> Object:
    """Return the object in an answer. Raises BrokenError."""
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BrokenError(f"the answer is no object: {error}") from error


async def _compare(api: Api, piece: Piece, missing: set[str], *, force: bool) -> Step:
    manifest = piece.manifest
    found = await find(api, where(manifest))
    if found is not None and not is_ours(found):
        return _of_others(piece, found)
    if found is None and manifest["metadata"].get("namespace") in missing:
        return Step(piece=piece, what=What.NEW)  # no dry run reaches into what is not there
    try:
        tried = await _apply(api, manifest, force=force, is_dry=True)
    except ConflictError as error:
        why = f"{error.message}; --force takes the fields over"
        return Step(piece=piece, what=What.REFUSED, said=(why,))
    except MissingError as error:
        return Step(piece=piece, what=What.REFUSED, said=(_absent(manifest, error),))
    if found is None:
        return Step(piece=piece, what=What.NEW)
    said = tuple(differences(_plain(found), _plain(tried)))
    return Step(piece=piece, what=What.CHANGED if said else What.SAME, said=said)


async def _unserved(api: Api, piece: Piece, brought: set[str]) -> tuple[str, ...]:
    """Say that a LocalQueue leads nowhere; nothing where that cannot be seen."""
    manifest = piece.manifest
    name = manifest["spec"]["clusterQueue"]
    leads_to = {"apiVersion": manifest["apiVersion"], "kind": "ClusterQueue"}
    path = where({**leads_to, "metadata": {"name": name}})
    with suppress(ForbiddenError):
        if path not in brought and await find(api, path) is None:
            return (f"its ClusterQueue {name} is not there: it lets no run in until it is",)
    return ()


def _absent(manifest: Object, error: MissingError) -> str:
    if manifest["apiVersion"].startswith("kueue."):
        return f"Kueue does not serve {manifest['apiVersion']} {manifest['kind']}: is it installed?"
    return error.message


def _of_others(piece: Piece, found: Object) -> Step:
    """Judge an object that was there before: it does, or nothing is done at all."""
    wanted = {**piece.manifest, "metadata": dict(piece.manifest["metadata"])}
    labels = wanted["metadata"].pop("labels")
    lacks = tuple(_lacks(wanted, found))
    if piece.manifest["kind"] == "Namespace":
        held = found["metadata"].get("labels") or {}
        wished = {k: v for k, v in labels.items() if not k.startswith((PREFIX, MANAGED_BY))}
        said = tuple(f"it has not {k}={v}" for k, v in wished.items() if held.get(k) != v)
        return Step(piece=piece, what=What.OTHERS, said=said)
    if not lacks:
        return Step(piece=piece, what=What.OTHERS)
    why = tuple(f"it is there, was not set up by this, and is another: {each}" for each in lacks)
    return Step(piece=piece, what=What.REFUSED, said=why)


async def _apply(api: Api, manifest: Object, *, force: bool, is_dry: bool) -> Object:
    query = {"fieldManager": MANAGER, "fieldValidation": "Strict"}
    if force:
        query["force"] = "true"
    if is_dry:
        query["dryRun"] = "All"
    path = where(manifest)
    return read(await api.ask("PATCH", path, query=query, body=manifest, content_type=APPLY))


def _plain(found: Object) -> Object:
    """Return what of an object people and controllers of it wrote, without its status."""
    meta = {key: value for key, value in found["metadata"].items() if key not in _NOT_SAID}
    return {**{k: v for k, v in found.items() if k != "status"}, "metadata": meta}


def differences(old: Any, new: Any, at: str = "") -> Iterator[str]:
    """Yield each field that is another, as ``path: old -> new``."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from differences(old.get(key), new.get(key), f"{at}.{key}" if at else key)
    elif old != new:
        yield f"{at}: {_short(old)} -> {_short(new)}"


def _lacks(wanted: Any, found: Any, at: str = "") -> Iterator[str]:
    """Yield each field that is wanted and is another."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key, value in wanted.items():
            yield from _lacks(value, found.get(key), f"{at}.{key}" if at else key)
    elif wanted != found:
        yield f"{at} is {_short(found)}, not {_short(wanted)}"


def _short(value: Any) -> str:
    if value is None:
        return "nothing"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _MOST_SAID else f"{text[:_MOST_SAID]}..."
