"""Chance: the ids and nonces that nobody can guess or has used before.

The rule: nothing else in the broker draws; pure code is handed what was drawn. Read ``Ids`` first.
"""

import os
from collections.abc import Callable

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ALPHABET = _LETTERS + "0123456789"
RUN_UID_LENGTH = 20  # 103 bits: never drawn twice, also not by a restored broker
PLACEMENT_LENGTH = 12  # 62 bits within one run's handful of placements
NONCE_LENGTH = 16  # 64 bits within one run's epochs, hexadecimal as the start protocol wants it
_PAIRS = tuple(first + second for second in _ALPHABET for first in _ALPHABET)

_POOL_BYTES = 4096


class KernelChance:
    """Uniform numbers from the kernel's chance, fetched for many draws at once.

    Each question to the kernel lets go of the interpreter, and may then wait milliseconds for
    another thread to let go of it again. Bytes are used once; a process that forks must not share
    what is left of them.
    """

    def __init__(self) -> None:
        self._pool = b""
        self._used = 0

    def below(self, bound: int) -> int:
        """Return a uniform number from 0 on and below ``bound``."""
        bits = (bound - 1).bit_length()
        size = (bits + 7) // 8
        while True:
            number = int.from_bytes(self._take(size), "big") >> (8 * size - bits)
            # What is not below the bound is drawn anew: a remainder would favour some numbers.
            if number < bound:
                return number

    def _take(self, size: int) -> bytes:
        if len(self._pool) - self._used < size:
            self._pool, self._used = os.urandom(max(_POOL_BYTES, size)), 0
        self._used += size
        return self._pool[self._used - size : self._used]


class Ids:
    """Draws ids. ``pick`` returns a uniform number below its argument, None for the kernel's;
    tests seed it."""

    def __init__(self, pick: Callable[[int], int] | None = None) -> None:
        self._pick = pick or KernelChance().below

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
        number = self._pick(len(_LETTERS) * len(_ALPHABET) ** (length - 1))
        parts = []
        for _ in range((length - 1) // 2):
            number, digits = divmod(number, len(_PAIRS))
            parts.append(_PAIRS[digits])
        if length % 2 == 0:
            number, digit = divmod(number, len(_ALPHABET))
            parts.append(_ALPHABET[digit])
        return _LETTERS[number] + "".join(parts)
