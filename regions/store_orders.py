"""The half of a cluster's actions that is written to its region's store, whatever the cluster is.

The rule: each action has an outcome of its own, and silence is one: it says when to try again, and
nothing is tried twice here. Store calls run in a thread, with a deadline: a directory on a dead
disk can hang for minutes. Read ``StoreOrders`` first.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, assert_never

from regions import gatehouse
from regions.cluster import (
    Action,
    Cause,
    ClusterUnreachableError,
    Drain,
    EpochKey,
    Fence,
    Grant,
    Outcome,
    Queue,
    Revoke,
    Withdraw,
)
from regions.gang import SealRecord
from regions.launcher import layout
from regions.launcher.reading import Unreachable
from regions.launcher.store import InvalidKey, Store, StoreUnreachable

T = TypeVar("T")

RETRY_S = 1.0
REVOKED_BY = "broker"

NOT_CLOSED = Outcome(
    is_done=False,
    cause=Cause.REFUSED,
    message="its gang has started or may start, and its epoch is not closed",
    retry_after_s=RETRY_S,
)
"""What becomes of a withdrawal that the start protocol does not allow yet."""


class StoreOrders:
    """Writes the records of the start protocol; each call takes at most ``within_s`` seconds."""

    def __init__(self, store: Store, within_s: float) -> None:
        self._store = store
        self._within_s = within_s

    async def carry_out(
        self,
        action: Action,
        *,
        queue: Callable[[Queue], Awaitable[Outcome]],
        withdraw: Callable[[Withdraw], Awaitable[Outcome]],
    ) -> Outcome:
        """Write a record, or let the cluster ``queue`` or ``withdraw``. Raises what these raise,
        and what ``answered`` knows."""
        match action:
            case Queue():
                return await queue(action)
            case Withdraw():
                return await withdraw(action)
            case Grant() | Revoke() | Drain() | Fence():
                return await self._within(lambda: write_record(self._store, action, time.time()))
            case _:
                assert_never(action)

    async def can_withdraw(self, action: Withdraw) -> bool:
        """Read the owner, and say whether the placement's object may go. See the gatehouse."""
        return await self._within(
            lambda: gatehouse.can_withdraw(
                self._store, action.run_key, action.placement, action.is_closed
            )
        )

    async def _within(self, call: Callable[[], T]) -> T:
        async with asyncio.timeout(self._within_s):
            return await asyncio.to_thread(call)


async def answered(acting: Awaitable[Outcome]) -> Outcome:
    """Carry out an action; what it raises of a cluster's or a store's silence is its outcome."""
    try:
        return await acting
    except ClusterUnreachableError as error:
        return silence(str(error))
    except (StoreUnreachable, TimeoutError) as error:
        return silence(f"the store did not answer: {error}")
    except (layout.BadKey, InvalidKey, gatehouse.RecordConflictError) as error:
        return Outcome(is_done=False, cause=Cause.REFUSED, message=str(error))


def silence(message: str) -> Outcome:
    """Return the outcome of an action of which nobody knows whether it was carried out."""
    return Outcome(is_done=False, cause=Cause.UNKNOWN, message=message, retry_after_s=RETRY_S)


def write_record(store: Store, action: Grant | Revoke | Drain | Fence, unix_s: float) -> Outcome:
    """Write one record of the start protocol, at ``unix_s`` of the wall clock.

    Raises StoreUnreachable, BadKey, InvalidKey or RecordConflictError.
    """
    run_key = action.epoch.run_key
    match action:
        case Grant():
            gatehouse.write_grant(store, run_key, _grant(action))
        case Revoke():
            owner = gatehouse.revoke(store, run_key, action.epoch.number, REVOKED_BY)
            if isinstance(owner, Unreachable):
                raise StoreUnreachable(owner.why)
        case Drain():
            order = layout.DrainOrder(
                reason=action.reason,
                grace_s=action.grace_s,
                deadline_unix_s=unix_s + action.grace_s,
            )
            gatehouse.drain(store, run_key, _epoch(action.epoch), order)
        case Fence():
            gatehouse.fence(store, run_key, _epoch(action.epoch), action.reason)
        case _:
            assert_never(action)
    return Outcome(is_done=True)


def _grant(action: Grant) -> layout.Grant:
    return layout.Grant(
        placement=action.placement,
        epoch=_epoch(action.epoch),
        world_size=action.world_size,
        incarnation=action.incarnation,
        resume_from=action.resume_path,
        bundle=action.bundle_digest or None,
        seals=tuple(_seal(seal) for seal in action.seals),
    )


def _seal(seal: SealRecord) -> layout.Seal:
    return layout.Seal(
        epoch=layout.EpochId(number=seal.number, nonce=seal.nonce),
        steps=seal.checkpoints,
    )


def _epoch(key: EpochKey) -> layout.EpochId:
    return layout.EpochId(number=key.number, nonce=key.nonce)
