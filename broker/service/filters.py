"""The filter of ListRuns: a small part of AIP-160, and a clear refusal of the rest.

The rule: comparisons with ``=`` joined by AND; OR only between states, in parentheses. What is
not understood is refused by its name, never ignored. Read ``query_of`` first.
"""

import re
from dataclasses import dataclass

from broker.model.states import RUN_ENDED, RunState
from broker.service.errors import InvalidArgument, invalid
from broker.store.listing import RunOrder, RunQuery

FILTER_MAX = 1_000
LABELS_MAX = 16
ORDERS = {
    "": RunOrder.NEWEST,
    "create_time desc": RunOrder.NEWEST,
    "create_time": RunOrder.OLDEST,
    "create_time asc": RunOrder.OLDEST,
    "name": RunOrder.NAME,
    "name asc": RunOrder.NAME,
}
_STATES: dict[str, frozenset[RunState]] = {
    **{state.value: frozenset({state}) for state in RunState},
    "ACTIVE": frozenset(RunState) - RUN_ENDED,
    "ENDED": RUN_ENDED,
}
_TOKEN = re.compile(
    r"""\s*(?: (?P<mark>[()]|!=|<=|>=|[=<>:]) | "(?P<quoted>(?:[^"\\]|\\["\\])*)"
        | (?P<word>[\w.\-]+) )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class _Token:
    """A piece of a filter: a mark, a word, or a quoted text."""

    text: str
    kind: str


@dataclass(slots=True)
class _Wanted:
    """What has been read of a filter so far."""

    states: frozenset[RunState] | None = None
    owner: str = ""
    region: str = ""
    labels: tuple[tuple[str, str], ...] = ()


def query_of(team: str, text: str, order_by: str, page_size: int) -> RunQuery:
    """Return the query of a filter and an order. Raises InvalidArgument."""
    order = ORDERS.get(" ".join(order_by.split()))
    if order is None:
        raise invalid("order_by", f"{order_by[:80]!r} is none of: {', '.join(ORDERS)[2:]}")
    wanted = _read(text)
    return RunQuery(
        team=team,
        states=tuple(sorted(wanted.states or ())),
        owner=wanted.owner,
        region=wanted.region,
        labels=wanted.labels,
        order=order,
        page_size=page_size,
    )


def _read(text: str) -> _Wanted:
    if len(text) > FILTER_MAX:
        raise invalid("filter", f"has {len(text)} characters; the most is {FILTER_MAX}")
    tokens, wanted = _tokens(text), _Wanted()
    if not tokens:
        return wanted
    at = _read_one(tokens, 0, wanted)
    while at < len(tokens):
        if not _is_word(tokens, at, "AND"):
            raise _unread(tokens, at, "AND or the end")
        at = _read_one(tokens, at + 1, wanted)
    return wanted


def _tokens(text: str) -> list[_Token]:
    found, at, end = [], 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise invalid("filter", f"cannot be read from {text[at : at + 20]!r} on")
        kind = match.lastgroup or "word"
        piece = match.group(kind)
        found.append(_Token(re.sub(r"\\(.)", r"\1", piece) if kind == "quoted" else piece, kind))
        at = match.end()
    return found


def _read_one(tokens: list[_Token], at: int, wanted: _Wanted) -> int:
    """Read a comparison, or states in parentheses; return where the next token is."""
    if at < len(tokens) and tokens[at].text == "(" and tokens[at].kind == "mark":
        return _read_states(tokens, at + 1, wanted)
    field, value, at = _comparison(tokens, at)
    if field == "state":
        _narrow(wanted, _states(value))
    elif field in ("owner", "region"):
        if getattr(wanted, field):
            raise invalid("filter", f"{field} is compared twice")
        if not value:
            raise invalid("filter", f"{field} is compared with nothing")
        setattr(wanted, field, value)
    elif field.startswith("labels.") and len(field) > len("labels."):
        wanted.labels = (*wanted.labels, (field.removeprefix("labels."), value))
        if len(wanted.labels) > LABELS_MAX:
            raise invalid("filter", f"compares more than {LABELS_MAX} labels")
    else:
        raise invalid(
            "filter", f"{field[:60]!r} is no field to filter by: state, owner, region, labels.KEY"
        )
    return at


def _read_states(tokens: list[_Token], at: int, wanted: _Wanted) -> int:
    any_of: frozenset[RunState] = frozenset()
    while True:
        field, value, at = _comparison(tokens, at)
        if field != "state":
            raise invalid("filter", "only states can be joined by OR")
        any_of |= _states(value)
        if at < len(tokens) and tokens[at].kind == "mark" and tokens[at].text == ")":
            _narrow(wanted, any_of)
            return at + 1
        if not _is_word(tokens, at, "OR"):
            raise _unread(tokens, at, "OR or )")
        at += 1


def _comparison(tokens: list[_Token], at: int) -> tuple[str, str, int]:
    field, mark, value = (tokens[i] if i < len(tokens) else None for i in range(at, at + 3))
    if field is None or field.kind != "word":
        raise _unread(tokens, at, "a field")
    if mark is None or mark.kind != "mark":
        raise _unread(tokens, at + 1, "=")
    if mark.text != "=":
        raise invalid("filter", f"{mark.text!r} is not known here; only = is")
    if value is None or value.kind == "mark":
        raise _unread(tokens, at + 2, "a value")
    return field.text, value.text, at + 3


def _states(value: str) -> frozenset[RunState]:
    states = _STATES.get(value)
    if states is None:
        raise invalid("filter", f"{value[:40]!r} is no state: {', '.join(_STATES)}")
    return states


def _narrow(wanted: _Wanted, states: frozenset[RunState]) -> None:
    both = states if wanted.states is None else wanted.states & states
    if not both:
        raise invalid("filter", "no run can be in two states at once")
    wanted.states = both


def _is_word(tokens: list[_Token], at: int, word: str) -> bool:
    return at < len(tokens) and tokens[at].kind == "word" and tokens[at].text == word


def _unread(tokens: list[_Token], at: int, wanted: str) -> InvalidArgument:
    seen = repr(tokens[at].text[:40]) if at < len(tokens) else "its end"
    return invalid("filter", f"{wanted} was expected at {seen}")
