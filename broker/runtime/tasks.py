"""The supervised group: every task of the daemon lives here, and none dies unseen.

The rule: a task that raises is told to the watcher and begun again after a pause that grows; a
``Fatal`` error ends the whole group. Cancellation leaves things as a crash would. Read
``Supervisor.keep`` first.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
SETTLED_S = 60.0  # a task that lived so long begins again without a pause's growth

_log = logging.getLogger(__name__)


class Fatal(Exception):
    """The daemon must not go on: a newer incarnation exists, or an invariant broke for good."""


class Supervisor:
    """A group of tasks that are kept alive. Use it as an async context manager.

    ``on_failure(name)`` is called for each task that raised, for the metrics.
    """

    def __init__(self, on_failure: Callable[[str], None]) -> None:
        self._on_failure = on_failure
        self._group = asyncio.TaskGroup()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Supervisor":
        await self._group.__aenter__()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # The group waits for its tasks, and loops have no end: they are told to.
        self.stop()
        await self._group.__aexit__(
            type(error) if error is not None else None,
            error,
            error.__traceback__ if error is not None else None,
        )

    def keep(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run ``work`` for ever; what it raises is logged, counted, and it is begun again."""
        self._tasks.append(self._group.create_task(self._live(name, work), name=name))

    def stop(self) -> None:
        """Cancel every task."""
        for task in self._tasks:
            task.cancel()

    async def _live(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        pause_s = FIRST_PAUSE_S
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            try:
                await work()
                return
            except Fatal:
                raise
            except Exception:  # noqa: BLE001 - it is logged and counted, and the task begun again
                self._on_failure(name)
                _log.exception("task failed", extra={"task": name, "again_in_s": pause_s})
            if loop.time() - began_s > SETTLED_S:
                pause_s = FIRST_PAUSE_S
            await asyncio.sleep(pause_s)
            pause_s = min(LONGEST_PAUSE_S, pause_s * 2)
