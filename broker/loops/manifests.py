"""What is sent to clusters for runs, told by the port that sends it.

The rule: the order is the one that the converger derives from the log, and the port builds its
objects by the function that it sends by; so nothing is shown that would not be sent. Read
``Manifests.manifest`` first.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from broker.history.refusals import Code, Refused
from broker.history.regional import BrokerState, RegionState
from broker.loops import orders
from broker.loops.image_book import ImageBook
from broker.loops.outposts import Outposts
from broker.model.capacity import Offer
from broker.model.manifest import Manifest, SentObject
from broker.model.policy import RegionPolicy
from broker.model.reasons import Reason
from broker.model.run import Placement, Run, Site
from broker.placement.plan import site_of
from regions.cluster import Queue

UNPLACED = "unplaced"
"""Stands where a placement's id would: it is drawn when one is made."""


class Log(Protocol):
    """What an order is derived from, beside its run."""

    def region(self, region: str) -> RegionState:
        """Return what ops set for a region."""
        ...

    def broker(self) -> BrokerState:
        """Return the broker's own state."""
        ...


class Manifests:
    """Tells what is sent."""

    def __init__(self, log: Log, outposts: Outposts, images: ImageBook | None) -> None:
        """Make it; ``images`` None: no registry is configured."""
        self._log = log
        self._outposts = outposts
        self._images = images

    def manifest(self, run: Run, placement: Placement) -> Manifest:
        """Return what is sent for a placement. Raises Refused where its cluster is not known."""
        site, book = placement.site, self._images
        return self._told(
            site, lambda policy, mark: orders.queue(run, placement, policy, mark, book)
        )

    def offered(self, run: Run, offer: Offer) -> Manifest:
        """Return what would be sent if the run were placed on an offer."""
        site = site_of(offer)
        return self._told(
            site, lambda *said: orders.order(run, UNPLACED, site, *said, book=self._images)
        )

    def _told(self, site: Site, order: Callable[[RegionPolicy, str], Queue]) -> Manifest:
        outpost = self._outposts.get(site.key.cluster)
        if outpost is None:
            raise Refused(
                reason=Reason.CLUSTER_UNREACHABLE,
                message=f"{site.key.cluster} is not among the configured clusters",
                code=Code.UNAVAILABLE,
            )
        policy, mark = self._log.region(site.region).policy, self._log.broker().mark
        found = outpost.port.manifest(order(policy, mark))
        return Manifest(
            objects=tuple(_object(one) for one in found.objects),
            notes=found.notes,
            refusal=found.refusal,
        )


def _object(sent: Mapping[str, Any]) -> SentObject:
    metadata = sent.get("metadata") or sent.get("spec") or {}
    return SentObject(
        kind=str(sent.get("kind", "")),
        name=str(metadata.get("name") or metadata.get("placement") or ""),
        json=json.dumps(sent, ensure_ascii=False),
    )
