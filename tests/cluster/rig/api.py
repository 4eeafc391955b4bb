"""A region's API server as a test asks it: plain objects in and out, from any thread.

The rule: a call answers within its deadline or raises; nothing is tried again. It is the tests' own
client, so that what the product does is not seen through the product. Read ``Api``.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

Object = dict[str, Any]
DEADLINE_S = 10.0
IDLE_S = 30.0
"""An API server closes a connection of which nothing was heard for 90 s: an older one is not used
again, for a call that is lost with it would be no news of the server."""
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"


class ApiError(Exception):
    """The API server said no. ``status`` is HTTP's number."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason


class UnreachableError(Exception):
    """The API server did not answer within the deadline."""


class Api:
    """One user's calls to one API server."""

    def __init__(self, port: int, ca: Path, token: str, *, deadline_s: float = DEADLINE_S) -> None:
        self._port = port
        self._token = token
        self._tls = ssl.create_default_context(cafile=str(ca))
        self._deadline_s = deadline_s
        self._mine = threading.local()
        self._connections: list[http.client.HTTPSConnection] = []
        self._plurals: dict[tuple[str, str], tuple[str, bool]] = {}

    def close(self) -> None:
        """Close the connections of all threads."""
        while self._connections:
            self._connections.pop().close()

    def get(self, path: str, **query: str) -> Object:
        """Return the object or list at a path."""
        return self.call("GET", path, query=query)

    def find(self, api_version: str, kind: str, name: str, namespace: str = "") -> Object | None:
        """Return an object, or None when there is no such object."""
        try:
            return self.get(self.path(api_version, kind, namespace, name))
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def all(self, api_version: str, kind: str, namespace: str = "", **query: str) -> list[Object]:
        """Return the objects of a kind, of one namespace or of all."""
        found: list[Object] = self.get(self.path(api_version, kind, namespace), **query)["items"]
        return found

    def create(self, body: Object) -> Object:
        """Create an object; its name may be generated."""
        namespace = body["metadata"].get("namespace", "")
        return self.call("POST", self.path(body["apiVersion"], body["kind"], namespace), body)

    def apply(self, *bodies: Object, manager: str = "rig") -> None:
        """Bring objects into being, or to what is said here, in order."""
        for body in bodies:
            meta = body["metadata"]
            path = self.path(
                body["apiVersion"], body["kind"], meta.get("namespace", ""), meta["name"]
            )
            self.call(
                "PATCH", path, body, kind=APPLY, query={"fieldManager": manager, "force": "true"}
            )

    def patch(
        self,
        api_version: str,
        kind: str,
        name: str,
        body: Object,
        namespace: str = "",
        *,
        part: str = "",
    ) -> Object:
        """Merge into an object, or into its subresource ``part``."""
        path = self.path(api_version, kind, namespace, name) + (f"/{part}" if part else "")
        return self.call("PATCH", path, body, kind=MERGE)

    def delete(
        self,
        api_version: str,
        kind: str,
        name: str,
        namespace: str = "",
        *,
        propagation: str = "Background",
    ) -> None:
        """Ask for an object's deletion; that it is gone already is no error."""
        try:
            self.call(
                "DELETE",
                self.path(api_version, kind, namespace, name),
                {"propagationPolicy": propagation},
            )
        except ApiError as error:
            if error.status != 404:
                raise

    def logs(self, namespace: str, pod: str, **query: str) -> str:
        """Return a pod's output as the API server gives it."""
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
        return self.raw("GET", path, query=query).decode(errors="replace")

    def path(self, api_version: str, kind: str, namespace: str = "", name: str = "") -> str:
        """Return the path of a kind's objects, or of one, as the server's discovery says."""
        key = (api_version, kind)
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        if key not in self._plurals:
            for found in self.get(root)["resources"]:
                if "/" not in found["name"]:
                    place = (found["name"], bool(found["namespaced"]))
                    self._plurals[(api_version, found["kind"])] = place
        plural, is_namespaced = self._plurals[key]
        inside = f"/namespaces/{namespace}" if namespace and is_namespaced else ""
        return f"{root}{inside}/{plural}" + (f"/{name}" if name else "")

    def call(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        kind: str = "application/json",
        query: dict[str, str] | None = None,
    ) -> Object:
        """Make one call and return the object that it answers with."""
        found: Object = json.loads(self.raw(method, path, body, kind=kind, query=query))
        return found

    def raw(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        kind: str = "application/json",
        query: dict[str, str] | None = None,
    ) -> bytes:
        """Make one call and return the bytes of its answer. Raises ApiError, UnreachableError."""
        where = path + ("?" + urlencode(query) if query else "")
        data = None if body is None else json.dumps(body)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
        # The server that a kept connection led to may have been killed since: a look is tried anew.
        for is_last in (method != "GET", True):
            try:
                status, content = self._once(method, where, data, headers)
                break
            except (OSError, http.client.HTTPException) as error:
                if is_last or not isinstance(error, ConnectionResetError):
                    raise UnreachableError(f"{method} {path}: {error!r}") from error
        if status >= 400:
            raise refusal(status, content)
        return content

    def _once(
        self, method: str, where: str, data: str | None, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        connection = self._connection()
        try:
            connection.request(method, where, data, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            raise

    def _connection(self) -> http.client.HTTPSConnection:
        held = getattr(self._mine, "connection", None)
        used_s, self._mine.used_s = getattr(self._mine, "used_s", 0.0), time.monotonic()
        if isinstance(held, http.client.HTTPSConnection):
            if self._mine.used_s - used_s > IDLE_S:
                held.close()
            return held  # it opens itself anew after it was closed
        made = http.client.HTTPSConnection(
            "127.0.0.1", self._port, context=self._tls, timeout=self._deadline_s
        )
        self._mine.connection = made
        self._connections.append(made)
        return made


def refusal(status: int, content: bytes) -> ApiError:
    """Return the error that an answer with such a status stands for."""
    try:
        said = json.loads(content)
        return ApiError(status, str(said.get("reason", "")), str(said.get("message", "")))
    except (ValueError, AttributeError):
        return ApiError(status, "", content.decode(errors="replace")[:500])
