"""The model's rules for intents, as violations of the request's fields.

The rule: what an intent may be is said once, by ``model.intent_rules``; here its paths become
those of the request. Read ``intent_violations`` first.
"""

from dataclasses import replace

from broker.model.intent import Intent, Terms
from broker.model.intent_rules import Known, problems
from broker.service.convert_intent import terms_of
from broker.service.errors import InvalidArgument, Violation
from broker.service.fields import check
from broker.service.gathering import whole_refusal
from broker.service.ports import Ports
from broker.v1 import intent_pb2


def intent_violations(ports: Ports, intent: Intent) -> tuple[Violation, ...]:
    """Return every rule that an intent breaks, each with its field; none when it is accepted."""
    return tuple(
        Violation(field=problem.field, message=problem.message, reason=problem.reason)
        for problem in problems(intent, _known(ports, intent.terms))
    )


def new_terms(ports: Ports, intent: Intent, message: intent_pb2.Terms) -> Terms:
    """Return new terms for a run, or refuse them; its workload was judged when it came."""

    def judge(terms: Terms) -> tuple[Violation, ...]:
        return tuple(
            replace(violation, field=violation.field.removeprefix("intent."))
            for violation in intent_violations(ports, replace(intent, terms=terms))
            if violation.field.startswith("intent.terms")
        )

    def convert(message: intent_pb2.Terms) -> Terms:
        return terms_of(message, "terms")

    try:
        terms = convert(message)
    except InvalidArgument as first:
        raise whole_refusal(message, "terms", convert=convert, judge=judge) from first
    check(judge(terms))
    return terms


def _known(ports: Ports, terms: Terms) -> Known:
    """Return what the rules ask for: most terms name no place and no time."""
    names_places = terms.regions or terms.residency
    has_deadline = terms.deadline_wall_s is not None
    return Known(
        regions=frozenset(ports.world.regions()) if names_places else None,
        now_wall_s=ports.clock.now().wall_s if has_deadline else None,
    )
