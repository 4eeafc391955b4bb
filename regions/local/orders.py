"""Actions carried out: on the cluster over its socket, on the region's store by the gatehouse.

The rule: each action has an outcome of its own, and silence is one; a fence is written although the
cluster is silent, and a placement queued although the store is. Nothing is tried twice here. A
withdrawal reads the owner last of all before it is sent. Read ``Orders.carry_out`` first.
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
from regions.local import wire
from regions.local.state import GangSpec, WithdrawOrder

T = TypeVar("T")

RETRY_S = 1.0
REVOKED_BY = "broker"

Ask = Callable[[wire.Request], Awaitable[wire.Reply]]


class Orders:
    """The acting half of a cluster. ``ask`` puts one question to the daemon; store calls take at
    most ``store_s`` seconds."""

    def __init__(self, ask: Ask, store: Store, store_s: float) -> None:
        self._ask = ask
        self._store = store
        self._store_s = store_s

    async def carry_out(self, action: Action) -> Outcome:
        """Carry out one action and say what became of it."""
        try:
            match action:
                case Queue():
                    return await self._queue(action)
                case Withdraw():
                    return await self._withdraw(action)
                case Grant() | Revoke() | Drain() | Fence():
                    return await self._within(lambda: _write(self._store, action))
                case _:
                    assert_never(action)
        except ClusterUnreachableError as error:
            return _silence(str(error))
        except (StoreUnreachable, TimeoutError) as error:
            return _silence(f"the store did not answer: {error}")
        except (layout.BadKey, InvalidKey, gatehouse.RecordConflictError) as error:
            return Outcome(is_done=False, cause=Cause.REFUSED, message=str(error))

    async def _queue(self, action: Queue) -> Outcome:
        if action.secrets:
            message = "an embedded cluster keeps no secrets"
            return Outcome(is_done=False, cause=Cause.REFUSED, message=message)
        return _outcome(await self._ask(wire.QueueGang(spec=gang_spec(action))))

    async def _withdraw(self, action: Withdraw) -> Outcome:
        may_go = await self._within(
            lambda: gatehouse.can_withdraw(
                self._store, action.run_key, action.placement, action.is_closed
            )
        )
        if not may_go:
            message = "its gang has started or may start, and its epoch is not closed"
            return Outcome(is_done=False, cause=Cause.REFUSED, message=message, retry_after_s=1.0)
        order = WithdrawOrder(placement=action.placement, run_key=action.run_key, uid=action.uid)
        return _outcome(await self._ask(wire.WithdrawGang(order=order)))

    async def _within(self, call: Callable[[], T]) -> T:
        # In a thread of its own: a directory on a dead disk can hang for minutes.
        async with asyncio.timeout(self._store_s):
            return await asyncio.to_thread(call)


def gang_spec(action: Queue) -> GangSpec:
    """What the daemon is told of a placement.

    Image, topology, service account, memory and the priority after a grant mean nothing on one
    machine where nobody is preempted by priority, and are left out.
    """
    return GangSpec(
        placement=action.placement,
        run_key=action.run_key,
        run_name=action.run_name,
        queue=action.queue,
        flavor=action.flavor,
        ranks=action.gang.ranks,
        accelerator=action.gang.accelerator,
        accelerators_per_node=action.gang.accelerators_per_node,
        command=action.command,
        env=dict(action.env),
        priority=action.priority,
        gate_timeout_s=action.gate_timeout_s,
        stop_grace_s=action.stop_grace_s,
        labels=dict(action.labels),
    )


def _write(store: Store, action: Grant | Revoke | Drain | Fence) -> Outcome:
    """Write one record of the start protocol."""
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
                deadline_unix_s=time.time() + action.grace_s,
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


def _outcome(reply: wire.Reply) -> Outcome:
    if not isinstance(reply, wire.Done):
        return _silence("the cluster answered something else")
    return Outcome(
        is_done=reply.is_done,
        cause=reply.cause,
        message=reply.message,
        retry_after_s=reply.retry_after_s,
    )


def _silence(message: str) -> Outcome:
    return Outcome(is_done=False, cause=Cause.UNKNOWN, message=message, retry_after_s=RETRY_S)
