"""The page of all words for what becomes of a gang, made of their rows. Pure.

The rule: the page says what the rows say; a test compares the two, and tells how to write it anew.
Read ``page``.
"""

from collections.abc import Iterable

from regions.kueue.explanation import ROWS
from regions.kueue.vocabulary import Word
from regions.kueue.words import Row

_HEAD = """\
# What a cluster's words mean

For each placement on a cluster of Kubernetes `broker status` names one of these words where
something is wrong; `broker explain` tells whose fault it is and what the broker does by itself. A
word never changes its meaning. What the cluster says and no word is known for is shown as it was
said, as `UNKNOWN`, and counted (`broker_unknown_words_total`).

The column *Class*: whose fault it is, and so against which limit of the run an end is counted;
none: it is no failure. A *transient* end that only a process's own last words tell of counts as one
when its start had saved a checkpoint, and otherwise as *user*. A gang that was put out for being
late (`NOT_READY_IN_TIME`) counts as *user* where what was in its way does. The column *Cause*: what
the broker goes by.

| Word | Class | Cause | What it says | What helps | What the broker does |
|---|---|---|---|---|---|
"""


def page() -> str:
    """Return the page, in Markdown."""
    return _HEAD + "".join(_lines())


def _lines() -> Iterable[str]:
    return (_line(word, ROWS[word]) for word in Word)


def _line(word: Word, row: Row) -> str:
    fault = row.fault.value.lower()
    cells = (f"`{word}`", fault, f"`{row.cause}`", row.sentence, row.advice, row.deed.value)
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |\n"
