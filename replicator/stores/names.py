"""Which object names are safe in every store: the one place that decides it.

A name is a relative path of plain segments. What a directory, an object store or a manifest from
elsewhere offers is checked here before it is used. Read ``refusal`` first.
"""

import re

from replicator.errors import NameRefused

# The limits of the narrowest stores: 255 bytes a segment on ext4, 1024 bytes a name in GCS.
MAX_SEGMENT_BYTES = 255
MAX_NAME_BYTES = 1024
# What a store keeps at its root for itself: the file that says that it is one, and what is being
# written there.
STORE_MARKER = ".store"
TEMPORARY = ".tmp"
_UNSAFE = re.compile(r"[\\\x00-\x1f\x7f]")


def refusal(name: str) -> str | None:
    """Say why ``name`` is no safe object name, or None when it is one."""
    try:
        encoded = name.encode("utf-8")
    except UnicodeEncodeError:
        return "it is not valid Unicode"
    if not name:
        return "it is empty"
    if len(encoded) > MAX_NAME_BYTES:
        return f"it is longer than {MAX_NAME_BYTES} bytes"
    for segment in name.split("/"):
        why = _segment_refusal(segment)
        if why is not None:
            return why
    return None


def checked(name: str) -> str:
    """Return ``name``, or raise NameRefused."""
    why = refusal(name)
    if why is not None:
        raise NameRefused(repr(name[:200]), why)
    return name


def checked_content(name: str) -> str:
    """Return ``name`` if content may have it, or raise NameRefused."""
    if name.partition("/")[0] in (STORE_MARKER, TEMPORARY):
        raise NameRefused(name, "the store keeps this name for itself")
    return checked(name)


def checked_prefix(prefix: str) -> str:
    """Return ``prefix``, which ends in a slash and is otherwise a name, or raise NameRefused."""
    if not prefix.endswith("/"):
        raise NameRefused(repr(prefix[:200]), "a prefix ends in a slash")
    checked(prefix[:-1])
    return prefix


def _segment_refusal(segment: str) -> str | None:
    if segment in ("", ".", ".."):
        return f"it has the segment {segment!r}"
    if len(segment.encode("utf-8")) > MAX_SEGMENT_BYTES:
        return f"a segment is longer than {MAX_SEGMENT_BYTES} bytes"
    if _UNSAFE.search(segment):
        return "it has a backslash or a control character"
    return None
