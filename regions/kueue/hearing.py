"""How a cluster's own words become one of ours: the first pattern that fits is heard. Pure.

The rule: what is heard is anybody's text, of any length; no pattern here can take longer than the
text is long. Read ``hear`` first.
"""

import re
from dataclasses import dataclass

from regions.kueue.vocabulary import Word
from regions.kueue.words import DETAIL_CHARACTERS, HEARD_CHARACTERS, cleaned


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """One word, what it was said of, and how it was said.

    ``look_at`` is the object, as ``kind/name``; ``unknown`` says, for UNKNOWN alone, which of the
    cluster's own words it was.
    """

    word: Word
    detail: str = ""
    raw: str = ""
    look_at: str = ""
    unknown: str = ""
    member: str = ""


@dataclass(frozen=True, slots=True)
class Saying:
    """A pattern, and the word for it. A group called ``what`` becomes the detail."""

    pattern: re.Pattern[str]
    word: Word


def sayings(*pairs: tuple[str, Word]) -> tuple[Saying, ...]:
    """Return sayings, in order; the case of letters does not matter to them."""
    return tuple(Saying(re.compile(text, re.IGNORECASE), word) for text, word in pairs)


def hear(text: str, known: tuple[Saying, ...]) -> tuple[Word, str] | None:
    """Return the first word that the text says, and its detail; None: it says none of them."""
    heard = text[:HEARD_CHARACTERS]
    for saying in known:
        found = saying.pattern.search(heard)
        if found is not None:
            return saying.word, cleaned(found.groupdict().get("what") or "", DETAIL_CHARACTERS)
    return None


def hear_end(text: str, known: tuple[Saying, ...]) -> tuple[Word, str] | None:
    """Hear the last of a long text instead of its first, as a log is read."""
    return hear(text[-HEARD_CHARACTERS:], known)


def unknown(kind: str, said: str) -> str:
    """Return how an unknown word is counted: where it was said, and the word, cut to a label."""
    word = re.sub(r"[^A-Za-z0-9_./-]+", "_", said[:60]).strip("_")
    return f"{kind}:{word or 'nothing'}"
