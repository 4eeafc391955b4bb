"""Flavors, clusters, runs and views for the tests of deciding: a test sets what it is about."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import count

from broker.model.capacity import ClusterFacts, FlavorFacts, FlavorKey, Signal, SignalKind
from broker.model.checkpoint import Checkpoint
from broker.model.intent import CapacityType, HardwareOption, Intent, Terms, Workload
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import Placement, Purpose, Run, Site, Why
from broker.model.states import PlacementState, RunState
from broker.placement.choices import AddLeg, Choice, Climb, Plan, SayWait
from broker.placement.view import View
from tests.builders import flat_egress

H100X8 = HardwareOption(accelerator="H100", accelerators_per_node=8, nodes=1)
ANY = tuple(CapacityType)


def at(elapsed_s: float) -> Moment:
    """Return a moment; the wall clock runs beside the broker's."""
    return Moment(elapsed_s=elapsed_s, wall_s=1_700_000_000.0 + elapsed_s)


def make_flavor(
    cluster: str = "alpha",
    *,
    flavor: str = "h100-spot",
    queue: str = "train",
    region: str = "",
    capacity_type: CapacityType = CapacityType.SPOT,
    price: str | None = "2",
    nominal: int | None = 64,
    reserved: int | None = 0,
    nodes_free: int | None = 0,
    ahead_gpus: int | None = 0,
    accelerator: str = "H100",
    max_nodes: int | None = None,
    startup_s: float | None = 60.0,
    max_run_s: float | None = None,
) -> FlavorFacts:
    return FlavorFacts(
        key=FlavorKey(cluster=cluster, queue=queue, flavor=flavor),
        region=region or f"{cluster}-region",
        accelerator=accelerator,
        accelerators_per_node=8,
        capacity_type=capacity_type,
        zones=(),
        price_per_gpu_hour=None if price is None else Decimal(price),
        nominal=nominal,
        reserved=reserved,
        used=reserved,
        borrowable=0,
        pending_ahead_gpus=ahead_gpus,
        pending_ahead=None if ahead_gpus is None else ahead_gpus // 8,
        nodes_free=nodes_free,
        nodes_coming=0,
        max_nodes=max_nodes,
        startup_s=startup_s,
        keeps_secrets=True,
        max_run_s=max_run_s,
    )


def make_cluster(*flavors: FlavorFacts, is_reachable: bool = True) -> ClusterFacts:
    return ClusterFacts(
        cluster=flavors[0].key.cluster,
        region=flavors[0].region,
        is_reachable=is_reachable,
        is_store_reachable=True,
        seen_elapsed_s=0.0,
        silent_since_elapsed_s=None if is_reachable else 0.0,
        flavors=flavors,
        stopped_queues=frozenset(),
        blind=(),
    )


def waiting_run(
    name: str = "run",
    *,
    team: str = "nlp",
    created_s: float = 0.0,
    hardware: tuple[HardwareOption, ...] = (H100X8,),
    terms: Terms | None = None,
) -> Run:
    """Return a run that was validated and waits for its first start."""
    moment = at(created_s)
    return Run(
        name=f"teams/{team}/runs/{name}",
        uid=f"uid{name}",
        intent=Intent(
            team=team,
            owner="ada",
            workload=Workload(command=("train",), hardware=hardware),
            terms=terms or Terms(capacity_types=ANY),
        ),
        request_id=name,
        created=moment,
        updated=moment,
        stream_version=2,
        state=RunState.QUEUED,
        why=Why(reason=Reason.WAITING_FOR_OFFER, message="", since_s=created_s),
        wait_began_s=created_s,
    )


def gang(nodes: int) -> tuple[HardwareOption, ...]:
    return (replace(H100X8, nodes=nodes),)


def leg_at(
    flavor: FlavorFacts,
    *,
    placement: str = "p00000000001",
    state: PlacementState = PlacementState.QUEUED,
    reason: Reason = Reason.WAITING_FOR_QUOTA,
    since_s: float = 0.0,
    nodes: int = 1,
    chance: float = 0.9,
    p50_s: float = 60.0,
) -> Placement:
    """Return a leg that waits at a flavor."""
    return Placement(
        id=placement,
        purpose=Purpose.FIRST,
        site=Site(
            key=flavor.key,
            region=flavor.region,
            capacity_type=flavor.capacity_type,
            hardware_index=0,
            nodes=nodes,
            gpus=8 * nodes,
            price_per_gpu_hour=flavor.price_per_gpu_hour or Decimal(0),
            forecast_p50_s=p50_s,
            forecast_p90_s=3.3 * p50_s,
            forecast_chance=chance,
        ),
        state=state,
        why=Why(reason=reason, message="", since_s=since_s),
        added_s=since_s,
        entered_s=since_s,
    )


def with_legs(run: Run, *legs: Placement) -> Run:
    return replace(run, placements={leg.id: leg for leg in legs})


def stuck(leg: Placement, cause: Reason, since_s: float) -> Placement:
    return replace(leg, stuck=Why(reason=cause, message="", since_s=since_s))


def no_checkpoints(run: Run) -> tuple[Checkpoint, ...]:
    """Answer ``Resumable`` for runs that never saved."""
    return ()


def make_view(*clusters: ClusterFacts, runs: Iterable[Run] = ()) -> View:
    view = View(no_checkpoints, flat_egress)
    for facts in clusters:
        view.apply_cluster(facts)
    for run in runs:
        view.apply_run(run)
    return view


def ids(prefix: str = "n") -> Iterator[str]:
    return (f"{prefix}{number:011d}" for number in count())


def legs_of(plan: Plan) -> list[tuple[str, str]]:
    """Return (run id, cluster) of each leg that a plan adds, in its order."""
    return [
        (name.rpartition("/")[2], choice.site.key.cluster)
        for name, choice in plan.choices
        if isinstance(choice, AddLeg)
    ]


def signal(
    flavor: FlavorFacts, kind: SignalKind, elapsed_s: float, wait_s: float | None = None
) -> Signal:
    return Signal(key=flavor.key, kind=kind, elapsed_s=elapsed_s, source="test", wait_s=wait_s)


def apply_plan(view: View, plan: Plan, now: Moment) -> None:
    """Do to the view what the log's events would: legs are added, waits told, ladders climbed."""
    view.settle(plan)
    for name, choice in plan.choices:
        view.apply_run(_evolved(view.runs[name], choice, now))


def _evolved(run: Run, choice: Choice, now: Moment) -> Run:
    match choice:
        case AddLeg():
            leg = Placement(
                id=choice.placement,
                purpose=choice.purpose,
                site=choice.site,
                state=PlacementState.QUEUED,
                why=Why(reason=Reason.WAITING_FOR_QUOTA, message="", since_s=now.elapsed_s),
                added_s=now.elapsed_s,
                entered_s=now.elapsed_s,
            )
            return replace(run, placements={**run.placements, leg.id: leg})
        case SayWait():
            why = Why(
                reason=choice.reason,
                message=choice.message,
                since_s=now.elapsed_s,
                next_action=choice.next_action,
                next_at_s=choice.next_at_s,
            )
            return replace(run, why=why)
        case Climb():
            return replace(run, climbed=True)
