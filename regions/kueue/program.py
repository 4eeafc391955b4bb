"""The launcher's ConfigMap in a cluster's namespace: there before any gang can want it.

The rule: it is asked for now and then, not with each gang; and at once when a gang's own pods say
that it is not there, for somebody removed it, or the namespace was made again. Then it comes back,
also for those that wait for it. Read ``Program.bring`` and ``Program.mend``.
"""

import asyncio
from collections.abc import Iterable

from regions.cluster import Cause, Outcome
from regions.kueue import names
from regions.kueue.access import Api
from regions.kueue.answers import decoded
from regions.kueue.clock import Clock
from regions.kueue.errors import ConflictError, MissingError
from regions.kueue.manifest import launcher
from regions.kueue.vocabulary import Word
from regions.kueue.words import Verdict
from regions.store_orders import silence

THERE_S = 600.0
"""How long it is taken to be there after it was seen, by what nothing else is said of."""
MENDED_S = 30.0
"""How often it is asked for because of what pods say: they say it a while after it came."""


class Program:
    """The launcher ``packed``, in one namespace."""

    def __init__(self, api: Api, clock: Clock, *, namespace: str, packed: bytes) -> None:
        self._api = api
        self._clock = clock
        self._body = launcher(packed, namespace)
        self._name = names.launcher_name(packed)
        self._where = f"/api/v1/namespaces/{namespace}/configmaps"
        self._there_s: float | None = None
        self._mended_s: float | None = None
        self._bringing = asyncio.Lock()  # gangs that come together bring it once

    async def bring(self) -> Outcome | None:
        """Have it in the namespace. None: it is there. Raises ClusterError."""
        async with self._bringing:
            return await self._bring()

    async def mend(self, said: Iterable[Verdict]) -> Outcome | None:
        """Bring it again if what is said of gangs is that it is missing. Raises ClusterError."""
        if not any(each.word == Word.CONFIG_MISSING and self._name in each.raw for each in said):
            return None
        now_s = self._clock.monotonic_s()
        if self._mended_s is not None and now_s - self._mended_s < MENDED_S:
            return None
        self._mended_s = now_s
        self.forget()
        return await self.bring()

    def forget(self) -> None:
        """Take it for one of which nothing is known."""
        self._there_s = None

    async def _bring(self) -> Outcome | None:
        now_s = self._clock.monotonic_s()
        if self._there_s is not None and now_s - self._there_s < THERE_S:
            return None
        try:
            await self._api.ask("POST", self._where, body=self._body)
        except ConflictError:
            try:
                told = decoded(await self._api.ask("GET", f"{self._where}/{self._name}"))
            except MissingError:
                return silence("the launcher went while it was looked at")
            if told.get("binaryData") != self._body["binaryData"]:
                message = f"configmap/{self._name} is there and is not the launcher"
                return Outcome(is_done=False, cause=Cause.REFUSED, message=message)
        self._there_s = now_s
        return None
