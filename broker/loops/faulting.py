"""A person's wish that something goes wrong, carried into an embedded cluster.

The rule: only embedded clusters can be asked; any other refuses. Read ``inject`` first.
"""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from broker.history.refusals import Code, Refused
from broker.loops.outposts import Outpost
from broker.loops.sight import Sight
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
    flavors = tuple(facts.key.flavor for facts in sight.cluster(outpost.cluster).facts.flavors)
    done = []
    for fault in _faults(wish, flavors):
        outcome = await port.inject(fault)
        if not outcome.is_done:
            raise _refused(f"{outpost.cluster}: {outcome.message or 'it cannot be done'}")
        done.append(outcome.message)
    words = ", ".join(sentence for sentence in done if sentence)
    return f"{outpost.cluster}: {words or 'done'}"


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


def _refused(message: str) -> Refused:
    return Refused(reason=Reason.ILLEGAL_IN_STATE, message=message, code=Code.FAILED_PRECONDITION)
