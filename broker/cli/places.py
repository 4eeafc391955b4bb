"""Where a run could go: ``explain`` one that is there, ``estimate`` one that is not, ``simulate``
what other terms would bring.

Read ``show_estimate`` first.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from broker.cli import words
from broker.cli.arguments import RUN
from broker.cli.cluster_words import explained
from broker.cli.options import intent_of, with_intent
from broker.cli.session import Session
from broker.cli.status import has_ended
from broker.cli.verbs import VerbWithCommand, verb
from broker.sdk.errors import Invalid
from broker.sdk.showing import as_json, dollars_of, seconds_of
from broker.v1 import intent_pb2, offer_pb2, run_pb2

if TYPE_CHECKING:
    from google.protobuf.message import Message

OFFERS = (
    *("", "REGION", "TYPE", "FLAVOR", "GPUS", "$/HOUR", "STARTS IN", "BY 90%"),
    *("WHY FIRST, OR NOT", "KNOWN BY"),
)
REFUSALS = ("REGION", "TYPE", "FLAVOR", "REASON", "WHY NOT")
GOES_NEXT = "where it would go next"
IF_RESUMED = "where it would go if it were resumed"
TRIES = ("TERMS", "WOULD GO TO", "STARTS IN", "BY 90%", "$/HOUR", "PLACES")


@verb(example="broker explain digits")
@click.argument("run", type=RUN)
def explain(session: Session, run: str) -> None:
    """Say of every place whether RUN could start there, when and at what price, or why not."""
    answer = session.client.runs.explain(session.run_name(run))
    if session.is_json:
        session.show_json(answer)
        return
    found = answer.run
    session.say(
        f"{words.id_of(found.name)}: {words.enum_name(found, 'state')}, {found.why.message}"
    )
    for line in explained(found):
        session.say(line)
    # What was said above is not said twice, and to a run that trains or is over no place was found.
    is_over = has_ended(found)
    is_elsewhere = is_over or found.state == run_pb2.RUN_STATE_RUNNING
    if is_elsewhere or answer.estimate.summary == found.why.message:
        answer.estimate.summary = ""
    show_estimate(session, answer.estimate, answer, star=IF_RESUMED if is_over else GOES_NEXT)


@verb(
    kind=VerbWithCommand,
    example="""
    broker estimate intent.yaml
    broker estimate --hardware 8xH100 --capacity spot --capacity flex -- python train.py
    """,
)
@with_intent
def estimate(session: Session, **said: Any) -> None:
    """Say where a run would go, at what price and how soon. Nothing is submitted."""
    found = intent_of(said)
    answer = session.client.runs.validate(found.team or session.team, found.message)
    show_estimate(session, answer.estimate, answer)
    expected = found.message.terms.expected_duration
    offers = answer.estimate.offers
    best = next((offer for offer in offers if offer.chosen), next(iter(offers), None))
    if not session.is_json and best is not None and seconds_of(expected):
        hours = Decimal(seconds_of(expected)) / 3600
        cost = Decimal(dollars_of(best.price_per_hour)) * hours
        session.say(f"{words.span_of(expected)} of training there would cost about ${cost:.2f}")


def show_estimate(
    session: Session, found: offer_pb2.Estimate, whole: "Message", *, star: str = GOES_NEXT
) -> None:
    """Show offers, best first, and refusals with their reasons; ``star`` is what a star means."""
    if session.is_json:
        session.show_json(whole)
        return
    if found.summary:
        session.say(found.summary)
    if found.offers:
        session.say()
        session.say(words.table(OFFERS, [_offer(offer) for offer in found.offers]))
        if any(offer.chosen for offer in found.offers):
            session.say(f"* {star}")
        for line in prepared(found.offers):
            session.say(line)
    if found.refusals:
        session.say()
        session.say(words.table(REFUSALS, [_refusal(refusal) for refusal in found.refusals]))


def prepared(offers: Iterable[offer_pb2.Offer]) -> list[str]:
    """Return a line for each region that says what a start there takes first."""
    told = {(offer.place.region, offer.preparation.message): None for offer in offers}
    return [f"in {region}: {message}" for region, message in told if message]


def _offer(offer: offer_pb2.Offer) -> tuple[str, ...]:
    return (
        "*" if offer.chosen else "",
        offer.place.region,
        words.kind(offer.place),
        offer.place.flavor,
        f"{offer.gpus}",
        words.dollars(offer.price_per_hour),
        *_forecast(offer.forecast),
        offer.compared,
        f"{words.kind(offer.forecast, 'certainty').replace('-', ' ')}: {offer.forecast.basis}",
    )


def _forecast(forecast: offer_pb2.Forecast) -> tuple[str, str]:
    return (
        words.span_of(forecast.p50) if forecast.HasField("p50") else "unknown",
        words.span_of(forecast.p90) if forecast.HasField("p90") else "unknown",
    )


def _refusal(refusal: offer_pb2.Refusal) -> tuple[str, ...]:
    return (
        refusal.place.region or "-",
        words.kind(refusal.place) if refusal.place.capacity_type else "-",
        refusal.place.flavor or "-",
        words.enum_name(refusal, "reason"),
        refusal.message,
    )


# ---- simulate --------------------------------------------------------------------------------


# The title of a variant with its estimate, or None with the error that it was refused with.
Tried = tuple[str, offer_pb2.Estimate | None, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The intent under other terms."""

    title: str
    intent: intent_pb2.Intent


@verb(kind=VerbWithCommand, example="broker simulate intent.yaml")
@with_intent
def simulate(session: Session, **said: Any) -> None:
    """Compare what other terms would bring under the present capacity. Nothing is submitted.

    Each accepted capacity type and region is tried alone (where no region is named each that there
    is), each hardware option alone, and then what the terms do not accept: every region and every
    capacity type.
    """
    found = intent_of(said)
    team = found.team or session.team
    tried: list[Tried] = []
    there = [words.id_of(region.name) for region in session.client.regions.find().regions]
    for variant in variants(found.message, there):
        try:
            answer = session.client.runs.validate(team, variant.intent)
        except Invalid as error:
            if variant.intent is found.message:
                raise
            tried.append((variant.title, None, error.message))
        else:
            tried.append((variant.title, answer.estimate, ""))
    if session.is_json:
        session.show_json({"variants": [tried_json(*one) for one in tried]})
        return
    session.say(words.table(TRIES, [_variant_row(title, answered) for title, answered, _ in tried]))
    for line in why_nowhere(tried):
        session.say(line)


def why_nowhere(tried: Sequence[Tried]) -> list[str]:
    """Return one line for each reason why terms lead nowhere; what all of them share names none."""
    titles: dict[str, list[str]] = {}
    for title, found, error in tried:
        reason = _why_nowhere(found, error)
        if reason:
            titles.setdefault(reason, []).append(title)
    return [
        f"nowhere: {reason}" if len(those) == len(tried) else f"{'; '.join(those)}: {reason}"
        for reason, those in titles.items()
    ]


def _why_nowhere(found: offer_pb2.Estimate | None, error: str) -> str:
    """Return why these terms lead nowhere, empty where they lead somewhere."""
    if found is None:
        return error
    return "" if found.offers else found.summary


AS_IT_IS = "as it is"


def variants(intent: intent_pb2.Intent, there: Sequence[str]) -> Iterator[Variant]:
    """Yield the intent as it is, narrowed to one of each thing it accepts, and widened.

    ``there`` are the ids of all regions: one that names none accepts them all.
    """
    named = intent.terms.regions
    yield Variant(title=AS_IT_IS if named else f"{AS_IT_IS}, every region", intent=intent)
    terms, hardware = intent.terms, intent.workload.hardware
    for capacity_type in terms.capacity_types if len(terms.capacity_types) > 1 else ():
        changed = _copy(intent)
        changed.terms.capacity_types[:] = [capacity_type]
        yield Variant(title=f"only {words.short_kind(capacity_type)}", intent=changed)
    accepted = terms.regions or there
    for region in accepted if len(accepted) > 1 else ():
        changed = _copy(intent)
        changed.terms.regions[:] = [region]
        yield Variant(title=f"only {region}", intent=changed)
    for index, option in enumerate(hardware if len(hardware) > 1 else ()):
        changed = _copy(intent)
        del changed.workload.hardware[:]
        changed.workload.hardware.append(intent.workload.hardware[index])
        shape = f"{option.nodes}x{option.accelerators_per_node}x{option.accelerator}"
        yield Variant(title=f"only {shape}", intent=changed)
    yield from _widened(intent)


def _widened(intent: intent_pb2.Intent) -> Iterator[Variant]:
    if intent.terms.regions:
        changed = _copy(intent)
        del changed.terms.regions[:]
        yield Variant(title="every region", intent=changed)
    every = [number for number in intent_pb2.CapacityType.values() if number]
    if len(intent.terms.capacity_types) < len(every):
        changed = _copy(intent)
        changed.terms.capacity_types[:] = [intent_pb2.CapacityType.ValueType(n) for n in every]
        yield Variant(title="every capacity type", intent=changed)


def _copy(intent: intent_pb2.Intent) -> intent_pb2.Intent:
    copied = intent_pb2.Intent()
    copied.CopyFrom(intent)
    return copied


def tried_json(title: str, found: offer_pb2.Estimate | None, error: str) -> dict[str, Any]:
    """Return what programs read of a variant."""
    return {
        "terms": title,
        "error": error,
        "why_nowhere": _why_nowhere(found, error),
        "estimate": as_json(found) if found else None,
    }


def _variant_row(title: str, found: offer_pb2.Estimate | None) -> tuple[str, ...]:
    if found is None:
        return (title, "refused", "-", "-", "-", "-")
    offers = list(found.offers)
    best = next((offer for offer in offers if offer.chosen), next(iter(offers), None))
    if best is None:
        return (title, "nowhere", "-", "-", "-", f"0 of {len(found.refusals)}")
    count = f"{len(offers)} of {len(offers) + len(found.refusals)}"
    price = words.dollars(best.price_per_hour)
    return (title, words.where(best.place), *_forecast(best.forecast), price, count)
