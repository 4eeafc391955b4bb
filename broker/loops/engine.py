"""All agents of one broker, made from their parts, and the tasks that keep them going.

  observer (one per cluster)   looks, keeps what it saw, tells the log the facts
  validator                    accepts or rejects what was submitted
  placer                       decides: judges runs, plans places, grants, closes
  converger (one per cluster)  makes the cluster as the log says
  carrier                      brings bundles and checkpoints, finds new ones
  courier                      has images copied between the regions' registries
  pruner                       lets go of checkpoints that need not be kept
  reaper                       gives back what is over, shows strangers, retires old runs
  restorer                     surveys all stores after a restore, before the first grant

The rule: agents meet only in the log and in what was last seen, so that any of them can be late.
Read ``make_agents``; a simulation calls the ticks itself, ``keep_going`` is for a daemon.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from broker.history.lineage import resumable
from broker.loops.answers import Answers, Strangers
from broker.loops.carrier import Carrier
from broker.loops.content import Content
from broker.loops.converger import ACTED_AT_ONCE, Converger
from broker.loops.courier import Courier
from broker.loops.desk import Clock, Counts, Desk, Log
from broker.loops.doubting import Doubter
from broker.loops.egress import Egress
from broker.loops.epochs import EpochBook
from broker.loops.examining import Examiner
from broker.loops.image_book import ImageBook
from broker.loops.image_check import ImageCheck
from broker.loops.image_vouching import ImageVoucher
from broker.loops.images import Images
from broker.loops.manifests import Manifests
from broker.loops.observer import Observer
from broker.loops.off_loop import OffLoop
from broker.loops.outposts import Outpost, Outposts
from broker.loops.placer import Draws, Placer
from broker.loops.pruner import Pruner
from broker.loops.reaper import Archive, Reaper
from broker.loops.restorer import Restorer
from broker.loops.roster import Roster
from broker.loops.sight import Sight
from broker.loops.trust import Trust
from broker.loops.validator import Bundles, Validator
from broker.loops.vouching import Voucher
from broker.model.actor import ActorKind
from broker.model.copying import EgressPriceOf
from broker.placement.view import View
from regions.launcher.store import Store


class WholeLog(Log, Archive, Protocol):
    """What all agents together need of the ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the agents are made from.

    ``regions_needing_image`` have a cluster that runs images; ``locations`` are where the
    regions' stores are, as they were configured; ``controls`` are the stores of the start protocol,
    by region. Ended runs are kept for ``retention_s`` broker seconds.
    ``images`` None: no registry is configured, and clusters pull what runs name.
    ``egress_price`` tells what a GiB costs between two regions.
    An agent handles at most ``runs_at_once``, 1 for one after the other.
    """

    log: WholeLog
    outposts: tuple[Outpost, ...]
    content: Content
    bundles: Bundles
    regions_needing_image: frozenset[str]
    draws: Draws
    clock: Clock
    locations: Mapping[str, str]
    controls: Mapping[str, Store]
    retention_s: float
    off_loop: OffLoop
    egress_price: EgressPriceOf
    runs_at_once: int = 1
    images: Images | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Agents:
    """The agents and what they share."""

    outposts: Outposts
    roster: Roster
    sight: Sight
    view: View
    book: EpochBook
    content: Content
    counts: Counts
    observers: tuple[Observer, ...]
    validator: Validator
    placer: Placer
    convergers: tuple[Converger, ...]
    carrier: Carrier
    courier: Courier | None
    pruner: Pruner
    reaper: Reaper
    restorer: Restorer
    answers: Answers
    manifests: Manifests
    examiner: Examiner
    strangers: Strangers


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """What several agents are handed."""

    outposts: Outposts
    roster: Roster
    sight: Sight
    view: View
    book: EpochBook
    counts: Counts
    strangers: Strangers
    trust: Trust
    voucher: Voucher
    images: ImageVoucher | None
    egress: Egress

    @property
    def book_of_images(self) -> ImageBook | None:
        """The registries that are configured, None when there is none."""
        return None if self.images is None else self.images.images.book


def make_agents(parts: Parts) -> Agents:
    """Make every agent; none does anything yet."""
    outposts = Outposts(parts.outposts)
    sight = Sight((outpost.cluster, outpost.region) for outpost in outposts)
    view = View(resumable, parts.egress_price)
    shared = _Shared(
        outposts=outposts,
        roster=Roster(parts.log),
        sight=sight,
        view=view,
        book=EpochBook(sight, view, parts.content),
        counts=Counts(),
        strangers=Strangers(),
        trust=Trust(parts.log, outposts.regions),
        voucher=Voucher(parts.content, sight),
        images=_images(parts, outposts, view),
        egress=Egress(parts.clock),
    )
    placer = _placer(parts, shared)
    carrier = _carrier(parts, shared, placer)
    courier = None if shared.images is None else _courier(parts, shared, shared.images, placer)
    return Agents(
        outposts=outposts,
        roster=shared.roster,
        sight=sight,
        view=view,
        book=shared.book,
        content=parts.content,
        counts=shared.counts,
        observers=tuple(_observer(parts, shared, outpost) for outpost in outposts),
        validator=Validator(
            desk=_desk(parts, shared, "validator", at_once=parts.runs_at_once),
            roster=shared.roster,
            bundles=parts.bundles,
            regions_needing_image=parts.regions_needing_image,
            images=None if parts.images is None else ImageCheck(parts.images, parts.clock),
        ),
        placer=placer,
        convergers=tuple(_converger(parts, shared, outpost) for outpost in outposts),
        carrier=carrier,
        courier=courier,
        pruner=Pruner(
            desk=_desk(parts, shared, "pruner"),
            roster=shared.roster,
            content=parts.content,
            carrier=carrier,
            clock=parts.clock,
        ),
        reaper=_reaper(parts, shared),
        restorer=_restorer(parts, shared),
        answers=Answers(
            run=parts.log.run,
            outposts=outposts,
            sight=sight,
            view=view,
            content=parts.content,
            strangers=shared.strangers,
            locations=parts.locations,
            book=shared.book_of_images,
            courier=courier,
            carrier=carrier,
        ),
        manifests=Manifests(parts.log, outposts, shared.book_of_images),
        examiner=Examiner(outposts, sight, parts.content, parts.images),
        strangers=shared.strangers,
    )


def _desk(
    parts: Parts,
    shared: _Shared,
    agent: str,
    kind: ActorKind = ActorKind.BROKER,
    *,
    at_once: int = 1,
) -> Desk:
    return Desk(parts.log, agent, shared.counts, kind, at_once=at_once)


def _observer(parts: Parts, shared: _Shared, outpost: Outpost) -> Observer:
    return Observer(
        outpost=outpost,
        desk=_desk(parts, shared, outpost.cluster, ActorKind.CLUSTER, at_once=parts.runs_at_once),
        roster=shared.roster,
        sight=shared.sight,
        trust=shared.trust,
        clock=parts.clock,
    )


def _converger(parts: Parts, shared: _Shared, outpost: Outpost) -> Converger:
    return Converger(
        outpost=outpost,
        desk=_desk(parts, shared, "converger"),
        roster=shared.roster,
        sight=shared.sight,
        book=shared.book,
        images=shared.book_of_images,
        clock=parts.clock,
        at_once=min(parts.runs_at_once, ACTED_AT_ONCE),
    )


def _placer(parts: Parts, shared: _Shared) -> Placer:
    return Placer(
        desk=_desk(parts, shared, "placer", at_once=parts.runs_at_once),
        policy=_desk(parts, shared, "policy"),
        roster=shared.roster,
        sight=shared.sight,
        view=shared.view,
        book=shared.book,
        voucher=shared.voucher,
        images=shared.images,
        outposts=shared.outposts,
        draws=parts.draws,
        clock=parts.clock,
    )


def _carrier(parts: Parts, shared: _Shared, placer: Placer) -> Carrier:
    desk = _desk(parts, shared, "carrier")
    return Carrier(
        desk=desk,
        archive=parts.log,
        doubter=Doubter(desk=desk, sight=shared.sight, voucher=shared.voucher, clock=parts.clock),
        roster=shared.roster,
        sight=shared.sight,
        view=shared.view,
        content=parts.content,
        egress=shared.egress,
        wake=placer.changes,
        clock=parts.clock,
    )


def _images(parts: Parts, outposts: Outposts, view: View) -> ImageVoucher | None:
    """Return who looks for images, and tell the view which regions pull them and how fast."""
    if parts.images is None:
        return None
    book = parts.images.book
    for region in outposts.regions:
        if book.is_pulled_in(region):
            view.apply_registry(region, book.pull_bytes_per_s(region))
    return ImageVoucher(parts.images, view, parts.clock)


def _courier(parts: Parts, shared: _Shared, images: ImageVoucher, placer: Placer) -> Courier:
    return Courier(
        desk=_desk(parts, shared, "courier"),
        roster=shared.roster,
        sight=shared.sight,
        view=shared.view,
        images=images.images,
        voucher=images,
        egress=shared.egress,
        wake=placer.changes,
        clock=parts.clock,
    )


def _reaper(parts: Parts, shared: _Shared) -> Reaper:
    return Reaper(
        desk=_desk(parts, shared, "reaper"),
        archive=parts.log,
        roster=shared.roster,
        sight=shared.sight,
        outposts=shared.outposts,
        content=parts.content,
        strangers=shared.strangers,
        retention_s=parts.retention_s,
        clock=parts.clock,
    )


def _restorer(parts: Parts, shared: _Shared) -> Restorer:
    return Restorer(
        desk=_desk(parts, shared, "restorer"),
        archive=parts.log,
        outposts=shared.outposts,
        sight=shared.sight,
        content=parts.content,
        controls=parts.controls,
        trust=shared.trust,
        draw_name=parts.draws.nonce,
        off_loop=parts.off_loop,
        clock=parts.clock,
    )
