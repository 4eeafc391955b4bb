"""The model's rules for intents, as violations of the request's fields.

The rule: what an intent may be is said once, by ``model.intent_rules``; here its paths become
those of the request. Read ``intent_violations`` first.
"""

from collections.abc import Iterator
from dataclasses import replace

from broker.access import lending
from broker.model.intent import Intent, Terms
from broker.model.intent_rules import SECRETS_MAX, Known, problems
from broker.model.reasons import Reason
from broker.service.caller import caller
from broker.service.convert_intent import terms_of
from broker.service.errors import InvalidArgument, Violation
from broker.service.fields import check
from broker.service.gathering import whole_refusal
from broker.service.ports import Ports
from broker.v1 import intent_pb2


def intent_violations(ports: Ports, intent: Intent) -> tuple[Violation, ...]:
    """Return every rule that an intent breaks, each with its field; none when it is accepted."""
    broken = (
        Violation(field=problem.field, message=problem.message, reason=problem.reason)
        for problem in problems(intent, _known(ports, intent.terms))
    )
    return (*broken, *_not_lent(intent))


def _not_lent(intent: Intent) -> Iterator[Violation]:
    """Yield the names that are not for a run of this team and of whoever calls."""
    token, workload, at = caller(), intent.workload, "intent.workload"
    if token is None:
        return
    named = [
        (f"{at}.secrets[{index}].name", one.name, token.secrets)
        for index, one in enumerate(workload.secrets[:SECRETS_MAX])
    ]
    if workload.service_account:
        account = workload.service_account
        named.append((f"{at}.service_account", account, token.service_accounts))
    for field, name, patterns in named:
        if not lending.is_lent(name, intent.team, token, patterns):
            own = lending.words(intent.team, patterns)
            message = f"is not for this run to name: with this token those are {own}"
            yield Violation(field=field, message=message, reason=Reason.POLICY_DISALLOWS)


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
