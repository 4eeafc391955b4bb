"""What an embedded cluster is told of an order is what is shown of it."""

from dataclasses import replace
from pathlib import Path

import msgspec

from regions.cluster import Cause
from regions.launcher.store import DirectoryStore
from regions.local import wire
from regions.local.orders import NO_SECRETS, Orders, manifest
from tests.contract.cluster.world import make_queue

ORDER = make_queue(("train",), placement="p1", run_key="r1", ranks=2)


async def test_what_is_shown_of_an_order_is_what_is_sent(tmp_path: Path) -> None:
    asked: list[wire.Request] = []

    async def ask(request: wire.Request) -> wire.Reply:
        asked.append(request)
        return wire.Done(is_done=True, cause=Cause.NONE, message="", retry_after_s=None)

    orders = Orders(ask, DirectoryStore.create(str(tmp_path)), store_s=5.0)
    assert (await orders.carry_out(ORDER)).is_done
    (sent,) = asked
    assert isinstance(sent, wire.QueueGang)
    (shown,) = manifest(ORDER).objects
    assert shown == {"kind": "Gang", "spec": msgspec.to_builtins(sent.spec)}


def test_what_is_never_sent_is_shown_with_why() -> None:
    shown = manifest(replace(ORDER, secrets=(("hub", "TOKEN", ""),)))
    assert (shown.objects, shown.refusal) == ((), NO_SECRETS)
