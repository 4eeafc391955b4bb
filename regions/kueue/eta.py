"""When capacity that is asked for is to come, as the cluster's own words have it. Pure.

The rule: the words are anybody's, so only what can be nothing else is believed: a time, or a span
after a word that promises one; and what is past, or years away, is no promise. Read ``eta_s``.
"""

import re
from collections.abc import Iterable

from regions.kueue import check_hearing
from regions.kueue.objects.meta import find
from regions.kueue.objects.provisioning_request import ProvisioningRequest
from regions.kueue.objects.reading import unix_s
from regions.kueue.words import HEARD_CHARACTERS

FURTHEST_S = 30 * 86_400.0
"""A request waits a week at most; what is further away is another time than ours."""

_PROMISE = r"(?:ETA|estimated|expected|available|ready)[^\n]{0,60}?"
_TIME = re.compile(
    _PROMISE
    + r"(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?: ?UTC|Z|[+-]\d\d:\d\d)?)",
    re.IGNORECASE,
)
_SPAN = re.compile(
    _PROMISE + r"(?P<count>\d{1,7}) ?(?P<unit>s|m|h|sec|min|hour)(?:onds?|utes?|s)?\b",
    re.IGNORECASE,
)
_UNITS = {"s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "hour": 3600.0}


def eta_s(requests: Iterable[ProvisioningRequest], now_s: float) -> float | None:
    """Return in how many seconds flex capacity is said to come, None when no time is named.

    Of several requests the newest counts. ``now_s`` is in Unix seconds.
    """
    newest = check_hearing.newest(requests)
    said = find(newest.conditions, "Provisioned") if newest is not None else None
    if said is None or said.status is True:
        return None
    heard = said.message[:HEARD_CHARACTERS]
    found = _TIME.search(heard)
    if found is not None:
        at_s = unix_s(found["time"].replace(" UTC", "Z").replace("UTC", "Z").replace(" ", "T"))
        return None if at_s is None else _believed(at_s - now_s)
    span = _SPAN.search(heard)
    if span is None:
        return None
    since_s = now_s if said.since_s is None else said.since_s
    return _believed(since_s + int(span["count"]) * _UNITS[span["unit"].lower()] - now_s)


def _believed(seconds: float) -> float | None:
    return seconds if 0.0 <= seconds <= FURTHEST_S else None
