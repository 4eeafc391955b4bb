"""One way into history for every kind of stream: decide on it, fold it.

The rule: a stream's name says its kind (``teams/T/runs/R``, ``regions/R``, ``teams/T``,
``broker``), and this is the only place that looks. Read ``decide_on`` first.
"""

from broker.history.commands import (
    AcceptStore,
    BrokerCommand,
    Command,
    RegionCommand,
    RunCommand,
    SubmitRun,
    TeamCommand,
)
from broker.history.context import Context
from broker.history.decide import decide
from broker.history.events import Event, Recorded
from broker.history.evolve import evolve
from broker.history.regional import (
    BrokerState,
    RegionState,
    TeamState,
    decide_broker,
    decide_region,
    decide_team,
    evolve_broker,
    evolve_region,
    evolve_team,
    unseen_regions,
)
from broker.model.run import Run
from broker.store.picture import Draft, State

BROKER_STREAM = "broker"


class StrangeCommandError(TypeError):
    """A command was sent to a stream of another kind: a bug of the sender."""


def is_run_stream(stream: str) -> bool:
    """Return whether a stream is a run's."""
    return "/runs/" in stream


def load(stream: str, draft: Draft) -> State | None:
    """Return a stream's state as a batch sees it, None when it has not begun."""
    return draft.run(stream) if is_run_stream(stream) else draft.small(stream)


def decide_on(
    state: State | None, stream: str, command: Command, draft: Draft
) -> tuple[Event, ...]:
    """Return what a command makes of its stream. Raises Refused, or StrangeCommandError."""
    if is_run_stream(stream):
        run = state if isinstance(state, Run) else None
        return _decide_on_run(run, stream, command, draft)
    kind, _, name = stream.partition("/")
    if kind == "regions" and isinstance(command, RegionCommand):
        region = state if isinstance(state, RegionState) else RegionState(id=name)
        return decide_region(
            region,
            command,
            _broker(draft).incarnation,
            open_starts=_open_starts(name, draft) if isinstance(command, AcceptStore) else (),
        )
    if kind == "teams" and isinstance(command, TeamCommand):
        return decide_team(state if isinstance(state, TeamState) else TeamState(id=name), command)
    if kind == BROKER_STREAM and isinstance(command, BrokerCommand):
        return decide_broker(state if isinstance(state, BrokerState) else BrokerState(), command)
    raise StrangeCommandError(f"{type(command).__name__} is no command for {stream!r}")


def fold(state: State | None, recorded: Recorded) -> State:
    """Return a stream's state after one event. Raises IllegalMoveError."""
    stream = recorded.stream
    if is_run_stream(stream):
        return evolve(state if isinstance(state, Run) else None, recorded)
    kind, _, name = stream.partition("/")
    if kind == "regions":
        region = state if isinstance(state, RegionState) else RegionState(id=name)
        return evolve_region(region, recorded)
    if kind == "teams":
        return evolve_team(state if isinstance(state, TeamState) else TeamState(id=name), recorded)
    return evolve_broker(state if isinstance(state, BrokerState) else BrokerState(), recorded)


def _decide_on_run(
    run: Run | None, stream: str, command: Command, draft: Draft
) -> tuple[Event, ...]:
    if not isinstance(command, RunCommand):
        raise StrangeCommandError(f"{type(command).__name__} is no command for a run")
    if isinstance(command, SubmitRun):
        team = command.intent.team
        if command.name != stream:
            raise StrangeCommandError(f"{command.name!r} is not to be submitted to {stream!r}")
    else:
        team = stream.split("/")[1]
    context = Context(
        now=draft.now,
        team=draft.standing(team),
        unseen_regions=_unseen(draft),
    )
    return decide(run, command, context)


def _open_starts(region: str, draft: Draft) -> tuple[str, ...]:
    return tuple(
        sorted(
            run.name
            for run in draft.live_runs()
            if run.open_epoch is not None and run.open_epoch.region == region
        )
    )


def _unseen(draft: Draft) -> frozenset[str]:
    broker = _broker(draft)
    if not broker.is_restored:
        return frozenset()
    regions = {
        region: state
        for region in draft.known_regions
        if isinstance(state := draft.small(f"regions/{region}"), RegionState)
    }
    return unseen_regions(broker, regions, draft.known_regions)


def _broker(draft: Draft) -> BrokerState:
    state = draft.small(BROKER_STREAM)
    return state if isinstance(state, BrokerState) else BrokerState()
