"""Whatever others wrote, a terminal that shows it obeys only us."""

import itertools
import re
import unicodedata

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cli.following import event_line
from broker.cli.saying import LogText, harmless
from broker.cli.session import Session
from broker.v1 import event_pb2

COLOURS = ("red", "green", "cyan", "yellow", "magenta")


@given(st.text(), st.sampled_from(COLOURS))
def test_of_what_a_terminal_obeys_only_our_colours_pass(text: str, colour: str) -> None:
    said = harmless(text)
    obeyed = [one for one in said if unicodedata.category(one) == "Cc" and one not in "\t\n"]
    assert obeyed == []
    assert len(said) == len(text)
    assert harmless(click.style(said, fg=colour)) == click.style(said, fg=colour)


@pytest.mark.parametrize("hostile", ["\x1b[2J", "\x1b]0;title\x07", "\r", "\x9b5m", "\u202e"])
def test_the_words_of_others_move_no_cursor(
    hostile: str, capsys: pytest.CaptureFixture[str]
) -> None:
    session = Session(server="", team="", is_json=False)
    session.say(f"waiting: {hostile}")
    session.note(f"waiting: {hostile}")
    printed = capsys.readouterr()
    event = event_pb2.Event(message=hostile)
    for text in (printed.out, printed.err, event_line(event)):
        assert hostile[0] not in text


HOSTILE = (
    "ok\x1b[2J\x1b]0;title\x07 \x1b[31mred\x1b[0m\r\n10%\r20%\r\n"
    "\x9b5m\u202e\u2066 é\x1b[1;3Hend\x1b"
)
HARMLESS = (
    "ok\ufffd[2J\ufffd]0;title\ufffd \x1b[31mred\x1b[0m\n10%\n20%\n"
    "\ufffd5m\ufffd\ufffd é\ufffd[1;3Hend\ufffd\x1b[0m"
)


@given(st.lists(st.integers(0, len(HOSTILE.encode())), max_size=12))
def test_a_log_shows_its_colours_and_moves_nothing_however_it_is_cut(cuts: list[int]) -> None:
    data, shown = HOSTILE.encode(), LogText()
    edges = [0, *sorted(cuts), len(data)]
    parts = [data[a:b] for a, b in itertools.pairwise(edges)]
    assert "".join([*map(shown.take, parts), shown.rest()]) == HARMLESS


@given(st.binary())
def test_of_any_log_a_terminal_obeys_colours_alone(data: bytes) -> None:
    shown = LogText()
    said = shown.take(data) + shown.rest()
    said = re.sub(r"\x1b\[[0-9;]*m", "", said)
    assert [one for one in said if unicodedata.category(one) == "Cc" and one not in "\t\n"] == []
