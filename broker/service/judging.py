"""The model's rules for intents, as violations of the request's fields.

The rule: what an intent may be is said once, by ``model.intent_rules``; here its paths become
those of the request. Read ``check_intent`` first.
"""

from collections.abc import Iterable
from dataclasses import replace

from broker.model.intent import Intent, Terms
from broker.model.intent_rules import problems
from broker.service.errors import InvalidArgument, Violation

VIOLATIONS_MAX = 50  # what is told at once; trailing metadata is limited


def check_intent(intent: Intent) -> None:
    """Refuse an intent that breaks a rule, naming every field at once."""
    _refuse(
        Violation(field=problem.field, message=problem.message, reason=problem.reason)
        for problem in problems(intent)
    )


def check_terms(intent: Intent, terms: Terms) -> None:
    """Refuse new terms of a run that break a rule; its workload was judged when it came."""
    prefix = "intent.terms"
    _refuse(
        Violation(
            field=problem.field.removeprefix("intent."),
            message=problem.message,
            reason=problem.reason,
        )
        for problem in problems(replace(intent, terms=terms))
        if problem.field.startswith(prefix)
    )


def _refuse(found: Iterable[Violation]) -> None:
    violations = tuple(found)[:VIOLATIONS_MAX]
    if violations:
        raise InvalidArgument(violations)
