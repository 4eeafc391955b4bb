"""Where an informer's pages and lines come from: one kind of one API server."""

from collections.abc import AsyncGenerator, Mapping

from regions.kueue.access import Api
from regions.kueue.discovery import path
from regions.kueue.objects.kinds import Kind


class ApiSource:
    """Lists and watches a kind. ``selectors`` narrow it (labelSelector, fieldSelector)."""

    def __init__(
        self, api: Api, kind: Kind[object], version: str, selectors: Mapping[str, str] | None = None
    ) -> None:
        self._api = api
        self._kind = kind
        self._version = version
        self._selectors = dict(selectors or {})

    async def page(self, scope: str, token: str, limit: int) -> bytes:
        """Return a page of the list. Raises ClusterError."""
        query = dict(self._selectors)
        if limit:
            query["limit"] = str(limit)
        if token:
            query["continue"] = token
        where = path(self._kind, self._version, scope)
        return await self._api.ask("GET", where, query=query, within_s=self._api.deadlines.page_s)

    def watch(self, scope: str, version: str, seconds: int) -> AsyncGenerator[bytes, None]:
        """Yield what happens after a resource version. Raises ClusterError."""
        query = self._selectors | {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        }
        return self._api.lines(path(self._kind, self._version, scope), query)
