"""Whose call it is that is being answered, where calls come with a token.

The rule: only the admission sets it, for the task that answers one call; who asks it learns None
of a call that came over the socket of this machine, whose user is an operator. Read ``caller``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from broker.access.tokens import Role, Token

_CALLER: ContextVar[Token | None] = ContextVar("caller", default=None)


def caller() -> Token | None:
    """Return the token of the call that is answered now, None for one of this machine's user."""
    return _CALLER.get()


@contextmanager
def calling(token: Token | None) -> Iterator[None]:
    """Answer a block's call as that of a token."""
    before = _CALLER.set(token)
    try:
        yield
    finally:
        _CALLER.reset(before)


def may_see(team: str) -> bool:
    """Whether what is of a team is shown to whoever calls."""
    token = caller()
    return token is None or token.sees(team)


def is_operator() -> bool:
    """Whether whoever calls looks after the broker, and not only after runs."""
    token = caller()
    return token is None or token.role is Role.OPERATOR


def only_team() -> str:
    """Return the one team that is shown to whoever calls, "" for all of them."""
    token = caller()
    return "" if token is None or token.sees_all else token.team
