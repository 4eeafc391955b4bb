"""A person's wish that something goes wrong, carried into an embedded cluster.

The rule: only embedded clusters can be asked; any other refuses. Read ``inject`` first.
"""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from broker.history.refusals import Code, Refused
from broker.loops.outposts import Outpost
from broker.loops.sight import ClusterSight, Sight
from broker.model import faults as wishes
from broker.model.faults import Fault
from broker.model.reasons import Reason
from regions.cluster import Outcome
from regions.local import faults


@runtime_checkable
class Injectable(Protocol):
    """A cluster that lets faults be made."""

    async def inject(self, fault: faults.Fault) -> Outcome:
        """Let something go wrong."""
        ...


async def inject(outpost: Outpost, sight: Sight, wish: Fault) -> str:
    """Carry a wish out; return what was done, in a sentence. Raises Refused."""
    port = outpost.port
    if not isinstance(port, Injectable):
        raise _refused(f"{outpost.cluster} is not embedded: nothing can be made to go wrong in it")
    seen = sight.cluster(outpost.cluster)
    flavors = tuple(facts.key.flavor for facts in seen.facts.flavors)
    _check_named(outpost.cluster, seen, wish, flavors)
    done = []
    for fault in _faults(wish, flavors):
        outcome = await port.inject(fault)
        if not outcome.is_done:
            raise _refused(f"{outpost.cluster}: {outcome.message or 'it cannot be done'}")
        done.append(outcome.message)
    words = ", ".join(sentence for sentence in done if sentence)
    return f"{outpost.cluster}: {words or 'done'}"


def _check_named(cluster: str, seen: ClusterSight, wish: Fault, flavors: tuple[str, ...]) -> None:
    """Refuse a flavor or a placement that is not there, where the cluster was seen whole."""
    if seen.observation is None or not seen.observation.is_whole:
        return
    flavor = getattr(wish, "flavor", "")
    if flavor and flavor not in flavors:
        known = ", ".join(sorted(set(flavors)))
        raise _not_found(f"{cluster}: there is no flavor {flavor!r}; these are: {known}")
    placement = getattr(wish, "placement", "")
    if placement and placement not in seen.observation.placements:
        raise _not_found(f"{cluster}: there is no placement {placement!r}")


def _faults(wish: Fault, flavors: tuple[str, ...]) -> Iterator[faults.Fault]:
    """Yield what a cluster is to be told; an empty flavor means each one."""
    match wish:
        case wishes.Stockout():
            yield from (faults.Stockout(flavor=f) for f in _named(wish.flavor, flavors))
        case wishes.PartialArrival():
            yield from (
                faults.Partial(flavor=f, nodes=wish.nodes) for f in _named(wish.flavor, flavors)
            )
        case wishes.Preemption(placement=placement) if placement:
            yield faults.Preempt(placement=placement, notice_s=wish.notice_s)
        case wishes.Preemption():
            yield from (
                faults.Preempt(flavor=f, notice_s=wish.notice_s)
                for f in _named(wish.flavor, flavors)
            )
        case wishes.Outage():
            yield faults.Outage(duration_s=wish.duration_s)
        case wishes.Slowness():
            yield faults.Slow(delay_ms=round(wish.delay_s * 1000))
        case wishes.Restoration():
            yield faults.Restore()


def _named(flavor: str, flavors: tuple[str, ...]) -> tuple[str, ...]:
    return (flavor,) if flavor else flavors


def _not_found(message: str) -> Refused:
    return Refused(reason=Reason.NOT_FOUND, message=message, code=Code.NOT_FOUND)


def _refused(message: str) -> Refused:
    return Refused(reason=Reason.ILLEGAL_IN_STATE, message=message, code=Code.FAILED_PRECONDITION)
