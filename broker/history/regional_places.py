"""What answers as a region's store, and what stands in its clusters and is of no run.

The rule: a store is believed while it is the one that the log knows, and only a person puts another
in its place. Of the orphans one that carries the log's own mark can be removed, by a person's word;
any other is shown and left (law 10). Read ``decide_store`` first.
"""

from collections.abc import Sequence

from broker.history.refusals import Code, Refused
from broker.history.regional_commands import (
    AcceptStore,
    ClaimStore,
    DoubtStore,
    RecordOrphan,
    RecordOrphanGone,
    RemoveOrphan,
)
from broker.history.regional_events import (
    OrphanGone,
    OrphanRemovalOrdered,
    OrphanSeen,
    RegionEvent,
    StoreAccepted,
    StoreClaimed,
    StoreDoubted,
)
from broker.history.regional_states import KnownOrphan, RegionState, StoreDoubt
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.replacing import replace

ORPHANS_MAX = 100  # of one region, in the log; a cluster shows as many as it likes
NAMED_MAX = 5  # runs, in a sentence


def decide_store(
    region: RegionState,
    command: ClaimStore | DoubtStore | AcceptStore,
    open_starts: Sequence[str],
) -> tuple[RegionEvent, ...]:
    """Return what is found of a region's store, or a person's word on it, makes of the region.

    ``open_starts`` are the runs that have a start open there. Raises Refused.
    """
    match command:
        case ClaimStore():
            if region.store == command.store and region.doubt is None:
                return ()
            if region.store not in ("", command.store):
                raise _illegal(f"the store of {region.id} is known as {region.store}")
            return (StoreClaimed(store=command.store),)
        case DoubtStore():
            doubt = StoreDoubt(reason=command.reason, message=command.message)
            if region.doubt == doubt:
                return ()
            return (StoreDoubted(reason=command.reason, message=command.message),)
        case AcceptStore():
            return _accept_store(region, open_starts)


def _accept_store(region: RegionState, open_starts: Sequence[str]) -> tuple[RegionEvent, ...]:
    """A start whose records are lost can be closed by no look: somebody must say so first."""
    if region.doubt is None:
        return ()
    if region.doubt.reason is Reason.STORE_NOT_OURS:
        raise _illegal(region.doubt.message)
    if open_starts:
        names = ", ".join(open_starts[:NAMED_MAX])
        raise _illegal(
            f"{len(open_starts)} runs have a start there whose records are lost ({names}): say"
            " broker replace for each, and accept the store when they are closed"
        )
    return (StoreAccepted(lost=region.store),)


def decide_orphan(
    region: RegionState, command: RecordOrphan | RecordOrphanGone | RemoveOrphan
) -> tuple[RegionEvent, ...]:
    """Return what a look at a cluster, or a person's word, makes of an orphan. Raises Refused."""
    known = region.orphan(command.cluster, command.object)
    match command:
        case RecordOrphan():
            # A cluster that shows ever more of them must not fill the log.
            if known is not None or len(region.orphans) >= ORPHANS_MAX:
                return ()
            return (
                OrphanSeen(
                    cluster=command.cluster,
                    object=command.object,
                    message=command.message,
                    is_ours=command.is_ours,
                ),
            )
        case RecordOrphanGone():
            if known is None:
                return ()
            return (OrphanGone(cluster=command.cluster, object=command.object),)
        case RemoveOrphan():
            if known is None:
                raise Refused(
                    Reason.NOT_FOUND,
                    f"no orphan {command.object} is known in {command.cluster}",
                    "orphan",
                    Code.NOT_FOUND,
                )
            if not known.is_ours:
                raise _illegal(
                    f"{command.object} does not carry this log's mark: it may be another broker's,"
                    " and is not removed; who owns it must do that in the cluster"
                )
            if known.is_to_go:
                return ()
            return (OrphanRemovalOrdered(cluster=command.cluster, object=command.object),)


def evolve_orphans(
    region: RegionState, event: OrphanSeen | OrphanGone | OrphanRemovalOrdered, at: Moment
) -> tuple[KnownOrphan, ...]:
    """Return a region's orphans after one event."""
    known = region.orphan(event.cluster, event.object)
    others = tuple(one for one in region.orphans if one is not known)
    match event:
        case OrphanSeen():
            seen = KnownOrphan(
                cluster=event.cluster,
                object=event.object,
                message=event.message,
                is_ours=event.is_ours,
                since=at,
            )
            return (*others, seen)
        case OrphanGone():
            return others
        case OrphanRemovalOrdered():
            return others if known is None else (*others, replace(known, is_to_go=True))


def _illegal(message: str) -> Refused:
    return Refused(Reason.ILLEGAL_IN_STATE, message, code=Code.FAILED_PRECONDITION)
