"""What of the namespace that its gang runs in a holder's run may name: secrets, service accounts.

The rule: a name is a team's own when it is the team's, or begins with it and a dot, which no team's
name holds; anything else is there for somebody else until operators lend it to a token. Operators
name what they like. That a name is refused says nothing of what is there. Read ``is_lent``.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from broker.access.tokens import Role, Token


def is_lent(name: str, team: str, token: Token, patterns: Iterable[str]) -> bool:
    """Whether a run of a team may name it for the holder of a token.

    ``patterns`` are those that the token lends for such names, as of a shell.
    """
    is_own = name == team or name.startswith(f"{team}.")
    is_operator = token.role is Role.OPERATOR
    return is_own or is_operator or any(fnmatchcase(name, one) for one in patterns)


def words(team: str, patterns: tuple[str, ...]) -> str:
    """Return in words which names those are."""
    return ", ".join((team, f"{team}.*", *patterns))
