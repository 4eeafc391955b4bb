"""Making, showing and taking back tokens: what ``brokerd tokens`` does to the file.

The rule: the word is returned once, by ``issue``, and is nowhere after that. Read ``issue`` first.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from broker.access import book
from broker.access.tokens import ID_LENGTH, SECRET_LENGTH, Role, Token, digest_of, word_of

HEADERS = ("ID", "ACTOR", "TEAM", "ROLE", "CREATED", "EXPIRES")


def issue(
    path: Path,
    *,
    actor: str,
    team: str,
    role: Role,
    now_s: float,
    expires_s: float | None,
    secrets: tuple[str, ...] = (),
    service_accounts: tuple[str, ...] = (),
    draw: Callable[[int], str],
) -> tuple[str, Token]:
    """Make a token; return the word for its holder, and what was kept.

    ``draw`` returns so many random characters of a-z and 0-9. Times are Unix seconds. ``secrets``
    and ``service_accounts`` are patterns of what its runs may name beside the team's own. Raises
    BookError.
    """
    problem = book.unfit(actor, team, role)
    problem = problem or book.unfit_to_lend(secrets) or book.unfit_to_lend(service_accounts)
    if problem:
        raise book.BookError(problem)
    token_id = draw(ID_LENGTH)
    word = word_of(token_id, draw(SECRET_LENGTH))
    token = Token(
        id=token_id,
        digest=digest_of(word),
        team=team,
        role=role,
        actor=actor,
        created_s=now_s,
        expires_s=expires_s,
        secrets=secrets,
        service_accounts=service_accounts,
    )
    book.change(path, lambda tokens: ((*tokens, token), None))
    return word, token


def revoke(path: Path, token_id: str) -> Token:
    """Take a token back; return what it was. Raises BookError for one that is not there."""

    def without(tokens: tuple[Token, ...]) -> tuple[tuple[Token, ...], Token]:
        for token in tokens:
            if token.id == token_id:
                return tuple(one for one in tokens if one is not token), token
        raise book.BookError(f"{path} holds no token {token_id[:ID_LENGTH]!a}")

    return book.change(path, without)


def table(tokens: tuple[Token, ...], now_s: float) -> str:
    """Return the tokens for people, the oldest first."""
    rows = [HEADERS, *(_row(one, now_s) for one in sorted(tokens, key=lambda t: t.created_s))]
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEADERS))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
             for row in rows)  # fmt: skip
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _row(token: Token, now_s: float) -> tuple[str, ...]:
    expires = "never" if token.expires_s is None else _day(token.expires_s)
    if token.is_over(now_s):
        expires += " (over)"
    team = "all" if token.sees_all else token.team
    return token.id, token.actor, team, token.role.value, _day(token.created_s), expires


def _day(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, tz=UTC).strftime("%Y-%m-%d %H:%MZ")
