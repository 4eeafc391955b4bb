"""``broker status``: where a run stands, why, since when, and what happens next.

The rule: every line can be read without knowing how the broker or a cluster works. Read
``lines_of`` first.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from broker.cli import words
from broker.cli.arguments import RUN
from broker.cli.cluster_words import named, telling
from broker.cli.session import Session
from broker.cli.verbs import verb
from broker.v1 import errors_pb2, placement_pb2, run_pb2, why_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

LABEL_WIDTH = 12
_ENDED = frozenset(
    {
        run_pb2.RUN_STATE_SUCCEEDED,
        run_pb2.RUN_STATE_FAILED,
        run_pb2.RUN_STATE_CANCELLED,
        run_pb2.RUN_STATE_REJECTED,
    }
)
Line = tuple[str, str]


@verb(example="broker status digits")
@click.argument("run", type=RUN, required=False)
def status(session: Session, run: str | None) -> None:
    """Say where RUN stands, why, since when, where it waits and what is ahead, and what is next.

    Without RUN, each run of the team that has not ended is said in a few words.
    """
    if run is None:
        _all(session)
        return
    found = session.client.runs.get(session.run_name(run))
    if session.is_json:
        session.show_json(found)
        return
    session.say(rendered(found, session.now_s))


def _all(session: Session) -> None:
    found = session.client.runs.find(session.team, query="state = ACTIVE")
    if session.is_json:
        session.show_json(found)
        return
    if not found.runs:
        session.say(f"no run of team {session.team} is active; `broker ls` lists those that ended")
    for run in found.runs:
        session.say(f"{words.id_of(run.name)}: {headline(run, session.now_s)}")
        session.say(f"  {run.why.message}{_next(run.why, session.now_s)}")


def rendered(run: run_pb2.Run, now_s: float) -> str:
    """Return the whole answer."""
    head = f"{run.name}  {words.coloured(words.enum_name(run, 'state'))}"
    return "\n".join([head, *_aligned(lines_of(run, now_s))])


def headline(run: run_pb2.Run, now_s: float) -> str:
    """Return the state, where, and how far it came, in a few words."""
    parts = [words.enum_name(run, "state")]
    if run.draining:
        parts.append("(saving before it leaves)")
    place = where_it_is(run)
    if place:
        parts.append(f"in {place}")
    step = step_of(run)
    if step is not None:
        parts.append(f"at step {step}")
    parts.append(f"for {words.span(now_s - words.wall_s(run.why.since_time))}")
    return " ".join(parts)


def lines_of(run: run_pb2.Run, now_s: float) -> "Iterator[Line]":
    """Yield each label with what is said under it."""
    is_over = run.state in _ENDED
    stage = words.enum_name(run, "state")
    yield "stage", f"{stage}, saving before it leaves" if run.draining else stage
    yield "why", f"{run.why.message} ({words.enum_name(run.why, 'reason')})"
    yield "since", words.ago(run.why.since_time, now_s)
    for placement in run.placements:
        if placement.state != placement_pb2.PLACEMENT_STATE_ENDED:
            yield "where", _standing(placement, words.id_of(run.name), now_s)
    yield from _before(run, now_s)
    if not is_over:
        idle = (
            "nothing: it trains until its command ends" if run.HasField("progress") else "nothing"
        )
        yield "next", f"{run.why.next_action or idle}{_when(run.why, now_s)}"
    yield from _training(run, now_s)
    yield from _limits(run, is_over)
    yield from _times(run, now_s, is_over)
    helps = [p.cluster_word.advice for p in telling(run) if p.cluster_word.advice]
    for sentence in dict.fromkeys([*run.advice, *helps]):
        yield "advice", sentence


def _aligned(lines: "Iterable[Line]") -> "Iterator[str]":
    last = ""
    for label, text in lines:
        yield f"  {'' if label == last else label:<{LABEL_WIDTH}}{text}"
        last = label


def _before(run: run_pb2.Run, now_s: float) -> "Iterator[Line]":
    """Yield how a run that waits lost the place that it had last, or gave it up."""
    if run.state in _ENDED or run.state == run_pb2.RUN_STATE_RUNNING:
        return
    beaten = errors_pb2.REASON_OTHER_LEG_STARTED  # it had lost nothing, and another one was sooner
    left = [each for each in run.placements if each.end and each.why.reason != beaten]
    if left:
        last = max(left, key=lambda each: words.wall_s(each.state_time))
        said = last.why.message.removeprefix(f"{last.place.region}: ")
        why = f"{said} ({words.enum_name(last.why, 'reason')})"
        yield "before", f"{last.place.region}, {words.ago(last.state_time, now_s)}: {why}"


def _standing(placement: placement_pb2.Placement, run: str, now_s: float) -> str:
    place, why = placement.place, placement.why
    here = (
        f"{place.region}: {words.kind(placement, 'state')} for"
        f" {words.span(now_s - words.wall_s(placement.state_time))},"
        f" {words.counted(placement.gpus, 'GPU')} {words.kind(place)}"
        f" at {words.dollars(placement.price_per_gpu_hour)} a GPU-hour"
    )
    said = [here]
    is_running = placement.state == placement_pb2.PLACEMENT_STATE_RUNNING
    if not is_running:
        waits_for = (why.message or words.enum_name(why, "reason")).removeprefix(
            f"{place.region}: "
        )
        said.append(f"{waits_for}{ahead(placement, waits_for)}")
    said += named(placement, run)
    if placement.HasField("expected_time"):
        said.append(f"expected {words.until(placement.expected_time, now_s)}")
    if placement.HasField("machines_end_time"):
        said.append(f"its machines end {words.until(placement.machines_end_time, now_s)}")
    if placement.purpose == placement_pb2.PURPOSE_SUCCESSOR and not is_running:
        said.append("the run goes on there when its present machines end")
    if placement.HasField("withdrawal"):
        said.append(f"being taken out: {placement.withdrawal.message}")
    if placement.HasField("stuck") and placement.cluster_uid and not placement.cluster_word.object:
        said.append(f"to look at it: {placement.cluster_uid} in {place.cluster}/{place.queue}")
    return "; ".join(said)


def ahead(placement: placement_pb2.Placement, said_before: str = "") -> str:
    """Return what is ahead of a placement, or how much of it has come, but nothing twice."""
    arrival = placement.arrival
    said = []
    if arrival.ahead:
        gpus = f" asking for {arrival.ahead_gpus} GPUs" if arrival.HasField("ahead_gpus") else ""
        said.append(f"{words.counted(arrival.ahead, 'gang')} ahead{gpus}")
    is_in_line = placement.state == placement_pb2.PLACEMENT_STATE_QUEUED
    is_known = arrival.HasField("nodes_here") and arrival.HasField("nodes_wanted")
    if is_known and not is_in_line:
        here = f"{arrival.nodes_here} of {arrival.nodes_wanted} machines"
        if here not in said_before:
            said.append(f"{here} are there")
    return f" ({'; '.join(said)})" if said else ""


def _when(why: why_pb2.Why, now_s: float) -> str:
    if not why.next_action:
        return ""
    return f", {words.until(why.next_time, now_s)}" if why.HasField("next_time") else ""


def _next(why: why_pb2.Why, now_s: float) -> str:
    return f"; next: {why.next_action}{_when(why, now_s)}" if why.next_action else ""


def _training(run: run_pb2.Run, now_s: float) -> "Iterator[Line]":
    is_old = run.state != run_pb2.RUN_STATE_RUNNING and _has_saved_since(run)
    if run.HasField("progress") and not is_old:
        loss = f", loss {run.progress.loss:.4g}" if run.progress.HasField("loss") else ""
        yield "step", f"{run.progress.step}{loss}, {words.ago(run.progress.time, now_s)}"
    if run.HasField("last_checkpoint"):
        saved = run.last_checkpoint
        held = ", ".join(saved.regions) or saved.home
        yield "saved", f"step {saved.step}, {words.ago(saved.write_time, now_s)}, in {held}"
    elif run.HasField("progress"):
        yield "saved", "nothing yet: a failure of the command would end the run"


def step_of(run: run_pb2.Run) -> int | None:
    """Return how far a run is known to have come, None before its first step.

    What a gang said last may be lost with its machines; what it saved after that is not.
    """
    if _has_saved_since(run):
        return run.last_checkpoint.step
    return run.progress.step if run.HasField("progress") else None


def _has_saved_since(run: run_pb2.Run) -> bool:
    saved, told = run.last_checkpoint, run.progress
    return run.HasField("last_checkpoint") and (saved.epoch, saved.step) > (told.epoch, told.step)


def _limits(run: run_pb2.Run, is_over: bool) -> "Iterator[Line]":
    restarts = run.restarts
    if not is_over:
        user = f"{restarts.user_restarts_left} ({restarts.user_failures} used)"
        lost = f"{restarts.infrastructure_losses_left} ({restarts.infrastructure_losses} used)"
        yield "restarts", f"left after failures of the command: {user}; after lost machines: {lost}"
    left = ""
    if run.spending.HasField("budget_left"):
        left = f", {words.dollars(run.spending.budget_left)} of the budget left"
    idle = words.idle(run.spending)
    waited = "" if idle == "$0.00" else f", {idle} of it for machines that waited for a start"
    so_far = "" if is_over else " so far"
    yield "price", f"{words.dollars(run.spending.cost)}{so_far}{waited}{left}"


def _times(run: run_pb2.Run, now_s: float, is_over: bool) -> "Iterator[Line]":
    owner = f" by {run.intent.owner}" if run.intent.owner else ""
    yield "submitted", f"{words.ago(run.create_time, now_s)}{owner}"
    if is_over:
        took = words.wall_s(run.end_time) - words.wall_s(run.create_time)
        yield (
            "ended",
            f"{words.ago(run.end_time, now_s)}, {words.span(took)} after it was submitted",
        )
    if run.HasField("time_to_useful_work"):
        yield "first step", f"{words.span_of(run.time_to_useful_work)} after it was submitted"
    if run.forked_from:
        yield "forked", f"from {run.forked_from}"


def where_it_is(run: run_pb2.Run) -> str:
    """Return the regions where a run trains, or else where it waits."""
    live = [p for p in run.placements if p.state != placement_pb2.PLACEMENT_STATE_ENDED]
    running = [p for p in live if p.state == placement_pb2.PLACEMENT_STATE_RUNNING]
    return ", ".join(dict.fromkeys(p.place.region for p in running or live))


def has_ended(run: run_pb2.Run) -> bool:
    """Whether a run is over."""
    return run.state in _ENDED
