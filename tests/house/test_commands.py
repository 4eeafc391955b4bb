"""What a page says to type is a verb of ``broker``, with options that it has."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from broker.cli.verbs import BROKER
from tests.house.tree import text_of, written_files

FENCE = re.compile(r"^```.*?\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`(broker(?: [^`\n]+)?)`(?!`)")
CHAIN = re.compile(r"[|,]|\.\.\.")
"""What makes of a span a list of verbs in short, which nobody types."""


def test_every_command_in_a_page_is_one() -> None:
    found = {path: list(mistakes(text_of(path))) for path in written_files(".md")}
    assert {path: said for path, said in found.items() if said} == {}


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("`broker regions show R`", []),
        ("`broker region show R`", ["broker region show R: there is no verb region"]),
        ("`broker regions shows R`", ["broker regions shows R: there is no verb shows"]),
        ("```\nbroker doctor --trie X  # why\n```\n", ["broker doctor --trie X: no option --trie"]),
        ("`broker submit --name x -- python t.py --steps 3`", []),
        ("`broker local stockout | preempt`, `brokerd`, `broker`", []),
    ],
)
def test_a_command_that_is_none_is_found(page: str, said: list[str]) -> None:
    assert list(mistakes(page)) == said


def mistakes(page: str) -> Iterator[str]:
    """Yield what is wrong with the commands of a page."""
    for command in commands(page):
        why = mistake(command)
        if why:
            yield f"{command}: {why}"


def commands(page: str) -> Iterator[str]:
    """Yield what a page has typed, each on one line and without what is said of it."""
    for block in FENCE.findall(page):
        for line in block.replace("\\\n", " ").splitlines():
            typed = line.removeprefix("$ ").partition("  #")[0].strip()
            if typed.startswith("broker ") and "──>" not in typed:
                yield " ".join(typed.split())
    for typed in SPAN.findall(FENCE.sub("", page)):
        if not CHAIN.search(typed):
            yield typed


def mistake(command: str) -> str:
    """Say which verb or option of a command there is not, or nothing."""
    words = shlex.split(command)[1:]
    words = words[: words.index("--")] if "--" in words else words
    verb: click.Command = BROKER
    while isinstance(verb, click.Group) and words and not words[0].startswith("-"):
        context = click.Context(verb)
        below = verb.get_command(context, words[0])
        if below is None and verb.list_commands(context):
            return f"there is no verb {words[0]}"
        verb = below or verb
        words = words[1:]
    known = {name for one in verb.get_params(click.Context(verb)) for name in names_of(one)}
    unknown = [word for word in map(option, words) if word and word not in known]
    return f"no option {unknown[0]}" if unknown else ""


def names_of(parameter: click.Parameter) -> list[str]:
    return [*parameter.opts, *parameter.secondary_opts]


def option(word: str) -> str:
    """Return the option that a word is, or nothing."""
    return word.partition("=")[0] if word.startswith("-") else ""
