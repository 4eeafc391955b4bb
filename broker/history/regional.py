"""The small streams: a region's policy and cordon, a team's caps, the broker's incarnations.

The rule is that of runs: decide returns events, evolve folds them, what already holds yields none.
A region or team that nobody has spoken of has a fresh state, so that every known one has a value.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import assert_never

from broker.history.codec import check_writable
from broker.history.events import Recorded
from broker.history.refusals import Code, IllegalMoveError, Refused
from broker.history.regional_commands import (
    AcceptStore,
    BeginIncarnation,
    BrokerCommand,
    CarrySpend,
    ClaimStore,
    CordonRegion,
    DoubtStore,
    DrainRegion,
    RecordCopyRate,
    RecordOrphan,
    RecordOrphanGone,
    RecordSurvey,
    RegionCommand,
    RemoveOrphan,
    SetCaps,
    SetPolicy,
    TeamCommand,
    UncordonRegion,
    WaiveRegion,
)
from broker.history.regional_events import (
    BrokerEvent,
    CapsSet,
    CopyRateMeasured,
    IncarnationBegan,
    OrphanGone,
    OrphanRemovalOrdered,
    OrphanSeen,
    PolicySet,
    RegionCordoned,
    RegionDrainBegan,
    RegionEvent,
    RegionSurveyed,
    RegionUncordoned,
    RegionWaived,
    SpendCarried,
    StoreAccepted,
    StoreClaimed,
    StoreDoubted,
    TeamEvent,
)
from broker.history.regional_places import decide_orphan, decide_store, evolve_orphans
from broker.history.regional_states import (
    BrokerState,
    KnownOrphan,
    RegionDrain,
    RegionState,
    StoreDoubt,
    TeamState,
)
from broker.model.copying import CopyRate, is_another
from broker.model.reasons import Reason
from broker.model.replacing import replace

# The states of the small streams are offered here too: one import serves who folds them.
__all__ = [
    "BrokerState",
    "KnownOrphan",
    "RegionDrain",
    "RegionState",
    "StoreDoubt",
    "TeamState",
    "decide_broker",
    "decide_region",
    "decide_team",
    "evolve_broker",
    "evolve_region",
    "evolve_team",
    "unseen_regions",
]


RATES_MAX = 200  # of one region: what is forgotten is measured again


def unseen_regions(
    broker: BrokerState, regions: Mapping[str, RegionState], known: Iterable[str]
) -> frozenset[str]:
    """Return the known regions that still stand between a restored broker and its first grant (R1).

    Empty in a log that was never restored.
    """
    if not broker.is_restored:
        return frozenset()
    waived = {r.id for r in regions.values() if r.waived_incarnation == broker.incarnation}
    return frozenset(known) - broker.surveyed - waived


def decide_region(
    region: RegionState,
    command: RegionCommand,
    incarnation: int,
    *,
    open_starts: Sequence[str] = (),
) -> tuple[RegionEvent, ...]:
    """Return what a command makes of a region, in the log's present incarnation.

    ``open_starts`` are the runs that have a start open there.
    """
    events = _decide_region(region, command, incarnation, open_starts)
    check_writable(events)
    return events


def _decide_region(
    region: RegionState, command: RegionCommand, incarnation: int, open_starts: Sequence[str]
) -> tuple[RegionEvent, ...]:
    match command:
        case SetPolicy():
            if command.policy == region.policy:
                return ()
            _check_etag(command.expected_generation, region.generation)
            return (PolicySet(policy=command.policy, generation=region.generation + 1),)
        case CordonRegion():
            if region.is_cordoned and region.cordon_message == command.message:
                return ()
            return (RegionCordoned(message=command.message),)
        case UncordonRegion():
            is_open = not region.is_cordoned and region.drain is None
            return () if is_open else (RegionUncordoned(),)
        case DrainRegion():
            drain = region.drain
            if drain is not None and (drain.message, drain.grace_s) == (
                command.message,
                command.grace_s,
            ):
                return ()
            return (RegionDrainBegan(message=command.message, grace_s=command.grace_s),)
        case WaiveRegion():
            is_waived = region.waived_incarnation == incarnation
            return () if is_waived else (RegionWaived(incarnation=incarnation),)
        case ClaimStore() | DoubtStore() | AcceptStore():
            return decide_store(region, command, open_starts)
        case RecordOrphan() | RecordOrphanGone() | RemoveOrphan():
            return decide_orphan(region, command)
        case RecordCopyRate():
            return _measure(region, command)
        case _:
            assert_never(command)


def _measure(region: RegionState, command: RecordCopyRate) -> tuple[RegionEvent, ...]:
    """Note a rate where forecasts would be others: copies come by the minute, for years."""
    rate = command.bytes_per_s
    known = region.copy_rate(command.kind, command.source)
    if not (isfinite(rate) and rate > 0.0) or not is_another(known, rate):
        return ()
    return (CopyRateMeasured(kind=command.kind, source=command.source, bytes_per_s=rate),)


def evolve_region(region: RegionState, recorded: Recorded) -> RegionState:
    """Return the region after one event; raise IllegalMoveError for one of another stream."""
    event = recorded.event
    stamped = replace(region, stream_version=_next(region.stream_version, recorded))
    match event:
        case PolicySet():
            return replace(stamped, policy=event.policy, generation=event.generation)
        case RegionCordoned():
            return replace(stamped, is_cordoned=True, cordon_message=event.message)
        case RegionUncordoned():
            return replace(stamped, is_cordoned=False, cordon_message="", drain=None)
        case RegionDrainBegan():
            drain = RegionDrain(message=event.message, grace_s=event.grace_s, began=recorded.at)
            return replace(stamped, is_cordoned=True, cordon_message=event.message, drain=drain)
        case RegionWaived():
            return replace(stamped, waived_incarnation=event.incarnation)
        case StoreClaimed():
            return replace(stamped, store=event.store, doubt=None)
        case StoreDoubted():
            doubt = StoreDoubt(reason=event.reason, message=event.message)
            return replace(stamped, doubt=doubt)
        case StoreAccepted():
            return replace(stamped, store="", doubt=None)
        case OrphanSeen() | OrphanGone() | OrphanRemovalOrdered():
            return replace(stamped, orphans=evolve_orphans(region, event, recorded.at))
        case CopyRateMeasured():
            return replace(stamped, copy_rates=_with_rate(region, event))
        case _:
            raise _stranger(recorded)


def _with_rate(region: RegionState, event: CopyRateMeasured) -> tuple[CopyRate, ...]:
    rate = CopyRate(kind=event.kind, source=event.source, bytes_per_s=event.bytes_per_s)
    others = (o for o in region.copy_rates if (o.kind, o.source) != (event.kind, event.source))
    return (*others, rate)[-RATES_MAX:]


def decide_team(team: TeamState, command: TeamCommand) -> tuple[TeamEvent, ...]:
    """Return what a command makes of a team."""
    events = _decide_team(team, command)
    check_writable(events)
    return events


def _decide_team(team: TeamState, command: TeamCommand) -> tuple[TeamEvent, ...]:
    match command:
        case SetCaps():
            if command.caps == team.caps:
                return ()
            _check_etag(command.expected_generation, team.generation)
            return (CapsSet(caps=command.caps, generation=team.generation + 1),)
        case CarrySpend():
            return (SpendCarried(usd=command.usd, runs=command.runs),)
        case _:
            assert_never(command)


def evolve_team(team: TeamState, recorded: Recorded) -> TeamState:
    """Return the team after one event; raise IllegalMoveError for one of another stream."""
    event = recorded.event
    stamped = replace(team, stream_version=_next(team.stream_version, recorded))
    match event:
        case CapsSet():
            return replace(stamped, caps=event.caps, generation=event.generation)
        case SpendCarried():
            return replace(
                stamped,
                carried_usd=team.carried_usd + event.usd,
                carried_runs=team.carried_runs + event.runs,
            )
        case _:
            raise _stranger(recorded)


def decide_broker(broker: BrokerState, command: BrokerCommand) -> tuple[BrokerEvent, ...]:
    """Return what a command makes of the log's own life. Raise Refused to go back in it."""
    events = _decide_broker(broker, command)
    check_writable(events)
    return events


def _decide_broker(broker: BrokerState, command: BrokerCommand) -> tuple[BrokerEvent, ...]:
    match command:
        case BeginIncarnation():
            if command.incarnation == broker.incarnation:
                return ()
            if command.incarnation < broker.incarnation:
                raise Refused(
                    Reason.NEWER_INCARNATION, f"the log is in incarnation {broker.incarnation}"
                )
            began = IncarnationBegan(
                incarnation=command.incarnation,
                is_restored=command.is_restored,
                key=broker.key or command.key,
            )
            return (began,)
        case RecordSurvey():
            if command.region in broker.surveyed:
                return ()
            return (RegionSurveyed(region=command.region, incarnation=broker.incarnation),)
        case _:
            assert_never(command)


def evolve_broker(broker: BrokerState, recorded: Recorded) -> BrokerState:
    """Return the broker after one event; raise IllegalMoveError for one of another stream."""
    event = recorded.event
    stamped = replace(broker, stream_version=_next(broker.stream_version, recorded))
    match event:
        case IncarnationBegan():
            return replace(
                stamped,
                incarnation=event.incarnation,
                is_restored=event.is_restored,
                surveyed=frozenset(),
                began=recorded.at,
                key=event.key,
            )
        case RegionSurveyed():
            return replace(stamped, surveyed=broker.surveyed | {event.region})
        case _:
            raise _stranger(recorded)


def _check_etag(expected: int, present: int) -> None:
    if expected != present:
        raise Refused(
            Reason.ETAG_MISMATCH,
            f"it is at generation {present}: read it again",
            "etag",
            Code.ABORTED,
        )


def _next(stream_version: int, recorded: Recorded) -> int:
    if recorded.stream_version != stream_version + 1:
        raise IllegalMoveError(
            f"{recorded.stream}: version {recorded.stream_version} after {stream_version}"
        )
    return recorded.stream_version


def _stranger(recorded: Recorded) -> IllegalMoveError:
    name = type(recorded.event).__name__
    return IllegalMoveError(f"{recorded.stream}: {name} is no event of this stream")
