"""What happened, in one sentence, for the events that carry none of their own.

The rule: plain words, no Kubernetes; numbers come from the event alone, so that a timeline reads
the same for ever. Read ``sentence_for`` first.
"""

from decimal import Decimal

from broker.history import events as e
from broker.model.checkpoint import CheckpointRef
from broker.model.run import Arrival, CloseRule, Site
from broker.model.states import PlacementState
from broker.placement.words import money

_CENT = Decimal("0.01")
_STANDS = {
    PlacementState.PREPARING: "its content is on the way",
    PlacementState.QUEUED: "it waits in the queue",
    PlacementState.PROVISIONING: "admitted; machines are coming",
    PlacementState.AT_GATE: "the gang stands whole at its gate",
    PlacementState.RUNNING: "the gang runs",
    PlacementState.ENDED: "it is gone",
}
_CLOSED = {
    CloseRule.NEVER_STARTED: "it never started",
    CloseRule.SEEN_ENDED: "every rank was seen to end",
    CloseRule.FENCE_HEARD: "every rank stopped when told to",
    CloseRule.UNREACHABLE: "its region cannot be reached",
}


def sentence_for(event: e.RunEvent) -> str:
    """Return the event's own sentence, or one made from what it holds."""
    said = getattr(event, "message", "") or getattr(event, "evidence", "")
    return said or _made(event)


def _made(event: e.RunEvent) -> str:  # noqa: PLR0912 - one line for each kind of event
    match event:
        case e.Submitted():
            return f"forked from {event.forked_from}" if event.forked_from else "submitted"
        case e.Validated():
            runs = "" if event.image is None else f", and it runs {event.image.name}"
            return f"everything it names is there{runs}; it waits for a start"
        case e.TermsAmended():
            return "the terms were changed"
        case e.PlacementAdded():
            return f"a start is attempted in {_where(event.site)}"
        case e.PlacementPrepared():
            return "its content is in the region"
        case e.PlacementSeen():
            return _STANDS[event.state] + _came(event.arrival)
        case e.Granted():
            return f"start {event.epoch.number} may begin, {_from(event.resume_from)}"
        case e.EpochStarted():
            return f"start {event.epoch.number} passed its gate with {_ranks(len(event.nonces))}"
        case e.GangRunning():
            return "every rank runs the command"
        case e.Progressed():
            loss = "" if event.loss is None else f", loss {event.loss:.4g}"
            return f"step {event.step}{loss}"
        case e.CheckpointCompleted():
            return f"checkpoint of step {event.ref.step} is complete in {event.region}"
        case e.CheckpointRefused():
            return f"what it saved as step {event.step} is no checkpoint: {event.why}"
        case e.CheckpointCopied():
            cost = f" for {money(event.usd)}" if event.usd >= _CENT else ""
            return f"checkpoint of step {event.ref.step} is copied to {event.region}{cost}"
        case e.CheckpointLost():
            return f"the copy of step {event.ref.step} in {event.region} is gone"
        case e.CheckpointMarked():
            return f"checkpoint of step {event.ref.step} is marked{_marks(event)}"
        case e.CheckpointPruned():
            return f"checkpoint of step {event.ref.step} was removed by retention"
        case e.RetirementBegun():
            return "its time in the log is over: what it saved is removed, then the run"
        case e.DrainAcknowledged():
            saved = "nothing" if event.step is None else f"step {event.step}"
            return f"the training saved {saved}"
        case e.Sealed():
            return f"start {event.epoch.number} is closed: {_CLOSED[event.rule]}"
        case e.DebtPaid():
            return f"the stop owed to start {event.epoch.number} is written"
        case e.Resumed():
            return "brought back" + _resumed(event)
        case e.EpochAdopted():
            return f"start {event.epoch.number} was found running in {event.site.region}, and kept"
        case e.EpochsSkipped():
            return f"the next start has number {event.next_epoch}"
        case _:
            return ""


def _where(site: Site) -> str:
    kind = site.capacity_type.value.lower().replace("_", "-")
    return f"{site.region} ({site.gpus} GPUs, {kind})"


def _came(arrival: Arrival) -> str:
    if arrival.nodes_here is not None and arrival.nodes_wanted is not None:
        return f" ({arrival.nodes_here} of {arrival.nodes_wanted} machines)"
    if arrival.ahead_gpus is not None:
        return f" ({arrival.ahead_gpus} GPUs ahead)"
    return ""


def _from(ref: CheckpointRef | None) -> str:
    return "from the beginning" if ref is None else f"from step {ref.step}"


def _marks(event: e.CheckpointMarked) -> str:
    marks = (
        (event.is_bad, "bad", "good"),
        (event.is_pinned, "pinned", "not pinned"),
    )
    said = [yes if value else no for value, yes, no in marks if value is not None]
    if event.held_for:
        said.append(f"kept for {event.held_for}, which begins with it")
    if event.label is not None:
        said.append(f"with the label {event.label!r}")
    return (" " + ", ".join(said)) if said else ""


def _resumed(event: e.Resumed) -> str:
    if event.from_start:
        return ", from the beginning"
    return "" if event.step is None else f", from step {event.step}"


def _ranks(count: int) -> str:
    return "1 rank" if count == 1 else f"{count} ranks"
