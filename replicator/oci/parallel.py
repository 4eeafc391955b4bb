"""Several things at once, a bounded number of them, with one error for all.

Read ``each`` first.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import TypeVar

T = TypeVar("T")


async def each(items: Iterable[T], work: Callable[[T], Awaitable[None]], *, at_once: int) -> None:
    """Do the work for all items. The first that fails ends the others, and its error is raised."""
    waiting = iter(items)

    async def worker() -> None:
        for item in waiting:
            await work(item)

    try:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(at_once):
                tasks.create_task(worker())
    except ExceptionGroup as group:
        raise _first(group) from None


@asynccontextmanager
async def beside(work: Coroutine[object, object, None]) -> AsyncIterator[None]:
    """Have work done beside a block, and ended with it. Raises what the block raised, as it is."""
    try:
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(work)
            try:
                yield
            finally:
                task.cancel()
    except ExceptionGroup as group:
        raise _first(group) from None


def _first(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
