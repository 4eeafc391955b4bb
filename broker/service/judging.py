"""The model's rules for intents, as violations of the request's fields.

The rule: what an intent may be is said once, by ``model.intent_rules``; here its paths become
those of the request. Read ``intent_violations`` first.
"""

from dataclasses import replace

from broker.model.intent import Intent, Terms
from broker.model.intent_rules import Known, problems
from broker.service.errors import InvalidArgument, Violation
from broker.service.ports import Ports

VIOLATIONS_MAX = 50  # what is told at once; trailing metadata is limited


def intent_violations(ports: Ports, intent: Intent) -> tuple[Violation, ...]:
    """Return every rule that an intent breaks, each with its field; none when it is accepted."""
    return tuple(
        Violation(field=problem.field, message=problem.message, reason=problem.reason)
        for problem in problems(intent, _known(ports))[:VIOLATIONS_MAX]
    )


def check_terms(ports: Ports, intent: Intent, terms: Terms) -> None:
    """Refuse new terms of a run that break a rule; its workload was judged when it came."""
    violations = tuple(
        replace(violation, field=violation.field.removeprefix("intent."))
        for violation in intent_violations(ports, replace(intent, terms=terms))
        if violation.field.startswith("intent.terms")
    )
    if violations:
        raise InvalidArgument(violations)


def _known(ports: Ports) -> Known:
    return Known(regions=frozenset(ports.world.regions()), now_wall_s=ports.clock.now().wall_s)
