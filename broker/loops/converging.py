"""What is to be done in one cluster so that it is as the log says, for one run. Pure.

The rule: nothing is done that the log does not hold, and nothing on a guess: what is missing counts
as missing only where the look was whole, and a start is revoked or fenced only as the start
protocol's verdict asks (B2). Every action can be repeated. Read ``converge`` first.
"""

from collections.abc import Iterator, Mapping

from broker.loops import orders
from broker.loops.image_book import ImageBook
from broker.loops.sight import ClusterSight
from broker.model.checkpoint import EpochId
from broker.model.moment import Moment
from broker.model.policy import RegionPolicy
from broker.model.run import Epoch, Placement, Run
from broker.model.states import PlacementState
from regions.cluster import Action, Queue, Stage
from regions.launcher import rules


def converge(
    run: Run,
    cluster: str,
    sight: ClusterSight,
    *,
    verdicts: Mapping[EpochId, rules.Verdict],
    policy: RegionPolicy,
    is_surveyed: bool,
    incarnation: int,
    mark: str,
    book: ImageBook | None,
    now: Moment,
) -> tuple[Action, ...]:
    """Return what is to be done for a run in a cluster, as last seen.

    ``mark`` is what this log's objects are marked with, ``book`` knows the regions' registries.
    ``verdicts`` are those on the run's open epoch and on those that owe their fence.
    """
    actions: list[Action] = []
    for epoch in run.epochs:
        if epoch.cluster == cluster and epoch.id in verdicts:
            told = _by_verdict(run, epoch, verdicts[epoch.id])
            actions += told or _of_epoch(run, epoch, sight, incarnation, now)
    for placement in run.live_placements:
        # Before a restored broker has read the region whole it moves nothing there (R3).
        if placement.site.key.cluster == cluster and is_surveyed:
            actions += _of_placement(run, placement, sight, policy, mark, book=book)
    # A gang that is granted as it is queued has its own enclave before it may start.
    return tuple(sorted(actions, key=lambda action: not isinstance(action, Queue)))


def _by_verdict(run: Run, epoch: Epoch, verdict: rules.Verdict) -> tuple[Action, ...]:
    match verdict:
        case rules.TryRevoke():
            return (orders.revoke(run, epoch),)
        case rules.WriteFence():
            return (orders.fence(run, epoch),)
        case _:
            return ()


def _of_epoch(
    run: Run, epoch: Epoch, sight: ClusterSight, incarnation: int, now: Moment
) -> Iterator[Action]:
    if not epoch.is_open or epoch.stop is not None or not sight.is_store_readable:
        return
    seen = sight.epoch(run, epoch)
    if epoch.started_s is None:
        # A grant is a record of the store: it is written though the cluster is silent, and waits
        # there for a gang that may come while the broker is away.
        if _lacks_grant(run, epoch, sight):
            yield orders.grant(run, epoch, incarnation)
        return
    drain = orders.drain(run, epoch, now)
    if drain is not None and not (seen is not None and seen.is_drain_written):
        yield drain


def _of_placement(
    run: Run,
    placement: Placement,
    sight: ClusterSight,
    policy: RegionPolicy,
    mark: str,
    *,
    book: ImageBook | None,
) -> Iterator[Action]:
    if not sight.is_reachable:
        return
    seen = sight.placement(placement.id)
    is_here = seen is not None and seen.stage is not Stage.ENDED
    if placement.withdraw is not None:
        if is_here and seen is not None:
            yield orders.withdraw(run, placement, placement.cluster_uid or seen.uid)
        elif seen is None and placement.state is not PlacementState.PREPARING:
            # It may never have come, or be on its way: its name is occupied, so that it cannot.
            yield orders.withdraw(run, placement, placement.cluster_uid)
        return
    epoch = run.open_epoch
    is_missing = seen is None and sight.is_whole and _is_to_queue(placement)
    # An order may have stopped half way, with the gang made and what keeps it apart from others
    # not: it is carried to its end before a grant lets the gang train.
    is_to_start = (
        is_here
        and epoch is not None
        and epoch.placement == placement.id
        and epoch.stop is None
        and epoch.started_s is None
        and _lacks_grant(run, epoch, sight)
    )
    if is_missing or is_to_start:
        yield orders.queue(run, placement, policy, mark, book)


def _lacks_grant(run: Run, epoch: Epoch, sight: ClusterSight) -> bool:
    """Whether an epoch that was granted, and did not start, shows no grant in its store."""
    here = sight.placement(epoch.placement)
    return sight.epoch(run, epoch) is None and not (here is not None and here.is_granted)


def _is_to_queue(placement: Placement) -> bool:
    return placement.state is PlacementState.QUEUED and not placement.was_queued


def is_never_queued(placement: Placement, sight: ClusterSight) -> bool:
    """Whether a withdrawn placement never left the broker, so that it ends without a cluster."""
    return (
        placement.withdraw is not None
        and placement.state is PlacementState.PREPARING
        and sight.placement(placement.id) is None
    )
