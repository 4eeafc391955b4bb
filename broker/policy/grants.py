"""Who passes the gate: the first whole gang, or a single leg that has nothing to wait for.

The rule: one grant at a time, and only where it can be heard. A run with one leg whose start is as
good as sure gets its grant with its placement, so that it starts even while the broker is away. A
run that may yet be hedged is granted when a gang of it stands whole; the log withdraws the rest.
"""

from collections.abc import Collection, Iterator

from broker.history.commands import GrantPlacement, RunCommand, StopEpoch
from broker.history.lineage import is_within_reach
from broker.model.intent import CapacityType
from broker.model.moment import Moment
from broker.model.preparing import ResumeFrom
from broker.model.reasons import Reason
from broker.model.run import Placement, Purpose, Run
from broker.model.states import PlacementState, RunState
from broker.placement.content import preparation, stakes_of
from broker.placement.forecast import GATE_S
from broker.placement.hedge import waiting_legs
from broker.placement.view import View

_QUEUED = frozenset({PlacementState.QUEUED, PlacementState.PROVISIONING})


def grant(
    view: View, run: Run, now: Moment, nonces: Iterator[str], *, prepared: Collection[str]
) -> tuple[RunCommand, ...]:
    """Return the grant that is due, if one is; ``nonces`` yields fresh grant nonces.

    ``prepared`` are the legs that go into their queues just now.
    """
    if run.ending is not None:
        return ()
    whole = _first_whole(view, run)
    epoch = run.open_epoch
    if epoch is not None:
        if whole is None or epoch.started_s is not None or epoch.stop is not None:
            return ()
        message = f"the gang in {whole.site.region} is whole first"
        return (StopEpoch(reason=Reason.OTHER_LEG_STARTED, message=message),)
    if run.state is not RunState.QUEUED or not _may_grant(view):
        return ()
    leg = whole or _sure_leg(view, run, prepared)
    if leg is not None and _waits_for_a_copy(view, run, leg, now):
        return ()
    if leg is None or not _is_within_cap(view, run, leg):
        return ()
    return (GrantPlacement(placement=leg.id, nonce=next(nonces)),)


def _first_whole(view: View, run: Run) -> Placement | None:
    whole = [
        leg
        for leg in run.placements.values()
        if leg.is_waiting and leg.state is PlacementState.AT_GATE and _can_hear(view, run, leg)
    ]
    return min(whole, key=lambda leg: (leg.entered_s, leg.id), default=None)


def _waits_for_a_copy(view: View, run: Run, leg: Placement, now: Moment) -> bool:
    """Return whether a successor is to wait for what its predecessor saved last.

    It stood there before that was saved. Half of its time at the gate is what the copy may take,
    and it takes none where an older one that is there comes cheaper.
    """
    newest, last = view.newest(run), run.epochs[-1] if run.epochs else None
    if leg.purpose is not Purpose.SUCCESSOR or newest is None or last is None:
        return False
    if last.closed_s is None or leg.site.region in newest.regions:
        return False
    found = preparation(view, run, leg.site.region, stakes_of(view, run, leg))
    if found.resume is not ResumeFrom.NEWEST_COPIED:
        return False
    policy = view.region(leg.site.region).policy
    borne_s = min(policy.patience.content_s, 0.5 * policy.gate_timeout_s)
    return now.elapsed_s < last.closed_s + borne_s


def _sure_leg(view: View, run: Run, prepared: Collection[str]) -> Placement | None:
    """Return the single leg that may have its grant before it stands whole, or None."""
    legs = waiting_legs(run)
    if len(legs) != 1 or legs[0].stuck is not None:
        return None
    leg = legs[0]
    # Granted as it is queued, it waits with its own priority from the first moment on.
    if leg.state not in _QUEUED and leg.id not in prepared:
        return None
    p50_s = leg.site.forecast_p50_s
    # Its image is pulled by whatever machines it gets, which makes their coming no less sure.
    pull_s = view.pull_s(run, leg.site.region)
    nodes_were_free = p50_s is not None and p50_s <= GATE_S + pull_s
    is_paid = leg.site.capacity_type is CapacityType.RESERVED
    is_sure = nodes_were_free or is_paid or _is_only_place(view, run)
    return leg if is_sure and _can_hear(view, run, leg) else None


def _can_hear(view: View, run: Run, leg: Placement) -> bool:
    cluster = view.clusters.get(leg.site.key.cluster)
    is_heard = cluster is not None and cluster.is_reachable and cluster.is_store_reachable
    return is_heard and is_within_reach(run, leg.site.region)


def _is_only_place(view: View, run: Run) -> bool:
    places = [
        view.flavors[key]
        for option in run.intent.workload.hardware
        for key in view.keys_of.get(option.accelerator, ())
    ]
    accepted = [one for one in places if run.terms.accepts(one.region, one.capacity_type)]
    return len(accepted) == 1


def _may_grant(view: View) -> bool:
    """Nothing is granted after a restore until every region was read or waived (R1)."""
    return all(standing.is_surveyed for standing in view.regions.values())


def _is_within_cap(view: View, run: Run, leg: Placement) -> bool:
    standing = view.teams.get(run.intent.team)
    if standing is None:
        return True
    caps, running = standing.caps, view.load.team(run.intent.team).running_gpus
    has_gpus = caps.running_gpus is None or running + leg.site.gpus <= caps.running_gpus
    return has_gpus and (caps.budget is None or standing.spent < caps.budget)
