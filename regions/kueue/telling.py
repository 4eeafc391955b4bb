"""A verdict as it crosses the port: the sentence that a user reads, and the word behind it. Pure.

The rule: what nobody has a word for is told as the cluster said it. Read ``sentence`` first.
"""

from collections.abc import Iterable

from regions.cluster import WordSeen
from regions.kueue.members import Member
from regions.kueue.words import Verdict, cleaned

MESSAGE_CHARACTERS = 900
BRIEF_CHARACTERS = 120
"""Of a cluster's own words, where one short sentence is all that there is room for."""


def sentence(said: Verdict) -> str:
    """Return what a user reads of a verdict."""
    words = [f"{said.sentence}."]
    if said.unknown and said.raw:
        words.append(f"The cluster says: {said.raw}")
    elif said.advice:
        words.append(said.advice)
    return " ".join(words)[:MESSAGE_CHARACTERS]


def brief(said: Verdict) -> str:
    """Return it as one short sentence, without its period."""
    if said.unknown and said.raw:
        return f"The cluster says: {cleaned(said.raw, BRIEF_CHARACTERS)}"
    return said.sentence


def word_seen(said: Verdict, members: Iterable[Member] = ()) -> WordSeen:
    """Return the word behind the sentence, with whose fault it is and what is done about it.

    ``members`` are the gang's: what the one that it is about printed last is told with it.
    """
    spoke = (one.last_words for one in members if one.uid == said.member)
    return WordSeen(
        word=said.word,
        sentence=brief(said),
        fault=said.fault.value,
        deed=said.deed.value,
        advice=said.advice,
        look_at=said.look_at,
        raw=said.raw,
        unknown=said.unknown,
        last_lines=next(spoke, ""),
    )
