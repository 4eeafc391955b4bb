"""What it means when a cluster does not do what it is asked, and whether asking again can help.
Pure.

The rule: what passes by itself (a busy server, a part of it that is away, credentials that ran out)
says when to ask again; what a person has to change does not, so that the gang goes elsewhere at
once. Read ``outcome_of`` first.
"""

import re
from dataclasses import dataclass
from typing import Any

import msgspec

from regions.cluster import Cause, Outcome
from regions.kueue.errors import AccessError, BrokenError, ClusterError, RefusedError
from regions.kueue.words import HEARD_CHARACTERS, cleaned

UNHEARD_S = 1.0
BUSY_S = 5.0
AWAY_S = 10.0
UNKNOWN_US_S = 30.0
FULL_S = 60.0
LONGEST_S = 300.0
"""However long a server wants to be left alone: it is asked again within this."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A refusal by its HTTP status (None: any) and by what it says, and what is told of it.

    ``again_s`` None: asking again cannot help.
    """

    status: int | None
    pattern: re.Pattern[str]
    sentence: str
    again_s: float | None = None


def _answer(
    status: int | None, pattern: str, sentence: str, again_s: float | None = None
) -> Answer:
    return Answer(status, re.compile(pattern, re.IGNORECASE), sentence, again_s)


ANSWERS = (
    _answer(401, "", "the cluster does not know the broker, or no longer", UNKNOWN_US_S),
    _answer(403, "being terminated", "the broker's namespace is being removed"),
    _answer(403, "exceeded quota", "the namespace may not hold more objects", FULL_S),
    _answer(
        None,
        "priority-class",
        "the cluster does not let a gang's priority be changed after it was queued",
    ),
    _answer(None, "admission webhook [^\n]{1,300} denied", "a rule of the cluster refuses it"),
    _answer(403, "violates PodSecurity", "the namespace's security standard does not admit it"),
    _answer(403, "", "the broker may not do this in the cluster"),
    _answer(404, "namespaces? [^\n]{1,300} not found", "the broker's namespace is not there"),
    _answer(
        404, "could not find the requested resource", "the cluster does not know JobSets or Kueue"
    ),
    _answer(404, "", "what it is about is not in the cluster"),
    _answer(409, "", "another object than the one that is meant has its name"),
    _answer(413, "", "it is larger than the cluster takes"),
    _answer(None, "request is too large", "it is larger than the cluster takes"),
    _answer(422, "", "the cluster calls it invalid"),
    _answer(429, "", "the cluster is asked too much at once", BUSY_S),
    _answer(
        None,
        "failed calling webhook|no endpoints available|connection refused",
        "a part of the cluster that has a say in it does not answer",
        AWAY_S,
    ),
    _answer(500, "", "the cluster failed to do it", AWAY_S),
    _answer(502, "", "the way to the cluster is broken", AWAY_S),
    _answer(503, "", "the cluster cannot answer now", AWAY_S),
    _answer(504, "", "the cluster did not finish in time", BUSY_S),
)


def outcome_of(error: ClusterError) -> Outcome:
    """Return what became of an action that a cluster did not carry out."""
    if isinstance(error, RefusedError):
        return _refused(error)
    if isinstance(error, AccessError):
        return _told(f"there are no credentials for the cluster ({cleaned(str(error))})", FULL_S)
    # Nobody knows whether it was done: asked again, it is found done or is done then.
    if isinstance(error, BrokenError):
        why = f"the cluster's answer is none ({cleaned(str(error))})"
    else:
        why = f"the cluster did not answer ({cleaned(str(error))})"
    return Outcome(is_done=False, cause=Cause.UNKNOWN, message=why, retry_after_s=UNHEARD_S)


def _refused(error: RefusedError) -> Outcome:
    said = error.message[:HEARD_CHARACTERS]
    for answer in ANSWERS:
        if answer.status in (None, error.status) and answer.pattern.search(said):
            again_s = answer.again_s
            if again_s is not None and error.retry_after_s is not None:
                again_s = min(max(again_s, error.retry_after_s), LONGEST_S)
            return _told(f"{answer.sentence} ({_own(error)})", again_s)
    again_s = BUSY_S if error.status >= 500 else None
    return _told(f"the cluster refuses it ({_own(error)})", again_s)


def _own(error: RefusedError) -> str:
    return cleaned(error.message or error.reason) or f"status {error.status}"


def _told(message: str, again_s: float | None) -> Outcome:
    return Outcome(is_done=False, cause=Cause.REFUSED, message=message, retry_after_s=again_s)


def decoded(body: bytes) -> dict[str, Any]:
    """Return the object that an answer holds. Raises BrokenError."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BrokenError(f"the answer is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise BrokenError("the answer is no object")
    return found
