"""Refusals of a cluster's API: what they mean, and whether to ask again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regions.cluster import Cause
from regions.kueue.answers import LONGEST_S, outcome_of
from regions.kueue.errors import AccessError, BrokenError, ClusterError, SilentError, refusal
from regions.kueue.words import RAW_CHARACTERS

HELPS = {
    "ran-out credentials": (refusal(401, "Unauthorized"), "does not know the broker"),
    "a busy server": (refusal(429, "TooManyRequests", "please try again later"), "too much"),
    "kueue is away": (
        refusal(
            500,
            "InternalError",
            'Internal error occurred: failed calling webhook "mjobset.kb.io": connection refused',
        ),
        "does not answer",
    ),
    "a server that starts": (refusal(503, "ServiceUnavailable"), "cannot answer now"),
    "a status that nobody expects, of the server's own": (refusal(599), "refuses it"),
    "a full namespace": (refusal(403, "Forbidden", "exceeded quota: objects"), "not hold more"),
    "silence": (SilentError("no answer"), "did not answer"),
    "no credentials": (AccessError("gke-gcloud-auth-plugin failed"), "credentials"),
    "half an answer": (BrokenError("cut short"), "answer is none"),
}


@pytest.mark.parametrize("case", HELPS)
def test_asking_again_helps_with(case: str) -> None:
    error, expected = HELPS[case]
    outcome = outcome_of(error)
    assert not outcome.is_done
    assert outcome.retry_after_s is not None
    assert expected in outcome.message
    # Where nothing was heard nobody knows whether it was done.
    is_unheard = isinstance(error, (SilentError, BrokenError))
    assert outcome.cause is (Cause.UNKNOWN if is_unheard else Cause.REFUSED)


USELESS = {
    "a right that is not there": (
        refusal(403, "Forbidden", 'jobsets is forbidden: cannot create resource "jobsets"'),
        "may not do this",
    ),
    "a namespace that is not there": (
        refusal(404, "NotFound", 'namespaces "training" not found'),
        "namespace is not there",
    ),
    "a namespace on its way out": (
        refusal(403, "Forbidden", "unable to create new content in namespace: being terminated"),
        "being removed",
    ),
    "a cluster without JobSets": (
        refusal(404, "NotFound", "the server could not find the requested resource"),
        "does not know JobSets",
    ),
    "a rule of the cluster": (
        refusal(403, "Forbidden", 'admission webhook "policy" denied the request: no'),
        "a rule of the cluster",
    ),
    "a rule of the cluster, as a bad request": (
        refusal(400, "BadRequest", 'admission webhook "policy" denied the request: no'),
        "a rule of the cluster",
    ),
    "another object": (refusal(409, "Conflict"), "another object"),
    "an object that is too large": (
        refusal(500, "InternalError", "etcdserver: request is too large"),
        "larger than",
    ),
    "a priority that cannot be raised": (
        refusal(
            403,
            "Forbidden",
            'admission webhook "vjobset.kb.io" denied the request: '
            "metadata.labels[kueue.x-k8s.io/priority-class]: field is immutable",
        ),
        "priority be changed",
    ),
    "an invalid object": (refusal(422, "Invalid", "spec.x: Invalid value"), "calls it invalid"),
    "a status that nobody expects": (refusal(418, "", "teapot"), "teapot"),
}


@pytest.mark.parametrize("case", USELESS)
def test_asking_again_is_useless_with(case: str) -> None:
    error, expected = USELESS[case]
    outcome = outcome_of(error)
    assert (outcome.is_done, outcome.cause, outcome.retry_after_s) == (False, Cause.REFUSED, None)
    assert expected in outcome.message


def test_a_server_that_names_a_time_is_left_alone_for_it_and_not_for_ever() -> None:
    assert outcome_of(refusal(429, retry_after_s=40.0)).retry_after_s == 40.0
    assert outcome_of(refusal(429, retry_after_s=1e9)).retry_after_s == LONGEST_S
    assert outcome_of(refusal(429, retry_after_s=-7.0)).retry_after_s == 5.0


@given(st.integers(300, 700), st.text(max_size=3000), st.floats() | st.none())
def test_whatever_it_says_is_told_in_one_bounded_line(
    status: int, text: str, again_s: float | None
) -> None:
    errors: list[ClusterError] = [refusal(status, text, text, again_s), BrokenError(text)]
    for error in errors:
        outcome = outcome_of(error)
        assert outcome.message.isprintable()
        assert len(outcome.message) <= RAW_CHARACTERS + 120
        assert outcome.retry_after_s is None or 0 < outcome.retry_after_s <= LONGEST_S
