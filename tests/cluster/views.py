"""What the product sees of a region of the rig, beside what the tests' own client sees of it."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from regions.kueue.access import Api, Deadlines
from regions.kueue.clock import SystemClock
from regions.kueue.credentials import Kubeconfig
from regions.kueue.objects import kinds
from regions.kueue.objects.kinds import Kind
from regions.kueue.source import ApiSource
from regions.kueue.watching import Bounds, Informer
from tests.cluster.conftest import Object, Place
from tests.cluster.rig import fleet
from tests.cluster.rig.machines.pools import GPU

QUICK = Bounds(first_pause_s=0.1, longest_pause_s=1.0)


class View:
    """Informers of some kinds of one region, as one user."""

    def __init__(
        self, place: Place, user: str = "admin", deadlines: Deadlines | None = None
    ) -> None:
        own = Kubeconfig(path=str(place.region.kubeconfig(user)))
        self.api = Api(own, SystemClock(), deadlines or Deadlines())
        self.informers: dict[str, Informer[Any]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def follow(
        self,
        *followed: Kind[Any],
        scopes: tuple[str, ...] = ("",),
        bounds: Bounds = QUICK,
        version: str = "",
    ) -> None:
        """Follow some kinds, in their newest version unless another is named."""
        for kind in followed:
            asked = version or kind.versions[0]
            informer = Informer(
                kind,
                asked,
                ApiSource(self.api, kind, asked),
                clock=SystemClock(),
                chance=random.Random(1),
                scopes=scopes,
                bounds=bounds,
            )
            self.informers[kind.plural] = informer
            self._tasks.append(asyncio.create_task(informer.run()))

    def objects(self, kind: Kind[Any]) -> dict[str, Any]:
        return dict(self.informers[kind.plural].cache.objects)

    async def until(self, is_so: Callable[[], object], what: str, within_s: float = 60.0) -> None:
        try:
            async with asyncio.timeout(within_s):
                while not is_so():
                    for task in self._tasks:
                        assert not task.done(), task
                    await asyncio.sleep(0.05)
        except TimeoutError:
            health = {name: each.health for name, each in self.informers.items()}
            raise AssertionError(f"{what} was not seen: {health}") from None

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self.api.close()


@contextlib.asynccontextmanager
async def viewing(place: Place, **options: Any) -> AsyncIterator[View]:
    view = View(place, **options)
    try:
        yield view
    finally:
        await view.close()


def versions(found: Iterable[Object]) -> dict[str, str]:
    """The resource versions of plain objects, by their keys."""
    return {kinds.key_of(each): each["metadata"]["resourceVersion"] for each in found}


async def there(place: Place, kind: Kind[Any]) -> dict[str, str]:
    """What the API server has of a kind, asked by the tests' own client."""
    group = f"{kind.group}/" if kind.group else ""
    root = f"/apis/{group}{kind.versions[0]}" if group else f"/api/{kind.versions[0]}"
    body = await asyncio.to_thread(place.region.api.get, f"{root}/{kind.plural}")
    return versions(body["items"])


async def self_same(view: View, place: Place, kind: Kind[Any]) -> None:
    """Wait until a kind is seen as the API server has it: nodes and leases change all the time."""
    for _ in range(50):
        asked = await there(place, kind)
        seen = {key: each.meta.resource_version for key, each in view.objects(kind).items()}
        if seen == asked:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{kind.name}: seen {seen}, there {asked}")


def bare(name: str, place: Place, queue: str, gpus: int) -> Object:
    """A Workload of one pod, with nobody behind it: quota is all that it is about."""
    return bare_workload(name, place.namespace, queue, gpus)


def bare_workload(name: str, namespace: str, queue: str, gpus: int) -> Object:
    """The same in a namespace."""
    container = {"name": "main", "image": "none", "resources": {"requests": {GPU: str(gpus)}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": fleet.KUEUE,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "queueName": queue,
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
    }
