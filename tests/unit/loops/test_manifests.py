"""What is shown of a placement is made of the very order that its cluster is given."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.history.refusals import Code, Refused
from broker.loops.manifests import UNPLACED
from broker.model.capacity import FlavorKey
from broker.model.manifest import Manifest, SentObject
from regions.cluster import Queue
from tests.unit.loops.handheld import Handheld, handheld


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Handheld]:
    async with handheld(tmp_path, "alpha") as broker:
        yield broker


async def test_what_is_shown_is_what_was_sent(broker: Handheld) -> None:
    name = await broker.submit()
    await broker.settle()
    leg, cluster = broker.leg(name), broker.clusters["alpha"]
    (order,) = {one for one in map(repr, cluster.heard) if one.startswith("Queue(")}
    spec = {"placement": leg.id, "whole": order}
    assert broker.agents.manifests.manifest(broker.run(name), leg) == Manifest(
        objects=(
            SentObject(kind="Order", name=leg.id, json=json.dumps({"kind": "Order", "spec": spec})),
        ),
        notes=("as it is",),
        refusal="",
    )


async def test_what_would_be_sent_differs_only_in_the_placement_that_is_not_made_yet(
    broker: Handheld,
) -> None:
    await broker.settle()
    name = await broker.submit()
    run = broker.run(name)
    (offer, *_) = broker.agents.answers.explain(run, run.updated).offers
    foreseen = broker.agents.manifests.offered(run, offer)
    await broker.settle()
    order = next(one for one in broker.clusters["alpha"].heard if isinstance(one, Queue))
    # Whether it is granted as it is queued is decided when it is.
    would = replace(
        order,
        placement=UNPLACED,
        labels={**order.labels, "placement": UNPLACED},
        is_granted=False,
    )
    assert json.loads(foreseen.objects[0].json)["spec"]["whole"] == repr(would)


async def test_nothing_is_told_of_a_cluster_that_is_not_configured(broker: Handheld) -> None:
    name = await broker.submit()
    await broker.settle()
    leg = broker.leg(name)
    key = FlavorKey(cluster="gone", queue="train", flavor="spot")
    elsewhere = replace(leg, site=replace(leg.site, key=key))
    with pytest.raises(Refused, match="not among the configured") as caught:
        broker.agents.manifests.manifest(broker.run(name), elsewhere)
    assert caught.value.code is Code.UNAVAILABLE
