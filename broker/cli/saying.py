"""Lines for a terminal, whoever their words come from.

The rule: what a cluster, a teammate or a training process wrote is text, and never moves a cursor,
sets a title or hides a line; of what a terminal obeys only our own colours pass. A run's logs alone
are written as they are: they are what was asked for. Read ``say`` first.
"""

import re

import click

# Our own colours, as click writes them; and all that a terminal would obey, but tab and newline.
_OBEYED = re.compile("\x1b\\[(?:3[0-7]|0)m|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]")
_INSTEAD = "\N{REPLACEMENT CHARACTER}"


def say(text: str, *, is_error: bool = False) -> None:
    """Write a line to standard output, or to standard error."""
    click.echo(harmless(text), err=is_error)


def harmless(text: str) -> str:
    """Return a text with what a terminal would obey replaced, our colours excepted."""
    return _OBEYED.sub(lambda found: found[0] if len(found[0]) > 1 else _INSTEAD, text)
