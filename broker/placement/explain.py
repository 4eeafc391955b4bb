"""What a run waits for, in words: every offer, every refusal, the choice, and what happens next.

The rule: every wait has a reason, a sentence, a next action and a time for it (law 6). ``explain``
serves ExplainRun and validate_only; ``say_*`` are the sentences that the plan writes down.
"""

from dataclasses import dataclass

from broker.model.capacity import Offer, Refusal
from broker.model.intent import AfterMaxWait
from broker.model.moment import Moment
from broker.model.preparing import ResumeFrom
from broker.model.reasons import Reason
from broker.model.run import Placement, Purpose, Run, Why
from broker.model.states import PlacementState
from broker.placement.assess import assess, mismatches
from broker.placement.backoff import kept_last, ready_at_s
from broker.placement.choices import SayWait
from broker.placement.choose import Chosen, choose
from broker.placement.compare import Compared, compared
from broker.placement.content import image_word, prepared_words
from broker.placement.fit import NEVER, words_of
from broker.placement.group import Assessment
from broker.placement.hedge import waiting_legs
from broker.placement.ladder import RESERVE_UNKNOWN_S, climbs_at_s, last_rung
from broker.placement.nearest import is_seen, listed
from broker.placement.patience import HOLDING
from broker.placement.remedy import given_back_at_s, what_follows
from broker.placement.share import Blocked, Tally
from broker.placement.succession import leaves_at_s
from broker.placement.view import View
from broker.placement.wait import ends_s
from broker.placement.words import counted, duration, money, times, without_numbers

LOOK_S = 300.0  # news comes sooner; without any, each offer is looked at again this often
TURN_LOOK_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All there is to say. ``compared`` best first; ``chosen`` is what a plan would take now."""

    compared: tuple[Compared, ...]
    refusals: tuple[Refusal, ...]
    blocked: tuple[Blocked, ...]
    chosen: Offer | None
    wait: SayWait
    never_fits: bool

    @property
    def offers(self) -> tuple[Offer, ...]:
        """The offers, best first."""
        return tuple(one.offer for one in self.compared)


def explain(view: View, run: Run, now: Moment) -> Explanation:
    """Explain a run as it stands; one that is not in the view is explained as if submitted."""
    found = assess(view, run, now, None)
    tally = Tally(view)
    choice = choose(view, tally, run, found.offers, now)
    others = mismatches(view, run, now)
    legs, group = waiting_legs(run), view.group_of(run.name)
    survey, training = say_survey(view, now), say_training(view, run, now)
    if training is not None:
        wait = training
    elif survey is not None:
        wait = survey
    elif legs:
        wait = say_leg(view, run, legs, now)
    elif group is not None and group.line.head() != run.name:
        wait = say_turn(run, len(group.line) - 1, found.reserve_s, now)
    elif choice.offer is not None:
        wait = say_chosen(choice.offer, now)
    else:
        wait = say_no_place(view, run, found, choice, now)
    return Explanation(
        compared=compared(view, tally, run, found.offers, choice=choice, now=now),
        refusals=(*found.refusals, *others),
        blocked=choice.blocked,
        chosen=choice.offer,
        wait=wait,
        never_fits=bool(found.never),
    )


def say_survey(view: View, now: Moment) -> SayWait | None:
    """Say which regions a restored broker still looks for, None when it has seen them all (R1).

    Until then nothing is granted anywhere, so that this is what every run waits for.
    """
    unseen = sorted(one.region for one in view.regions.values() if not one.is_surveyed)
    if not unseen:
        return None
    silences = {facts.region: facts.silent_since_elapsed_s for facts in view.clusters.values()}
    # All regions are joined at once: those that do not answer keep the others waiting.
    silent = [
        f"{region}, silent for {duration(now.since(since_s))}"
        for region in unseen
        if (since_s := silences.get(region)) is not None
    ]
    return SayWait(
        reason=Reason.NOT_SEEN_SINCE_RESTORE,
        message=f"the broker was restored from a backup and looks for {listed(silent or unseen)}",
        next_action="nothing starts until each was seen whole, or ops say broker regions waive",
        next_at_s=now.elapsed_s + LOOK_S,
    )


def say_chosen(offer: Offer, now: Moment) -> SayWait:
    """Say that a place was found."""
    return SayWait(
        reason=Reason.WAITING_FOR_OFFER,
        message=f"a place was found: {why_there(offer)}",
        next_action="a leg is added there",
        next_at_s=now.elapsed_s,
    )


def why_there(offer: Offer) -> str:
    """Return the sentence why a run is sent to an offer."""
    soon = offer.forecast.p50_s
    when = "at an unknown time" if soon is None else f"in about {duration(soon)}"
    told = f"{_place(offer)}, start {when} ({offer.forecast.basis})"
    if offer.preparation.resume in _AT_A_PRICE:
        told += f"; {prepared_words(offer.preparation)}"
    return told


def _place(offer: Offer) -> str:
    kind = offer.capacity_type.value.lower().replace("_", "-")
    return (
        f"{counted(offer.gpus, 'GPU')} {kind} in {offer.region}"
        f" at {money(offer.price_per_hour)} an hour"
    )


def say_no_place(view: View, run: Run, found: Assessment, choice: Chosen, now: Moment) -> SayWait:
    """Say why a run has no leg."""
    not_before_s = ready_at_s(run)
    if not_before_s is not None and not_before_s > now.elapsed_s:
        return _pause(run, not_before_s)
    reason, message = _no_place(view, run, found, choice.blocked)
    usual, usual_s = "every offer is looked at again", LOOK_S
    if reason is Reason.NEVER_FITS:
        usual = "it fails, unless a place that could take it is seen by then"
        usual_s = max(1.0, gives_up_s(view, run, now) - now.elapsed_s)
    if choice.dearer is not None and choice.dearer_at_s is not None:
        usual = f"the dearer {_place(choice.dearer)} is taken, if no turn comes before"
        usual_s = max(1.0, choice.dearer_at_s - now.elapsed_s)
    action, at_s = next_step(run, found.reserve_s, now, usual, usual_s)
    return SayWait(reason=reason, message=message, next_action=action, next_at_s=at_s)


def _pause(run: Run, until_s: float) -> SayWait:
    """Say that a run is left alone for a while: by what failed last, its command or a start."""
    last, count = kept_last(run), times(run.user_failures)
    reason, message = Reason.COMMAND_FAILED, f"its command failed {count}, so it pauses"
    if last is not None and last.why.reason is not Reason.COMMAND_FAILED:
        reason = last.why.reason
        message = f"{last.why.message}; it failed {count}, so it pauses"
    return SayWait(
        reason=reason,
        message=message,
        next_action="it is started again",
        next_at_s=until_s,
    )


def gives_up_s(view: View, run: Run, now: Moment) -> float:
    """Return when a run that no place can ever take fails (broker seconds)."""
    since_s = run.why.since_s if run.why.reason is Reason.NEVER_FITS else now.elapsed_s
    return since_s + view.region("").policy.patience.quota_s


def say_turn(run: Run, others: int, reserve_s: float, now: Moment) -> SayWait:
    """Say that alike runs of higher rank go first."""
    action, at_s = next_step(
        run, reserve_s, now, "it goes as soon as those before it have", TURN_LOOK_S
    )
    return SayWait(
        reason=Reason.WAITING_FOR_TURN,
        message=f"runs like it wait too ({others} others), and go by priority, then age",
        next_action=action,
        next_at_s=at_s,
    )


def say_leg(view: View, run: Run, legs: list[Placement], now: Moment) -> SayWait:
    """Say what the most advanced leg waits for, and when that is judged stuck."""
    leg = max(legs, key=lambda some: (some.stuck is None, _STAGES.index(some.state.value)))
    others = len(legs) - 1
    more = f", and {others} more leg{'s' if others > 1 else ''} elsewhere" if others else ""
    reason, message = leg.why.reason, (leg.why.message or _fallback(leg)) + more
    unheard = _unheard(view, leg, now)
    if leg.state.value in _BEFORE_MACHINES and (lacking := image_word(view, run, leg)):
        reason, message = lacking[0], lacking[1] + more
    if unheard is not None:
        reason, message = unheard[0], unheard[1] + more
        action, at_s = "every other place is looked at again", now.elapsed_s + LOOK_S
    elif leg.stuck is None:
        action, at_s = what_follows(view, run, leg, now)
        if leg.epoch is not None and reason is Reason.AT_GATE:
            # Whole and granted: its next step is to begin, whatever max wait would bring.
            return SayWait(reason=reason, message=message, next_action=action, next_at_s=at_s)
    elif (back_s := given_back_at_s(view, leg)) is not None:
        action, at_s = "this one is given back; other places are looked at till then", back_s
    else:
        action, at_s = "every other place is looked at again", now.elapsed_s + LOOK_S
    action, at_s = next_step(run, RESERVE_UNKNOWN_S, now, action, max(1.0, at_s - now.elapsed_s))
    return SayWait(reason=reason, message=message, next_action=action, next_at_s=at_s)


def say_training(view: View, run: Run, now: Moment) -> SayWait | None:
    """Say of a run on machines with a planned end what follows, None where nothing is to be said.

    When they end is told as the time of what comes next, not in the sentence: it would age.
    """
    at_s, epoch = leaves_at_s(view, run), run.open_epoch
    if at_s is None or epoch is None or epoch.running_s is None or now.elapsed_s >= at_s:
        return None
    if epoch.stop is not None or epoch.drain is not None or run.ending is not None:
        return None
    return SayWait(
        reason=Reason.TRAINING,
        message=(
            f"Training in {epoch.region}, on machines that are given back as planned; "
            f"{_successor(run)}"
        ),
        next_action="it is asked to save, and goes on elsewhere",
        next_at_s=at_s,
    )


def _successor(run: Run) -> str:
    legs = [leg for leg in waiting_legs(run) if leg.purpose is Purpose.SUCCESSOR]
    if not legs:
        return "a successor is asked for in time"
    told = [f"{leg.site.region} ({_standing(leg)})" for leg in legs]
    return f"a successor waits in {listed(told)}"


def _standing(leg: Placement) -> str:
    kind = leg.site.capacity_type.value.lower().replace("_", "-")
    if leg.stuck is not None:
        return f"{kind}, stuck: {leg.stuck.reason.value.lower().replace('_', ' ')}"
    where = "whole at its gate" if leg.state is PlacementState.AT_GATE else "on its way"
    return f"{kind}, {where if leg.state in HOLDING else 'in line'}"


def _unheard(view: View, leg: Placement, now: Moment) -> tuple[Reason, str] | None:
    """Say that nobody hears of a leg, for what it was last heard to wait for may be long over."""
    facts = view.clusters.get(leg.site.key.cluster)
    if facts is None or facts.is_reachable or facts.silent_since_elapsed_s is None:
        return None
    if not facts.is_configured:
        return Reason.CLUSTER_UNREACHABLE, f"{facts.cluster} is not among the configured clusters"
    silent_s = now.since(facts.silent_since_elapsed_s)
    if silent_s < view.region(leg.site.region).policy.patience.cluster_silent_s:
        return None
    return Reason.CLUSTER_SILENT, f"{facts.cluster} has not answered for {duration(silent_s)}"


def next_step(
    run: Run, reserve_s: float, now: Moment, usual: str, usual_s: float
) -> tuple[str, float]:
    """Return what happens next by itself and when (broker seconds)."""
    at_s = now.elapsed_s + usual_s
    climb_s = climbs_at_s(run, reserve_s)
    if climb_s is not None and now.elapsed_s < climb_s < at_s:
        rung = f"{words_of(last_rung(run))} is tried as well"
        if len(run.terms.capacity_types) == 1:
            rung = "every accepted place is tried"
        return f"the wait is running out: {rung}, whatever it costs", climb_s
    until_s = ends_s(run)
    if until_s is not None and now.elapsed_s < until_s < at_s:
        return _AT_THE_END[run.terms.after_max_wait], until_s
    return usual, at_s


def is_news(old: Why, new: SayWait, now: Moment) -> bool:
    """Return whether a sentence says something that the last did not.

    A number that moved is no news by itself: who asks is told it as it is (``words.renumbered``).
    It is written again once the time that the last one promised has passed.
    """
    if (old.reason, old.next_action) != (new.reason, new.next_action):
        return True
    if old.next_at_s is None or old.next_at_s <= now.elapsed_s:
        return True
    return without_numbers(old.message) != without_numbers(new.message)


def _no_place(
    view: View, run: Run, found: Assessment, blocked: tuple[Blocked, ...]
) -> tuple[Reason, str]:
    if blocked:
        return blocked[0].reason, blocked[0].message
    if found.never:
        return Reason.NEVER_FITS, found.never
    passing = [one for one in found.refusals if one.reason not in NEVER]
    kinds = sorted({f"{one.region}: {one.message}" for one in passing})
    if passing:
        return Reason.WAITING_FOR_OFFER, "no place takes it now; " + listed(kinds)
    unseen = [facts for facts in view.clusters.values() if not is_seen(facts)]
    bare = sorted(each.cluster for each in unseen if each.is_reachable and not each.blind)
    hidden = sorted(each.cluster for each in unseen if each.cluster not in bare)
    who = f"; {listed(hidden)} could not be seen whole" if hidden else ""
    who += f"; no queue of {listed(bare)} may be used now" if bare else ""
    return Reason.WAITING_FOR_OFFER, "no place that was seen can take it" + who


def _fallback(leg: Placement) -> str:
    return f"{leg.why.reason.value.lower().replace('_', ' ')} in {leg.site.region}"


# What stands there costs nothing, and is not spoken of each time.
_AT_A_PRICE = frozenset({ResumeFrom.NEWEST_COPIED, ResumeFrom.OLDER_HERE})
_BEFORE_MACHINES = ("PREPARING", "QUEUED")
_STAGES = ("PREPARING", "QUEUED", "PROVISIONING", "AT_GATE", "RUNNING", "ENDED")
_AT_THE_END = {
    AfterMaxWait.FAIL: "the run ends: its max wait has passed",
    AfterMaxWait.KEEP_WAITING: "max wait has passed, the run goes on waiting",
    AfterMaxWait.LAST_RUNG: "max wait has passed, only the last rung is tried from then on",
}
