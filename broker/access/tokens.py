"""What a token is: a word that only its holder knows, and what the broker keeps of it.

    brk_k3v9x0q2m7ab_<48 letters and digits>
        the id       the secret, 247 bits of chance

The rule: the broker keeps the sha256 of the whole word and nothing else of it, so that a copy of
its file opens no door; a plain hash is enough for what nobody can guess. The word itself is shown
once, to whoever makes it, and no value here holds it. Read ``Token`` first.
"""

import hashlib
import hmac
import re
from dataclasses import dataclass
from enum import StrEnum

ID_LENGTH = 12
SECRET_LENGTH = 48
ALL_TEAMS = "-"
ACTOR_MAX = 64
_WORD = re.compile(r"brk_(?P<id>[a-z0-9]{12})_[a-z0-9]{48}", re.ASCII)


class Role(StrEnum):
    """What a token may do. Each role may do all that the one before it may."""

    VIEWER = "viewer"  # read what is of its team
    MEMBER = "member"  # submit, change and end its team's runs
    OPERATOR = "operator"  # everything, for every team

    def reaches(self, needed: "Role") -> bool:
        """Whether this role may do what that one may."""
        return _RANKS[self] >= _RANKS[needed]


_RANKS = {role: rank for rank, role in enumerate(Role)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What is kept of a token.

    ``digest`` is the sha256 of the word, hexadecimal. ``team`` is an id, or ``ALL_TEAMS``.
    ``actor`` is the name that its calls are written down under. Times are Unix seconds;
    ``expires_s`` None: never. ``secrets`` and ``service_accounts`` are patterns of names that its
    runs may name beside the team's own (``lending``).
    """

    id: str
    digest: str
    team: str
    role: Role
    actor: str
    created_s: float
    expires_s: float | None
    secrets: tuple[str, ...] = ()
    service_accounts: tuple[str, ...] = ()

    def sees(self, team: str) -> bool:
        """Whether what is of a team is shown to its holder."""
        return self.sees_all or team == self.team

    @property
    def sees_all(self) -> bool:
        """Whether every team's runs are shown to its holder."""
        return self.team == ALL_TEAMS or self.role is Role.OPERATOR

    def is_over(self, wall_s: float) -> bool:
        """Whether it has expired at a time, in Unix seconds."""
        return self.expires_s is not None and wall_s >= self.expires_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What was made of a word that a caller showed. The word is not in it."""

    id: str
    digest: str


def read(word: str) -> Shown | None:
    """Return what a word shows, None for what is no token at all."""
    found = _WORD.fullmatch(word)
    if found is None:
        return None
    return Shown(id=found["id"], digest=digest_of(word))


def word_of(token_id: str, secret: str) -> str:
    """Return the word that its holder keeps."""
    return f"brk_{token_id}_{secret}"


def digest_of(word: str) -> str:
    """Return the sha256 of a word, hexadecimal."""
    return hashlib.sha256(word.encode()).hexdigest()


def is_of(shown: Shown, token: Token | None) -> bool:
    """Whether a word is that of a token. It takes as long for a token that is not there."""
    kept = token.digest if token is not None else _NOBODYS
    return hmac.compare_digest(shown.digest, kept) and token is not None


_NOBODYS = "0" * 64
