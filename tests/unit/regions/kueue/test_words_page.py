"""The page of words is what the rows say.

``python -m tests.unit.regions.kueue.test_words_page`` writes it anew.
"""

from pathlib import Path

import pytest

from regions.kueue import words_page
from regions.kueue.explanation import ROWS
from regions.kueue.vocabulary import Word
from regions.kueue.words import Deed, Fault

PAGE = Path(words_page.__file__).with_name("WORDS.md")

# What a user has to be told by a word of its own, whatever else there is.
TOLD = {
    "quota": Word.WAITING_FOR_QUOTA,
    "never fits": Word.QUOTA_NEVER_FITS,
    "queue stopped": Word.QUEUE_STOPPED,
    "flavor missing": Word.FLAVOR_MISSING,
    "check missing": Word.CHECK_MISSING,
    "image not found": Word.IMAGE_NOT_FOUND,
    "no right to the image": Word.IMAGE_NO_RIGHT,
    "wrong architecture": Word.IMAGE_WRONG_ARCHITECTURE,
    "init failing": Word.SIDECAR_FAILING,
    "mount failing": Word.VOLUME_NOT_MOUNTED,
    "secret missing": Word.SECRET_MISSING,
    "unschedulable: full": Word.NODES_FULL,
    "unschedulable: labels": Word.NODES_DO_NOT_MATCH,
    "taints": Word.NODES_TAINTED,
    "some nodes came": Word.PARTIAL_ARRIVAL,
    "node lost": Word.NODE_LOST,
    "preempted by the queue": Word.PREEMPTED_BY_PRIORITY,
    "preempted by the cloud": Word.NODE_PREEMPTED,
    "out of memory": Word.OUT_OF_MEMORY,
    "exit code": Word.COMMAND_FAILED,
    "NCCL time-out": Word.NCCL_TIMEOUT,
    "eviction": Word.EVICTED,
    "wedged": Word.WEDGED,
    "waiting for pods past its bound": Word.NOT_READY_IN_TIME,
}


def test_the_page_is_what_the_rows_say() -> None:
    assert PAGE.read_text() == words_page.page()


@pytest.mark.parametrize("case", TOLD)
def test_each_has_its_word_with_a_class_and_a_deed(case: str) -> None:
    row = ROWS[TOLD[case]]
    assert row.fault is not Fault.NONE
    assert row.deed is not Deed.NOTHING
    assert f"| `{TOLD[case]}` | {row.fault.value.lower()} |" in words_page.page()


if __name__ == "__main__":
    PAGE.write_text(words_page.page())
