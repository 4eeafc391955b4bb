"""Texts that come from elsewhere and end before people: what of them can be told as it is.

The rule: half a character, which JSON lets through and no log takes, and what moves a terminal's
cursor, are in no record and no sentence of ours. Read ``told`` first.
"""

from __future__ import annotations

import unicodedata


def told(text: str, most: int) -> str:
    """Cut a text to so many characters, blanks in the place of those that cannot be told."""
    cut = text[:most]
    if can_be_told(cut):
        return cut
    return "".join(" " if _is_unsayable(one) else one for one in cut)


def can_be_told(text: str) -> bool:
    """Whether a text can be written down again and shown to a person as it is."""
    return text.isprintable() or not any(map(_is_unsayable, text))


def _is_unsayable(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs")
