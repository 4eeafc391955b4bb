"""Chance: the ids and nonces that nobody can guess or has used before.

The rule: nothing else in the broker draws; pure code is handed what was drawn. Read ``Ids`` first.
"""

import secrets
from collections.abc import Callable

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ALPHABET = _LETTERS + "0123456789"
RUN_UID_LENGTH = 20  # 103 bits: never drawn twice, also not by a restored broker
PLACEMENT_LENGTH = 12  # 62 bits within one run's handful of placements
NONCE_LENGTH = 16  # 64 bits within one run's epochs, hexadecimal as the start protocol wants it


class Ids:
    """Draws ids. ``pick`` returns a uniform number below its argument; tests seed it."""

    def __init__(self, pick: Callable[[int], int] = secrets.randbelow) -> None:
        self._pick = pick

    def run_uid(self) -> str:
        """Return a run's uid: its key in every store."""
        return self.text(RUN_UID_LENGTH)

    def placement(self) -> str:
        """Return the id of a placement."""
        return self.text(PLACEMENT_LENGTH)

    def nonce(self) -> str:
        """Return the nonce of a grant."""
        return f"{self._pick(16**NONCE_LENGTH):0{NONCE_LENGTH}x}"

    def text(self, length: int) -> str:
        """Return random lower-case letters and digits, the first one a letter."""
        # One draw for all of it: each draw asks the kernel, and a submit needs 28 characters.
        number = self._pick(len(_LETTERS) * len(_ALPHABET) ** (length - 1))
        characters = []
        for _ in range(length - 1):
            number, digit = divmod(number, len(_ALPHABET))
            characters.append(_ALPHABET[digit])
        return _LETTERS[number] + "".join(characters)
