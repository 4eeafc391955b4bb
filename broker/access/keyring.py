"""The tokens as they are now: the file, read again whenever it changes.

The rule: a file that cannot be used changes nothing. What was good before it stays, so that a slip
of an editor shuts nobody out, and ``trouble`` says so until it is mended. Read ``Keyring.find``.
"""

import logging
from collections.abc import Mapping
from pathlib import Path

from broker.access import book, files
from broker.access.tokens import Shown, Token, is_of

_log = logging.getLogger(__name__)


class Keyring:
    """The tokens of a file."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises BookError when it cannot be used, or holds no token."""
        self._path = path
        self._mark = files.mark_of(path)
        self._trouble = ""
        self._tokens: Mapping[str, Token] = {token.id: token for token in book.load(path)}
        if not self._tokens:
            raise book.BookError(f"{path} holds no token")

    def find(self, shown: Shown, wall_s: float) -> Token | None:
        """Return the token of a word, None when there is none or it has expired."""
        token = self._tokens.get(shown.id)
        if not is_of(shown, token):
            # It may have been made a moment ago. What cannot be read waits for the next look.
            if files.mark_of(self._path) != self._mark:
                self.refresh()
            token = self._tokens.get(shown.id)
            if not is_of(shown, token):
                return None
        assert token is not None
        return None if token.is_over(wall_s) else token

    def knows(self, token_id: str) -> bool:
        """Whether there is a token of that id."""
        return token_id in self._tokens

    def still_holds(self, token: Token, wall_s: float) -> bool:
        """Whether a token that was found is still there as it was."""
        return self._tokens.get(token.id) == token and not token.is_over(wall_s)

    def refresh(self) -> None:
        """Read the file again if it has changed, or could not be read before."""
        mark = files.mark_of(self._path)
        if mark == self._mark and not self._trouble:
            return
        self._mark = mark
        try:
            self._tokens = {token.id: token for token in book.load(self._path)}
        except book.BookError as error:
            trouble = f"{error}; the tokens are those that it held before"
            if trouble != self._trouble:
                _log.error("tokens are not read: %s", trouble)
            self._trouble = trouble
            return
        self._trouble = ""
        _log.info("tokens read", extra={"path": self._path, "tokens": len(self._tokens)})

    def trouble(self) -> str:
        """Return why the file cannot be used now, empty when it can."""
        return self._trouble
