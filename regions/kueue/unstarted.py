"""How a gang ended that had not started: its launcher was the process, not its command. Pure.

The rule: only of a gang whose store was read, and says nothing of a start, is that concluded. Read
``of_launcher``.
"""

from dataclasses import replace

from regions.cluster import PlacementSeen
from regions.kueue.explanation import verdict
from regions.kueue.hearing import Heard
from regions.kueue.telling import sentence, word_seen
from regions.kueue.vocabulary import Word
from regions.kueue.words import Verdict

OF_WHO_RAN = frozenset(
    {Word.COMMAND_FAILED, Word.CRASHED, Word.KILLED, Word.TERMINATED, Word.MODULE_MISSING}
)
"""What tells of the command only where it had begun."""


def of_launcher(seen: PlacementSeen, said: Verdict) -> tuple[PlacementSeen, Verdict]:
    """Say of a gang that had not started that its launcher was the process that ended."""
    if said.word not in OF_WHO_RAN:
        return seen, said
    how = said.sentence.rpartition(": ")[2] if ": " in said.sentence else ""
    told = verdict(
        Heard(
            word=Word.LAUNCHER_FAILED,
            detail=how,
            raw=said.raw,
            look_at=said.look_at,
            member=said.member,
        )
    )
    last_lines = "" if seen.said is None else seen.said.last_lines
    word = replace(word_seen(told), last_lines=last_lines)
    return replace(seen, cause=told.cause, message=sentence(told), said=word), told
