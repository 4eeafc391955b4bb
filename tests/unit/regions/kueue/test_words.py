"""The rows: every word has one, and says it without a word of Kubernetes."""

import re

from hypothesis import given
from hypothesis import strategies as st

from regions.cluster import Cause
from regions.kueue.explanation import ROWS
from regions.kueue.vocabulary import Word
from regions.kueue.words import Deed, Fault, cleaned
from regions.kueue.words_end import END_ROWS
from regions.kueue.words_queue import QUEUE_ROWS
from regions.kueue.words_start import START_ROWS

THEIR_WORDS = re.compile(
    r"\b(pods?|kubelet|workloads?|jobsets?|cordon|taints?|sidecar container|daemonset|"
    r"admission|clusterqueue|localqueue|resourceflavor|podset|crd|webhook|kueue|kubernetes)\b",
    re.IGNORECASE,
)


def test_every_word_has_one_row() -> None:
    assert set(ROWS) == set(Word)
    assert len(ROWS) == len(QUEUE_ROWS) + len(START_ROWS) + len(END_ROWS)


def test_every_word_is_its_own_stable_name() -> None:
    assert all(word.name == word.value for word in Word)
    assert all(re.fullmatch(r"[A-Z]+(_[A-Z]+)*", word.value) for word in Word)


def test_a_sentence_has_no_word_of_kubernetes_and_leaves_room_for_a_detail() -> None:
    for word, row in ROWS.items():
        for text in (row.sentence, row.advice, row.deed.value):
            assert not THEIR_WORDS.search(text), f"{word}: {text}"
        assert row.sentence[0].isupper(), word
        assert row.sentence[-1] not in ".:,", word
        assert not row.advice or row.advice[-1] == ".", word


def test_what_a_person_can_do_is_said_where_it_is_the_runs_own_fault() -> None:
    assert [word for word, row in ROWS.items() if row.fault is Fault.USER and not row.advice] == []


def test_the_cause_and_what_the_broker_does_agree() -> None:
    """A cause by which the broker leaves at once is never told as a wait, nor the other way."""
    for word, row in ROWS.items():
        if row.cause in (Cause.REFUSED, Cause.QUOTA_NEVER_FITS, Cause.WEDGED):
            is_users = row.fault is Fault.USER
            assert row.deed is (Deed.TRIES if is_users else Deed.LEAVES), word
        if row.cause in (Cause.EVICTED, Cause.NODE_LOST, Cause.NODE_PREEMPTED):
            assert row.deed is Deed.RESUMES, word
        if row.cause is Cause.MEMBER_EXITED:
            assert row.deed in (Deed.ENDS, Deed.JUDGES), word


def test_what_is_the_runs_own_fault_is_never_told_as_tried_without_an_end() -> None:
    deeds = {row.deed for row in ROWS.values() if row.fault is Fault.USER}
    assert deeds == {Deed.TRIES, Deed.ENDS}


def test_every_cause_of_the_port_is_told_by_some_word() -> None:
    # How long a silent request is borne is the region's policy, which the broker judges by.
    assert {row.cause for row in ROWS.values()} == set(Cause) - {Cause.FLEX_SILENT}


@given(st.text(max_size=3000), st.integers(4, 1000))
def test_what_is_shown_is_one_line_of_bounded_length(text: str, most: int) -> None:
    shown = cleaned(text, most)
    assert len(shown) <= most
    assert shown.isprintable()
    assert cleaned(shown, most) == shown


def test_nothing_that_moves_a_cursor_or_turns_the_writing_is_shown() -> None:
    assert cleaned("a\x1b[31mred\x07\u202egnp\ud800\n b") == "a [31mred gnp b"
