"""What the checks behind a reservation say: flex capacity that is to come, and checks of others.
Pure.

The rule: a gang that holds quota waits for whatever check is not ready; a request for flex capacity
tells more than the check that made it, and the newest attempt alone counts. Read ``of_checks``.
"""

from collections.abc import Iterable, Sequence

from regions.kueue.hearing import Heard, hear, sayings, unknown
from regions.kueue.objects.meta import find
from regions.kueue.objects.provisioning_request import ProvisioningRequest
from regions.kueue.objects.workload import CheckState, Workload
from regions.kueue.vocabulary import Word

# What a request that failed says of the reason, as the autoscaler has it.
_WHY_FAILED = sayings(
    (r"quota.{0,40}exceeded|exceeded.{0,40}quota", Word.CLOUD_QUOTA_EXCEEDED),
    (r"max(?:imum)? node ?(?:pool|group) size reached", Word.POOL_AT_ITS_MAXIMUM),
    (r"IP space exhausted|IP_SPACE_EXHAUSTED", Word.NO_ADDRESSES_LEFT),
)
_STATES = {
    "Pending": Word.CHECK_PENDING,
    "Retry": Word.CHECK_FAILED,
    "Rejected": Word.CHECK_REJECTED,
}


def of_checks(
    workload: Workload,
    requests: Sequence[ProvisioningRequest],
    flex_checks: frozenset[str],
) -> Heard:
    """Say what a gang with quota, and not let in, waits for.

    ``flex_checks`` are the checks that ask for flex capacity, ``requests`` the workload's own.
    """
    open_ = [check for check in workload.checks if check.state != "Ready"]
    look_at = f"workload/{workload.meta.name}"
    if not open_:
        return Heard(word=Word.NOT_LOOKED_AT_YET, look_at=look_at)
    # A refusal is final, whatever else is still open; checks of others come before the wait for
    # machines, because that one ends by itself.
    ranked = sorted(open_, key=lambda one: (one.state != "Rejected", one.name in flex_checks))
    check = ranked[0]
    if check.name in flex_checks:
        latest = newest(requests)
        heard = of_request(latest) if latest else None
        return heard or _of_flex_check(check, look_at)
    return _of_check(check, look_at)


def _of_check(check: CheckState, look_at: str) -> Heard:
    word = _STATES.get(check.state)
    if word is None:
        counted = unknown("AdmissionCheck", check.state)
        return Heard(word=Word.UNKNOWN, raw=check.message, look_at=look_at, unknown=counted)
    return Heard(word=word, detail=check.name, raw=check.message, look_at=look_at)


def _of_flex_check(check: CheckState, look_at: str) -> Heard:
    word = {"Retry": Word.FLEX_FAILED, "Rejected": Word.FLEX_FAILED}.get(check.state)
    return Heard(word=word or Word.FLEX_NOT_ACCEPTED, raw=check.message, look_at=look_at)


def of_request(request: ProvisioningRequest) -> Heard:
    """Say how far a request for flex capacity is.

    Of a silent one no more is said than that it waits: how long that is borne is not a cluster's.
    """
    look_at = f"provisioningrequest/{request.meta.name}"
    for condition, word in _ENDS:
        said = find(request.conditions, condition)
        if said is not None and said.status is True:
            why = hear(said.message, _WHY_FAILED) if word is Word.FLEX_FAILED else None
            return Heard(word=why[0] if why else word, raw=said.message, look_at=look_at)
    accepted, provisioned = (find(request.conditions, t) for t in ("Accepted", "Provisioned"))
    if provisioned is not None and provisioned.status is True:
        return Heard(word=Word.NODES_COMING, raw=provisioned.message, look_at=look_at)
    is_accepted = accepted is not None and accepted.status is True
    raw = provisioned.message if provisioned is not None else ""
    word = Word.WAITING_FOR_FLEX if is_accepted else Word.FLEX_NOT_ACCEPTED
    return Heard(word=word, raw=raw, look_at=look_at)


_ENDS = (
    ("CapacityRevoked", Word.FLEX_CAPACITY_REVOKED),
    ("BookingExpired", Word.FLEX_BOOKING_EXPIRED),
    ("Failed", Word.FLEX_FAILED),
)


def newest(requests: Iterable[ProvisioningRequest]) -> ProvisioningRequest | None:
    """Return the last attempt to get flex capacity, None when there is none."""
    # Each attempt is a new object; clocks tell whole seconds, so its number counts too.
    return max(requests, key=lambda one: (one.meta.created_s or 0.0, _attempt(one)), default=None)


def _attempt(request: ProvisioningRequest) -> int:
    number = request.meta.name.rpartition("-")[2]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 9 else 0
