"""An informer over a script of pages and lines, played to its end."""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncGenerator, Callable

from regions.kueue.errors import ClusterError, refusal
from regions.kueue.objects import kinds
from regions.kueue.objects.priority_class import PriorityClass
from regions.kueue.watching import Bounds, Informer
from tests.unit.regions.kueue import kube
from tests.unit.regions.kueue.clocks import StepClock

Page = bytes | ClusterError
Lines = list[bytes | ClusterError | float]  # a number: so many seconds pass


def thing(name: str, value: object = 1, version: str = "1", uid: str = "") -> kube.Json:
    return {"metadata": kube.meta(name, uid=uid) | {"resourceVersion": version}, "value": value}


def page(*items: kube.Json, version: str = "10", token: str = "") -> bytes:
    return json.dumps(
        {"metadata": {"resourceVersion": version, "continue": token}, "items": list(items)}
    ).encode()


def line(type_: str, raw: object) -> bytes:
    return json.dumps({"type": type_, "object": raw}).encode()


def bookmark(version: str) -> bytes:
    return line("BOOKMARK", {"metadata": {"resourceVersion": version}})


def gone() -> ClusterError:
    return refusal(410, "Expired", "too old")


class Script:
    """A source that tells what it was given, in order; at its end it waits for ever."""

    def __init__(self, pages: list[Page], watches: list[Lines]) -> None:
        self.pages = pages
        self.watches = watches
        self.asked: list[tuple[str, ...]] = []
        self.spans: list[int] = []
        self.clock = StepClock()
        self.is_over = asyncio.Event()

    async def page(self, scope: str, token: str, limit: int) -> bytes:
        self.asked.append(("list", scope, token, str(limit)))
        if not self.pages:
            await self.wait_for_ever()
        found = self.pages.pop(0)
        if isinstance(found, ClusterError):
            raise found
        return found

    async def watch(self, scope: str, version: str, seconds: int) -> AsyncGenerator[bytes, None]:
        self.spans.append(seconds)
        self.asked.append(("watch", scope, version))
        if not self.watches:
            await self.wait_for_ever()
        for each in self.watches.pop(0):
            if isinstance(each, ClusterError):
                raise each
            if isinstance(each, float):
                self.clock.now_s += each
                continue
            yield each

    async def wait_for_ever(self) -> None:
        self.is_over.set()
        await asyncio.Event().wait()


class Play:
    """One informer that has heard a whole script."""

    def __init__(
        self,
        pages: list[Page],
        watches: list[Lines],
        *,
        scopes: tuple[str, ...] = ("",),
        keeps: Callable[[PriorityClass], bool] | None = None,
    ) -> None:
        self.script = Script(pages, watches)
        self.clock = self.script.clock
        self.told = 0
        self.informer = Informer(
            kinds.PRIORITY_CLASSES,
            "v1beta2",
            self.script,
            clock=self.clock,
            chance=random.Random(7),
            scopes=scopes,
            keeps=keeps,
            tells=self.tell,
            bounds=Bounds(),
        )

    def tell(self) -> None:
        self.told += 1

    async def to_its_end(self) -> "Play":
        running = asyncio.create_task(self.informer.run())
        ending = asyncio.create_task(self.script.is_over.wait())
        await asyncio.wait({running, ending}, timeout=30, return_when=asyncio.FIRST_COMPLETED)
        assert self.script.is_over.is_set(), running
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        return self

    @property
    def values(self) -> dict[str, int]:
        return {key: each.value for key, each in self.informer.cache.objects.items()}

    @property
    def waits(self) -> list[float]:
        return [pause for pause in self.clock.pauses if pause]


async def play(pages: list[Page], watches: list[Lines], **more: object) -> Play:
    return await Play(pages, watches, **more).to_its_end()  # type: ignore[arg-type]
