"""What stands in the headers of a registry's answers: ranges, and for how long to wait.

A header that cannot be read says nothing: None, and the caller does without. Read ``retry_after_s``
first.
"""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_RETRY_AFTER_S = 3600.0
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)")
_RECEIVED = re.compile(r"(?:bytes[= ])?0-([0-9]{1,18})")


def retry_after_s(value: str | None, date: str | None) -> float | None:
    """Return for how many seconds a server wants to be left alone, an hour at the most.

    A point in time is read by the server's own ``date``, so that no two clocks are compared.
    """
    if value is None:
        return None
    if re.fullmatch(r"[0-9]{1,9}", value.strip()):
        wait_s = float(value)
    else:
        until, now = _moment(value), _moment(date)
        if until is None or now is None:
            return None
        wait_s = (until - now).total_seconds()
    return min(max(wait_s, 0.0), MAX_RETRY_AFTER_S)


def first_byte(content_range: str | None) -> int | None:
    """Return where in the blob a partial answer begins."""
    found = _CONTENT_RANGE.fullmatch((content_range or "").strip())
    return int(found[1]) if found else None


def received_bytes(value: str | None) -> int | None:
    """Return how much of an upload the registry has, by its ``Range: 0-<last>``.

    ``0-0`` is nothing: registries say it of an upload that has not begun.
    """
    found = _RECEIVED.fullmatch((value or "").strip())
    if found is None:
        return None
    last = int(found[1])
    return last + 1 if last else 0


def length(value: str | None) -> int | None:
    """Return what ``Content-Length`` says."""
    return int(value) if value is not None and re.fullmatch(r"[0-9]{1,18}", value) else None


def _moment(value: str | None) -> datetime | None:
    try:
        found = parsedate_to_datetime(value) if value else None
    except (ValueError, OverflowError):
        return None
    if found is None or found.tzinfo is not None:
        return found
    return found.replace(tzinfo=UTC)
