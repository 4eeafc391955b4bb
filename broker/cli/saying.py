"""Lines for a terminal, whoever their words come from.

The rule: what a cluster, a teammate or a training process wrote is text, and never moves a cursor,
sets a title or hides a line; of what a terminal obeys only our own colours pass. A run's logs are
written as they are where a program reads them, and to a terminal with their own colours and no
more. Read ``say`` first.
"""

import codecs
import re

import click

# Our own colours, as click writes them; and all that a terminal would obey, but tab and newline.
_OBEYED = re.compile(
    "\x1b\\[(?:3[0-7]|0)m|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
# A log may be coloured; a progress bar that returns to the line's beginning begins a new line.
_LOG_OBEYED = re.compile(
    "\x1b\\[[0-9;]{0,32}m|\r+\n?|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
_UNFINISHED = re.compile("(?:\x1b(?:\\[[0-9;]{0,32})?|\r+)\\Z")
_PLAIN_AGAIN = "\x1b[0m"
_INSTEAD = "\N{REPLACEMENT CHARACTER}"


def say(text: str, *, is_error: bool = False) -> None:
    """Write a line to standard output, or to standard error."""
    click.echo(harmless(text), err=is_error)


def harmless(text: str) -> str:
    """Return a text with what a terminal would obey replaced, our colours excepted."""
    return _OBEYED.sub(lambda found: found[0] if len(found[0]) > 1 else _INSTEAD, text)


class LogText:
    """A run's log on its way to a terminal, whichever way it is cut into chunks."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._held = ""
        self._is_coloured = False

    def take(self, chunk: bytes) -> str:
        """Return what can be shown of it now."""
        text = self._held + self._decoder.decode(chunk)
        cut = _UNFINISHED.search(text)
        text, self._held = (text[: cut.start()], cut[0]) if cut else (text, "")
        return _LOG_OBEYED.sub(self._shown, text)

    def rest(self) -> str:
        """Return what is left at the end, and the terminal's own colours."""
        text = self._held + self._decoder.decode(b"", final=True)
        self._held = ""
        shown = _LOG_OBEYED.sub(self._shown, text)
        return shown + (_PLAIN_AGAIN if self._is_coloured else "")

    def _shown(self, found: re.Match[str]) -> str:
        text = found[0]
        if text.startswith("\r"):
            return "\n"
        if len(text) > 1:
            self._is_coloured = True
            return text
        return _INSTEAD
