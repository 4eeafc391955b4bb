"""All agents of one broker, made from their parts, and the tasks that keep them going.

  observer (one per cluster)   looks, keeps what it saw, tells the log the facts
  validator                    accepts or rejects what was submitted
  placer                       decides: judges runs, plans places, grants, closes
  converger (one per cluster)  makes the cluster as the log says
  carrier                      brings bundles and checkpoints, finds new ones
  pruner                       lets go of checkpoints that need not be kept
  reaper                       gives back what is over, shows strangers, retires old runs
  restorer                     surveys all stores after a restore, before the first grant

The rule: agents meet only in the log and in what was last seen, so that any of them can be late.
Read ``make_agents``; a simulation calls the ticks itself, ``keep_going`` is for a daemon.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from broker.history.lineage import resumable
from broker.loops.answers import Answers, Strangers
from broker.loops.carrier import Carrier
from broker.loops.content import Content
from broker.loops.converger import Converger
from broker.loops.desk import Clock, Counts, Desk, Log
from broker.loops.epochs import EpochBook
from broker.loops.observer import Observer
from broker.loops.off_loop import OffLoop
from broker.loops.outposts import Outpost, Outposts
from broker.loops.placer import Draws, Placer
from broker.loops.pruner import Pruner
from broker.loops.reaper import Archive, Reaper
from broker.loops.restorer import Restorer
from broker.loops.roster import Roster
from broker.loops.sight import Sight
from broker.loops.validator import Bundles, Validator
from broker.model.actor import ActorKind
from broker.placement.view import View
from regions.launcher.store import Store


class WholeLog(Log, Archive, Protocol):
    """What all agents together need of the ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the agents are made from.

    ``regions_needing_image`` have a cluster that runs images; ``folders`` are the regions whose
    store is a directory of this machine; ``controls`` are the stores of the start protocol, by
    region. Ended runs are kept for ``retention_s`` broker seconds.
    """

    log: WholeLog
    outposts: tuple[Outpost, ...]
    content: Content
    bundles: Bundles
    regions_needing_image: frozenset[str]
    draws: Draws
    clock: Clock
    folders: Mapping[str, Path]
    controls: Mapping[str, Store]
    retention_s: float
    off_loop: OffLoop


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
    pruner: Pruner
    reaper: Reaper
    restorer: Restorer
    answers: Answers
    strangers: Strangers


def make_agents(parts: Parts) -> Agents:
    """Make every agent; none does anything yet."""
    outposts = Outposts(parts.outposts)
    counts = Counts()
    roster = Roster(parts.log)
    sight = Sight((outpost.cluster, outpost.region) for outpost in outposts)
    view = View(resumable)
    book = EpochBook(sight, view, parts.content)

    def desk(agent: str, kind: ActorKind = ActorKind.BROKER) -> Desk:
        return Desk(parts.log, agent, counts, kind)

    placer = Placer(
        desk=desk("placer"),
        roster=roster,
        sight=sight,
        view=view,
        book=book,
        outposts=outposts,
        draws=parts.draws,
        clock=parts.clock,
    )
    strangers = Strangers()
    carrier = Carrier(
        desk=desk("carrier"),
        roster=roster,
        sight=sight,
        view=view,
        content=parts.content,
        wake=placer.changes,
        clock=parts.clock,
    )
    return Agents(
        outposts=outposts,
        roster=roster,
        sight=sight,
        view=view,
        book=book,
        content=parts.content,
        counts=counts,
        observers=tuple(
            Observer(
                outpost=outpost,
                desk=desk(outpost.cluster, ActorKind.CLUSTER),
                roster=roster,
                sight=sight,
                clock=parts.clock,
            )
            for outpost in outposts
        ),
        validator=Validator(
            desk=desk("validator"),
            roster=roster,
            bundles=parts.bundles,
            regions_needing_image=parts.regions_needing_image,
        ),
        placer=placer,
        convergers=tuple(
            Converger(
                outpost=outpost,
                desk=desk("converger"),
                roster=roster,
                sight=sight,
                book=book,
                clock=parts.clock,
            )
            for outpost in outposts
        ),
        carrier=carrier,
        pruner=Pruner(
            desk=desk("pruner"),
            roster=roster,
            content=parts.content,
            carrier=carrier,
            clock=parts.clock,
        ),
        reaper=Reaper(
            desk=desk("reaper"),
            archive=parts.log,
            roster=roster,
            sight=sight,
            outposts=outposts,
            content=parts.content,
            strangers=strangers,
            retention_s=parts.retention_s,
            clock=parts.clock,
        ),
        restorer=Restorer(
            desk=desk("restorer"),
            archive=parts.log,
            outposts=outposts,
            sight=sight,
            content=parts.content,
            controls=parts.controls,
            off_loop=parts.off_loop,
            clock=parts.clock,
        ),
        answers=Answers(
            run=parts.log.run,
            outposts=outposts,
            sight=sight,
            view=view,
            content=parts.content,
            strangers=strangers,
            folders=parts.folders,
        ),
        strangers=strangers,
    )
