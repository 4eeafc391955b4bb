"""What must be true of every run, whenever a command's events have been folded.

The rule: ``violations`` is cheap enough to be asked after every batch, and looks only at the run.
Between the events of one batch a run may be on its way (sealed, not yet requeued), so it is asked
after the last of them.
"""

from collections.abc import Iterator
from itertools import pairwise

from broker.history.prospects import NEWS_DECIDES
from broker.model.bill import NOTHING_PAID
from broker.model.run import Epoch, Run, Why
from broker.model.states import EpochState, PlacementState, RunState


def violations(run: Run) -> tuple[str, ...]:
    """Return a sentence for each broken invariant; empty when all hold."""
    checks = [_open_epoch, _wait, _whys, _end, _retirement]
    # Each command of every run is followed by this, and most runs lack most of what could be wrong.
    if run.epochs:
        checks.append(_epochs)
    if run.checkpoints or run.epochs:
        checks.append(_checkpoints)
    if run.placements:
        checks.append(_placements)
    found: list[str] = []
    for check in checks:
        found += check(run)
    found += _money(run)
    return tuple([f"{run.name}: {sentence}" for sentence in found])


def _epochs(run: Run) -> Iterator[str]:
    for former, latter in pairwise(run.epochs):
        if former.id.number >= latter.id.number:
            yield f"epoch {latter.id.number} follows {former.id.number}"
        if former.is_open:
            yield f"epoch {former.id.number} is open below {latter.id.number}"
    if run.epochs and run.next_epoch <= run.epochs[-1].id.number:
        yield f"the next epoch, {run.next_epoch}, was used already"
    for epoch in run.epochs:
        if (epoch.closed_s is not None) is epoch.is_open:
            yield f"epoch {epoch.id.number} is {epoch.state}, closed at {epoch.closed_s}"
        if (epoch.started_s is not None) is not bool(epoch.nonces):
            yield f"epoch {epoch.id.number} has started without nonces, or not with them"
        if epoch.state is EpochState.STOPPING and epoch.stop is None:
            yield f"epoch {epoch.id.number} is STOPPING and nobody ordered it"
        if epoch.is_owed and epoch.is_open:
            yield f"epoch {epoch.id.number} owes a fence before it is closed"


def _retirement(run: Run) -> Iterator[str]:
    if run.is_retiring and not run.is_ended:
        yield f"it is {run.state} while what it saved is being removed"


def _open_epoch(run: Run) -> Iterator[str]:
    epoch = run.open_epoch
    has_place = run.state in (RunState.STARTING, RunState.RUNNING)
    if has_place is not (epoch is not None):
        yield f"it is {run.state} with the open epoch {epoch.id if epoch else None}"
    if epoch is None:
        return
    if run.state is RunState.RUNNING and epoch.running_s is None:
        yield "it is RUNNING before every rank reported"
    yield from _place_of(run, epoch)


def _place_of(run: Run, epoch: Epoch) -> Iterator[str]:
    placement = run.placements.get(epoch.placement)
    if placement is None or not placement.is_live or placement.epoch != epoch.id:
        yield f"open epoch {epoch.id.number} has no live placement"
        return
    if (placement.state is PlacementState.RUNNING) is not (epoch.started_s is not None):
        yield f"placement {placement.id} is {placement.state}, its epoch {epoch.state}"
    if placement.withdraw is not None:
        yield f"placement {placement.id} is withdrawn under its open epoch"


def _placements(run: Run) -> Iterator[str]:
    epoch = run.open_epoch
    for placement in run.placements.values():
        if placement.is_live is not (placement.end is None):
            yield f"placement {placement.id} is {placement.state} with end {placement.end}"
        holds = epoch is not None and epoch.placement == placement.id
        # What was closed without being seen gone is on its way out.
        is_over = placement.is_live and placement.epoch is not None and not holds
        if is_over and placement.withdraw is None:
            yield f"placement {placement.id} keeps its capacity after its epoch was closed"
    if run.is_ended and run.waiting_placements:
        yield f"it has ended and placement {run.waiting_placements[0].id} still waits"
    keys = [(p.site.key, p.site.hardware_index) for p in run.waiting_placements]
    if len(set(keys)) != len(keys):
        yield "it waits twice in one place"


def _wait(run: Run) -> Iterator[str]:
    epoch = run.open_epoch
    has_started = epoch is not None and epoch.started_s is not None
    if (run.wait_began_s is None) is not (has_started or run.is_ended):
        yield f"it is {run.state} and its wait began at {run.wait_began_s}"
    if run.climbed and run.wait_began_s is None:
        yield "it climbed the ladder of a wait that is over"


def _whys(run: Run) -> Iterator[str]:
    """Law 6: whatever waits says for what, what comes next, and when."""
    whys: list[tuple[str, Why]] = []
    if not run.is_ended:
        whys.append((f"it is {run.state} and", run.why))
        if not run.why.message:
            yield f"it is {run.state}: {run.why.reason}, without a sentence"
    for leg in run.live_placements:
        said = (leg.why, leg.stuck, leg.withdraw)
        whys += [(f"placement {leg.id}", why) for why in said if why is not None]
    for who, why in whys:
        if not why.next_action:
            yield f"{who} waits for {why.reason} without a next action"
        if why.next_at_s is None and why.reason not in NEWS_DECIDES:
            yield f"{who} waits for {why.reason}, and no time says when {why.next_action!r}"


def _end(run: Run) -> Iterator[str]:
    if (run.ended is not None) is not run.is_ended:
        yield f"it is {run.state}, ended at {run.ended}"
    if run.ending is not None and run.open_epoch is None:
        yield "its end was decided and nothing is open to wait for"


def _checkpoints(run: Run) -> Iterator[str]:
    refs = [(c.ref.run_uid, c.ref.epoch, c.ref.step) for c in run.checkpoints]
    if len(set(refs)) != len(refs):
        yield "two checkpoints are one step of one epoch"
    epoch = run.open_epoch
    for checkpoint in run.checkpoints:
        is_of_open = epoch is not None and checkpoint.ref.epoch == epoch.id
        if checkpoint.is_sealed is is_of_open:
            yield f"checkpoint {checkpoint.ref.step} is sealed: {checkpoint.is_sealed}"
    yield from _resumed_from(run)


def _resumed_from(run: Run) -> Iterator[str]:
    epoch = run.open_epoch
    if epoch is None or epoch.resume_from is None:
        return
    found = next((c for c in run.checkpoints if c.ref == epoch.resume_from), None)
    if found is None or not found.is_sealed:
        yield f"epoch {epoch.id.number} resumes from a checkpoint that does not count"
    elif found.is_bad and epoch.stop is None:
        yield f"epoch {epoch.id.number} goes on from a step that was marked bad"


def _money(run: Run) -> Iterator[str]:
    for bill in (run.bill, *[p.bill for p in run.placements.values()]):
        if bill is NOTHING_PAID:
            continue
        cost, time = bill.cost, bill.time
        parts = (cost.provisioning, cost.at_gate, cost.running)
        if not all(part.is_finite() and part >= 0 for part in parts):
            yield f"its costs are {cost}"
        if min(time.provisioning_ms, time.at_gate_ms, time.running_ms) < 0:
            yield f"its accelerator time is {time}"
    for placement in run.live_placements:
        meter, paid = placement.meter, placement.meter.paid
        if min(meter.since_ms, paid.provisioning_ms, paid.at_gate_ms, paid.running_ms) < 0:
            yield f"placement {placement.id} has the meter {meter}"
        if not 0 <= meter.nodes <= placement.site.nodes:
            yield f"placement {placement.id} has {meter.nodes} of {placement.site.nodes} machines"
    if min(run.user_failures, run.infrastructure_losses) < 0:
        yield "a count of failures is negative"
