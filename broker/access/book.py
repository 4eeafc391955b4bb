"""The file of tokens: JSON, made by ``brokerd tokens``, read by brokerd.

The rule: it is read whole or not at all, and what is wrong with it is said without a word of what
stands in it, for somebody may have pasted a token there. Read ``parse`` first.
"""

import fcntl
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from broker.access import files
from broker.access.tokens import ACTOR_MAX, ALL_TEAMS, Role, Token
from broker.model import names

BOOK_MAX_BYTES = 8 << 20
TOKENS_MAX = 10_000

# What the file itself says in a sentence of the decoder: values, and names that it does not know.
_SHOWN = re.compile(
    r"""'[^']*'|"[^"]*"|(?<=unknown field )`.*?`(?=\Z| - at `\$\.tokens\[\d+\]`\Z)""", re.DOTALL
)

LENT_MAX = 64
Lent = Annotated[
    tuple[Annotated[str, Meta(pattern=r"^[a-z0-9*?.-]{1,253}\Z")], ...], Meta(max_length=LENT_MAX)
]
Moment = Annotated[datetime, Meta(tz=True)]
_R = TypeVar("_R")


class BookError(Exception):
    """The file of tokens cannot be used; the sentence says why."""


class _Kept(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    id: Annotated[str, Meta(pattern=r"^[a-z0-9]{12}\Z")]
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    team: str
    role: Role
    actor: Annotated[str, Meta(min_length=1, max_length=ACTOR_MAX)]
    created: Moment
    expires: Moment | None = None
    secrets: Lent = ()
    service_accounts: Lent = ()

    def __post_init__(self) -> None:
        """Refuse what cannot be meant. Raises ValueError, which decoding reports."""
        problem = unfit(self.actor, self.team, self.role)
        if problem:
            raise ValueError(problem)


class _Book(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tokens: Annotated[tuple[_Kept, ...], Meta(max_length=TOKENS_MAX)]


def unfit(actor: str, team: str, role: Role) -> str:
    """Return why a token cannot be so, empty when it can."""
    if not actor or len(actor) > ACTOR_MAX or not actor.isprintable() or actor != actor.strip():
        return f"an actor is a name of 1 to {ACTOR_MAX} printable characters"
    if team == ALL_TEAMS:
        return "a member is of one team" if role is Role.MEMBER else ""
    return "" if names.is_id(team) else f"a team is an id; {names.ID_RULE}"


def unfit_to_lend(patterns: tuple[str, ...]) -> str:
    """Return why names cannot be lent to a token, empty when they can."""
    try:
        msgspec.convert(patterns, Lent)
    except msgspec.ValidationError:
        return f"names are lent by at most {LENT_MAX} patterns of a-z, 0-9, dot, -, * and ?"
    return ""


def parse(data: bytes) -> tuple[Token, ...]:
    """Return the tokens of a file. Raises BookError."""
    try:
        book = msgspec.json.decode(data, type=_Book)
    except msgspec.ValidationError as error:
        raise BookError(_SHOWN.sub("(left out)", str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BookError("it is not JSON") from None
    found = tuple(_token(kept) for kept in book.tokens)
    if len({token.id for token in found}) != len(found):
        raise BookError("two tokens have one id")
    return found


def render(tokens: tuple[Token, ...]) -> bytes:
    """Return the file of some tokens."""
    kept = tuple(
        _Kept(
            id=token.id,
            sha256=token.digest,
            team=token.team,
            role=token.role,
            actor=token.actor,
            created=_moment(token.created_s),
            expires=None if token.expires_s is None else _moment(token.expires_s),
            secrets=token.secrets,
            service_accounts=token.service_accounts,
        )
        for token in tokens
    )
    return msgspec.json.format(msgspec.json.encode(_Book(tokens=kept)), indent=2) + b"\n"


def _token(kept: _Kept) -> Token:
    return Token(
        id=kept.id,
        digest=kept.sha256,
        team=kept.team,
        role=kept.role,
        actor=kept.actor,
        created_s=kept.created.timestamp(),
        expires_s=None if kept.expires is None else kept.expires.timestamp(),
        secrets=kept.secrets,
        service_accounts=kept.service_accounts,
    )


def _moment(wall_s: float) -> datetime:
    return datetime.fromtimestamp(round(wall_s), tz=UTC)


def load(path: Path) -> tuple[Token, ...]:
    """Return the tokens of a file that only its owner can read. Raises BookError."""
    try:
        data = files.read_private(path, BOOK_MAX_BYTES)
    except files.PrivateFileError as error:
        raise BookError(str(error)) from error
    try:
        return parse(data)
    except BookError as error:
        raise BookError(f"{path}: {error}") from None


def change(path: Path, alter: Callable[[tuple[Token, ...]], tuple[tuple[Token, ...], _R]]) -> _R:
    """Read a file, write what ``alter`` makes of its tokens, and return what it returned beside.

    A file that is not there is an empty one. Two that change it at once wait for each other.
    Raises BookError.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(path):
            before = load(path) if path.exists() else ()
            after, result = alter(before)
            if len(after) > TOKENS_MAX:
                raise BookError(f"{path} holds {TOKENS_MAX} tokens, and takes no more")
            if after != before:
                files.write_private(path, render(after))
            return result
    except OSError as error:
        raise BookError(f"{path} cannot be changed: {error.strerror}") from error


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    # A file of its own: the other one is replaced, and a lock on it would go with it.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    handle = os.open(path.with_name(f"{path.name}.lock"), flags, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
