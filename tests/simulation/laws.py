"""The ten laws, as somebody can check them who stands outside of the broker.

The rule: each checker is named after its law, takes what really happened, and yields a sentence for
each breach. None asks the broker what it believes. Read ``law_1_one_gang_counts`` first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from broker.history.events import (
    CheckpointMarked,
    DrainAcknowledged,
    DrainRequested,
    EpochAdopted,
    EpochStarted,
    Granted,
    Recorded,
    Resumed,
    Sealed,
    StopOrdered,
    Warned,
)
from broker.model.actor import ActorKind
from broker.model.reasons import Reason
from broker.model.run import CloseRule, Run
from broker.model.states import RunState
from broker.store.streams import fold
from regions.launcher import layout
from tests.fakes.checkpoints import marker_of
from tests.fakes.region_store import Objects, Stored
from tests.simulation.record import GangTruth, Record, RunTruth, Save

if TYPE_CHECKING:
    from tests.simulation.processes import Process

YIELDS_S = 100.0  # stores are asked for newer lives once in a minute when nothing goes on
SEEN_WITHIN_S = 20.0  # a grant rests on a look that is 5 s old at most, and looks take their time
WAITING = (RunState.QUEUED, RunState.STARTING)


def law_1_one_gang_counts(record: Record, gang: GangTruth) -> Iterator[str]:
    """No two gangs of one run run its program at once, unless a region was given up by name."""
    for other in record.training(gang.run_key):
        if other is gang or record.is_given_up(other) or record.is_given_up(gang):
            continue
        if record.is_unsure(other) or record.is_unsure(gang):
            continue
        yield (
            f"{gang.placement} of {gang.epoch} in {gang.place} begins while {other.placement} of"
            f" {other.epoch} in {other.place} trains"
        )


def law_1_a_closed_start_stays_closed(record: Record, gang: GangTruth) -> Iterator[str]:
    """Nobody begins under an epoch that a log closed with proof."""
    seal = record.runs[gang.run_key].seals.get(gang.epoch)
    if seal is not None and seal.rule is not CloseRule.UNREACHABLE and not record.is_unsure(gang):
        yield f"{gang.placement} begins under {gang.epoch}, which was closed by {seal.rule}"


def law_1_only_a_finished_run_succeeds(record: Record, uid: str, last: str) -> Iterator[str]:
    """A run is a success only when the start that counts, ``last``, did its last step."""
    if (uid, last) not in record.finished:
        yield f"it succeeded, and its last start {last} never finished"


def law_1_who_can_hear_stops(process: Process, told_s: float, now_s: float) -> Iterator[str]:
    """A process that is told to stop, and can hear it, stops within its grace."""
    bound_s = process.spec.stop_grace_s + 15.0
    if now_s - told_s > bound_s:
        yield f"{process.member} trains {now_s - told_s:.0f} s after its fence"


def law_1_the_older_broker_yields(incarnation: int, region: str, shown_s: float) -> Iterator[str]:
    """A broker that can see a newer one of its data in a store goes on no more."""
    if shown_s > YIELDS_S:
        yield f"life {incarnation} works on, and {region} shows a newer one for {shown_s:.0f} s"


def law_1_what_is_owed_is_written(gang: GangTruth, objects: Objects) -> Iterator[str]:
    """Nothing is owed to a gang that was given up only once it was told, or is gone."""
    fence = layout.RunKeys(gang.run_key).fence(gang.grant.epoch)
    if gang.ranks and objects.get(fence) is None:
        yield f"{gang.epoch} was given up and trains on, and nobody told its gang"


def law_2_nothing_accepted_is_lost(
    record: Record, runs: Mapping[str, Run], *, since_s: float | None
) -> Iterator[str]:
    """Every submit that was answered is in the log. ``since_s``: when a restored backup was taken;
    what came after it may be lost."""
    for acked in record.acked.values():
        is_owed = since_s is None or acked.at_s < since_s
        if is_owed and acked.name not in runs:
            yield f"{acked.name} was accepted at {acked.at_s:.0f} and is gone"


def law_2_a_request_makes_one_run(record: Record, request_id: str, name: str) -> Iterator[str]:
    """A submit that is repeated gives the same run."""
    known = record.acked.get(request_id)
    if known is not None and known.name != name:
        yield f"request {request_id} made {known.name}, and now {name}"


def law_2_only_what_is_old_leaves(
    truth: RunTruth, now_s: float, retention_s: float
) -> Iterator[str]:
    """A run leaves the log only when it has been over for as long as runs are kept."""
    if truth.ended_s is None or now_s - truth.ended_s < retention_s - 1.0:
        yield f"{truth.name} leaves the log, and ended at {truth.ended_s}"


def law_3_the_log_is_the_truth(
    stream: str, told: list[Recorded], there: list[Recorded], state: object
) -> Iterator[str]:
    """What a life made durable is what the next one finds, and folds to what it believes."""
    if told != there:
        yield f"{stream}: {len(told)} events were made durable, and {len(there)} are found"
        return
    folded = None
    for recorded in there:
        folded = fold(folded, recorded)
    if state is not None and folded != state:
        yield f"{stream}: its state is not what its events make of it"


def law_4_a_start_rests_on_what_was_sealed(
    record: Record, gang: GangTruth, objects: Objects
) -> Iterator[str]:
    """A gang resumes from a sealed checkpoint that stands whole in its store, or from nothing."""
    path = gang.grant.resume_from
    if path is None:
        return
    found = layout.checkpoint_of(path)
    if found is None:
        yield f"it resumes from {path}, which names no checkpoint"
        return
    epoch, step = found
    # A fork's seed lies with its parent. One that was complete while its parent trained is in the
    # parent's seal, whenever that comes.
    owner = path.split("/")[1]
    seal = record.runs[owner].seals.get(epoch.name)
    counted = [] if seal is None else [ref for ref in seal.checkpoints if ref.step == step]
    is_forked_early = owner != gang.run_key and seal is None
    if not counted and not is_forked_early:
        yield f"it resumes from step {step} of {epoch.name}, which no seal counts"
    save = (owner, epoch.name, step)
    if seal is not None and record.saved_s.get(save, 0.0) > seal.at_s:
        yield f"it resumes from step {step} of {epoch.name}, saved after the seal"
    damage = record.damages.get((gang.place, save))
    granted_s = record.runs[gang.run_key].granted_s.get(gang.epoch, 0.0)
    if damage is None:
        yield from _whole(record, save, path, objects.get)
    elif damage.is_visible and granted_s > damage.at_s + SEEN_WITHIN_S:
        for sentence in _whole(record, save, path, objects.get):
            yield f"{sentence}; it was granted {granted_s - damage.at_s:.0f} s after the damage"


def save_of(path: str) -> Save:
    """Return which save lies at a path."""
    found = layout.checkpoint_of(path)
    assert found is not None
    return path.split("/")[1], found[0].name, found[1]


def is_whole(record: Record, save: Save, get: Callable[[str], Stored | None]) -> bool:
    """Return whether a copy is there as it was saved."""
    uid, epoch, step = save
    path = f"{layout.RunKeys(uid).root}{epoch}/checkpoints/step-{step}"
    return not any(True for _ in _whole(record, save, path, get))


def _whole(
    record: Record, save: Save, path: str, get: Callable[[str], Stored | None]
) -> Iterator[str]:
    files = record.saves.get(save)
    if files is None:
        yield f"it resumes from {path}, which was never complete"
        return
    wanted = {**files, ".complete": marker_of(files)}
    for name, data in wanted.items():
        stored = get(f"{path}/{name}")
        if stored is None or stored.data != data:
            yield f"it resumes from {path}, and {name} is not there as it was saved"


def law_4_only_a_person_begins_anew(stream: list[Recorded], *, is_fork: bool) -> Iterator[str]:
    """A start begins from nothing only while there was never anything, or when a person says so.

    ``stream`` ends with the grant. Where steps were marked bad nobody here says what is left.
    """
    has_past, is_asked, resumed_from = is_fork, False, dict[str, bool]()
    for one in stream[:-1]:
        match one.event:
            case Granted() | EpochAdopted():
                resumed_from[one.event.epoch.folder] = one.event.resume_from is not None
            case EpochStarted():
                has_past, is_asked = resumed_from.get(one.event.epoch.folder, False), False
            case Sealed():
                has_past = has_past or bool(one.event.checkpoints)
            case Resumed():
                is_asked = one.event.from_start and one.actor.kind is ActorKind.USER
            case CheckpointMarked() if one.event.is_bad:
                return
            case _:
                pass
    last = stream[-1].event
    if isinstance(last, Granted) and last.resume_from is None and has_past and not is_asked:
        yield f"{last.epoch.folder} begins from nothing, and nobody gave up what the run had"


def law_4_a_seal_counts_what_is_complete(
    record: Record, uid: str, epoch: str, steps: tuple[int, ...]
) -> Iterator[str]:
    """A seal names only checkpoints that were complete by then."""
    for step in steps:
        if (uid, epoch, step) not in record.saves:
            yield f"the seal of {epoch} counts step {step}, which is not complete"


def law_4_a_bad_step_is_not_resumed(
    record: Record, uid: str, epoch: str, step: int
) -> Iterator[str]:
    """A start granted after a step was marked bad does not resume from it."""
    if (epoch, step) in record.runs[uid].bad:
        yield f"a start is granted that resumes from step {step} of {epoch}, which was marked bad"


def law_5_no_anchor_no_restart(record: Record, gang: GangTruth) -> Iterator[str]:
    """After its own code failed without any complete checkpoint, a run starts again only when its
    user says so."""
    truth = record.runs[gang.run_key]
    for epoch, failure in truth.counted_failures().items():
        is_anchored = truth.is_fork or any(
            run_key == gang.run_key and record.saved_s[run_key, name, step] <= failure.at_s
            for run_key, name, step in record.saves
        )
        is_asked = truth.resumed_s >= failure.at_s
        is_later = epoch != gang.epoch and gang.began_s > failure.at_s
        if is_later and not (is_anchored or is_asked):
            yield f"{gang.epoch} begins though {epoch} failed by itself before any checkpoint"


def law_6_every_wait_is_explained(run: Run, now_s: float, began_s: float) -> Iterator[str]:
    """A run that waits has a reason, a sentence, and what happens next and when.

    ``began_s`` is when this life of the broker began: what fell due before is its to do from then.
    """
    if run.state not in WAITING:
        return
    why = run.why
    if why.reason is Reason.UNKNOWN or not why.message or not why.next_action:
        yield f"it waits as {run.state}: {why.reason} {why.message!r}, next {why.next_action!r}"
    elif why.next_at_s is None:
        yield f"it waits for {why.reason}, and no time says when {why.next_action!r}"
    elif run.state is RunState.QUEUED and max(why.next_at_s, began_s) < now_s - 120.0:
        late_s = now_s - why.next_at_s
        yield f"it waits for {why.reason}; {why.next_action!r} was due {late_s:.0f} s ago"


def law_7_caps_are_kept(record: Record, team: str) -> Iterator[str]:
    """The gangs of a team that run hold no more GPUs than its cap.

    A run that was submitted after the backup which was restored is not known to any log.
    """
    cap = record.caps.get(team)
    held = sum(
        gang.gpus
        for gang in record.gangs.values()
        if gang.ranks
        and record.runs[gang.run_key].team == team
        and record.runs[gang.run_key].name in record.log
        and not record.is_given_up(gang)
    )
    if cap is not None and held > cap:
        yield f"{team} runs on {held} GPUs where {cap} are allowed"


def law_7_restarts_are_counted(record: Record, uid: str, limit: int) -> Iterator[str]:
    """A run's own code fails at most once more often than it may be restarted, since its user last
    asked for a start: with that the count begins anew."""
    truth = record.runs[uid]
    failures = truth.counted_failures().values()
    counted = [one for one in failures if one.at_s > truth.resumed_s]
    if len(counted) > limit + 1:
        yield f"its own code failed {len(counted)} times where {limit} restarts are allowed"


def law_7_no_wait_ends_early(waited_s: float, allowed_s: float) -> Iterator[str]:
    """A run fails for its max wait only when it has really waited so long."""
    if waited_s < allowed_s - 1.0:
        yield f"its wait of {allowed_s:.0f} s was called over after {waited_s:.0f} s"


def law_8_a_gate_is_left(process: Process, now_s: float) -> Iterator[str]:
    """Nobody stands at a gate for much longer than its timeout."""
    stood_s = now_s - process.since_s
    if not process.is_training and not process.is_gone and process.grant is None:
        bound_s = process.spec.gate_timeout_s + 100.0
        if stood_s > bound_s:
            yield f"{process.member} has stood at its gate for {stood_s:.0f} s"


def law_8_nothing_is_held_for_what_is_over(
    placement: str, run: str, over_s: float
) -> Iterator[str]:
    """What a run held is given back soon after its end, while the cluster can be reached."""
    yield f"{placement} still holds capacity {over_s:.0f} s after {run} was over"


def law_9_silence_is_said(run: Run, cluster: str, began_s: float, silent_s: float) -> Iterator[str]:
    """A cluster or store that stopped answering is said, as an event, to who trains there.

    ``began_s`` is when it did, in broker time: what was said of an earlier silence is not of this.
    """
    told = [one for one in run.warnings if one.since_s >= began_s - 1.0]
    if not any(why.reason is Reason.CLUSTER_SILENT for why in told):
        yield f"{cluster} is silent for {silent_s:.0f} s, and {run.name} was not told"


def law_9_an_unheard_drain_is_said(stream: list[Recorded]) -> Iterator[str]:
    """A start that is stopped because nobody acknowledged its drain in time is said aloud."""
    asked: DrainRequested | None = None
    is_said = False
    for one in stream:
        match one.event:
            case DrainRequested():
                asked, is_said = one.event, False
            case Warned():
                is_said = is_said or one.event.reason is Reason.DRAIN_UNACKNOWLEDGED
            case DrainAcknowledged() | Sealed():
                asked = None
            case StopOrdered() if asked is not None and one.at.elapsed_s >= asked.deadline_s:
                if one.event.reason is asked.reason and not is_said:
                    yield f"nobody acknowledged the drain of {asked.epoch.folder}, or says so"
            case _:
                pass


def law_10_only_what_is_ours_and_over_goes(
    record: Record, run_key: str, placement: str, gangs: list[GangTruth]
) -> Iterator[str]:
    """An object goes only when a log knows it and gave it up, and never with a gang that counts."""
    truth = record.runs.get(run_key)
    if truth is None or placement not in truth.placements:
        yield f"{placement} of run key {run_key} is withdrawn, and no log knows it"
        return
    if placement not in truth.given_up:
        yield f"{placement} is withdrawn, and no log gave it up"
    for gang in gangs:
        if gang.ranks and not record.is_sealed(gang) and not record.is_unsure(gang):
            yield f"{placement} is withdrawn while its gang trains and counts"


def law_10_the_last_checkpoint_stays(
    record: Record, uid: str, epoch: str, step: int, others: Mapping[str, Objects]
) -> Iterator[str]:
    """The only complete checkpoint of a run that is not over is not removed."""
    truth = record.runs[uid]
    if truth.ended_s is not None:
        return
    for run_key, name, other in record.saves:
        if run_key != uid or (name, other) == (epoch, step):
            continue
        key = f"{layout.RunKeys(uid).root}{name}/checkpoints/step-{other}/.complete"
        if any(objects.get(key) is not None for objects in others.values()):
            return
    yield f"step {step} of {epoch} is removed, and it was the only complete checkpoint"
