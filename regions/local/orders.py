"""Actions carried out: on the cluster over its socket, on the region's store by the gatehouse.

The rule: each action has an outcome of its own, and silence is one; a fence is written although the
cluster is silent, and a placement queued although the store is. Nothing is tried twice here. A
withdrawal reads the owner last of all before it is sent. Read ``Orders.carry_out`` first.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from regions.cluster import (
    Action,
    Cause,
    Manifest,
    Outcome,
    Queue,
    Withdraw,
)
from regions.launcher.store import Store
from regions.local import wire
from regions.local.state import GangSpec, WithdrawOrder
from regions.store_orders import NOT_CLOSED, StoreOrders, answered, silence

Ask = Callable[[wire.Request], Awaitable[wire.Reply]]


NO_SECRETS = "an embedded cluster keeps no secrets"


class Orders:
    """The acting half of a cluster. ``ask`` puts one question to the daemon; store calls take at
    most ``store_s`` seconds."""

    def __init__(self, ask: Ask, store: Store, store_s: float) -> None:
        self._ask = ask
        self._records = StoreOrders(store, store_s)

    async def carry_out(self, action: Action) -> Outcome:
        """Carry out one action and say what became of it."""
        return await answered(
            self._records.carry_out(action, queue=self._queue, withdraw=self._withdraw)
        )

    async def _queue(self, action: Queue) -> Outcome:
        if action.secrets:
            return Outcome(is_done=False, cause=Cause.REFUSED, message=NO_SECRETS)
        return _outcome(await self._ask(wire.QueueGang(spec=gang_spec(action))))

    async def _withdraw(self, action: Withdraw) -> Outcome:
        if not await self._records.can_withdraw(action):
            return NOT_CLOSED
        order = WithdrawOrder(placement=action.placement, run_key=action.run_key, uid=action.uid)
        return _outcome(await self._ask(wire.WithdrawGang(order=order)))


def manifest(order: Queue) -> Manifest:
    """Return what the daemon is told of a placement, as it is sent."""
    if order.secrets:
        return Manifest(refusal=NO_SECRETS)
    spec: dict[str, Any] = msgspec.to_builtins(gang_spec(order))
    return Manifest(objects=({"kind": "Gang", "spec": spec},))


def gang_spec(action: Queue) -> GangSpec:
    """What the daemon is told of a placement.

    Image, topology, service account and its token, the way out and memory mean nothing on one
    machine and are left out. Nobody is preempted by priority there, so that a gang stands in line
    with its run's own from the first.
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
        priority=max(action.priority, action.granted_priority),
        gate_timeout_s=action.gate_timeout_s,
        stop_grace_s=action.stop_grace_s,
        labels=dict(action.labels),
    )


def _outcome(reply: wire.Reply) -> Outcome:
    if not isinstance(reply, wire.Done):
        return silence("the cluster answered something else")
    return Outcome(
        is_done=reply.is_done,
        cause=reply.cause,
        message=reply.message,
        retry_after_s=reply.retry_after_s,
    )
