"""Whatever others wrote, a terminal that shows it obeys only us."""

import unicodedata

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cli.following import event_line
from broker.cli.saying import harmless
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
