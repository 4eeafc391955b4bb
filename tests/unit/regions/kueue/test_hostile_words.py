"""Whatever a cluster's texts hold, something is said: one bounded line, and nothing ever raises."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regions.kueue.explanation import Evidence, explain
from regions.kueue.vocabulary import Word
from regions.kueue.words import DETAIL_CHARACTERS, HEARD_CHARACTERS, RAW_CHARACTERS
from tests.unit.regions.kueue.tellings import (
    NOW_S,
    admitted,
    check,
    ended,
    make_cluster_queue,
    make_container,
    make_event,
    make_evidence,
    make_job_set,
    make_pod,
    make_request,
    make_workload,
    reserved,
    said,
    stuck,
    unbound,
    waiting,
)

PIECES = (
    "insufficient unused quota for ",
    " in flavor ",
    "insufficient quota for ",
    "untolerated taint {",
    'topology "',
    'volume "',
    "Insufficient ",
    "launcher: cannot run ",
    "NCCL",
    "timeout",
    "not found",
    'secret "',
    "\x1b[2J",
    "\u202e",
    "\ud800",
    "\0",
    "{0}{detail}",
    "%s",
    "\n",
)
texts = st.one_of(
    st.text(max_size=300),
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=10)), max_size=30).map("".join),
)
reasons = st.one_of(
    texts,
    st.sampled_from(
        ["Pending", "Inadmissible", "Preempted", "Failed", "Evicted", "OOMKilled", "StartError"]
    ),
)
numbers = st.none() | st.integers(-(2**63), 2**63)


@st.composite
def evidences(draw: st.DrawFn) -> Evidence:
    """A gang at any point of its life, of which strange things are told."""
    reason, text, other = draw(reasons), draw(texts), draw(texts)
    workload = draw(
        st.sampled_from(
            [
                None,
                waiting(reason, text),
                make_workload(said("Evicted", reason, text)),
                make_workload(said("Finished", reason, text)),
                reserved(checks=(check(other, reason, text),)),
                reserved(said("Evicted", reason, text)),
                admitted(),
            ]
        )
    )
    code, signal = draw(numbers), draw(numbers)
    container = make_container("waiting", reason, text, name=other)
    first = make_container("terminated", reason, text, name=other, is_init=True, exit_code=code)
    pods = draw(
        st.lists(
            st.sampled_from(
                [
                    stuck(reason, text),
                    make_pod(0, container),
                    make_pod(0, containers=(first, container)),
                    make_pod(0, phase="Failed", reason=reason, message=text, containers=()),
                    ended(code, text, reason=reason, signal=signal),
                    ended(1, conditions=(said("DisruptionTarget", reason, text),)),
                    unbound(1, said("PodScheduled", reason, text, status=False), gates=(other,)),
                ]
            ),
            max_size=3,
        )
    )
    events = draw(
        st.lists(
            st.sampled_from(
                [
                    make_event(kind, text, about=about, about_name=other)
                    for kind in ("FailedMount", "FailedScaleUp", "FailedCreate", reason)
                    for about in (None, make_pod(0), unbound(1))
                ]
            ),
            max_size=3,
        )
    )
    queue = draw(
        st.sampled_from(
            [
                None,
                make_cluster_queue(),
                make_cluster_queue(said("Active", reason, text, status=False)),
            ]
        )
    )
    return make_evidence(
        workload=workload,
        pods=tuple(pods),
        events=tuple(events),
        cluster_queue=queue,
        job_set=make_job_set(
            terminal_state=draw(st.sampled_from(["", "Failed", "Completed", other]))
        ),
        flavor=other,
        requests=(make_request(said(draw(reasons), reason, text)),),
        flex_checks=frozenset(draw(st.sets(st.just(other)))),
    )


@given(evidences())
def test_something_is_said_in_one_bounded_line(evidence: Evidence) -> None:
    verdict = explain(evidence)
    assert Word(verdict.word)
    for text in (verdict.sentence, verdict.advice, verdict.raw, verdict.look_at):
        assert text.isprintable()
    assert len(verdict.raw) <= RAW_CHARACTERS
    assert len(verdict.sentence) <= DETAIL_CHARACTERS + 120
    assert verdict.unknown or verdict.word != Word.UNKNOWN
    # It is the label of a metric.
    assert re.fullmatch(r"[A-Za-z0-9_./:-]{0,100}", verdict.unknown)


@pytest.mark.parametrize("piece", [*PIECES, "a", " ", '"', "{", ", "])
def test_a_text_that_never_ends_is_heard_to_its_bound(piece: str) -> None:
    long = piece * (4 * HEARD_CHARACTERS)
    evidence = [
        make_evidence(workload=waiting("Pending", long)),
        make_evidence(workload=admitted(), pods=(ended(1, long),)),
        make_evidence(workload=admitted(), pods=(stuck("ErrImagePull", long),)),
        make_evidence(
            workload=admitted(),
            pods=(stuck("ContainerCreating"),),
            events=(make_event("FailedMount", long, about=make_pod(0), last_s=NOW_S),),
        ),
    ]
    # A pattern that doubles its time with each letter would not come to an end here.
    for each in evidence:
        assert len(explain(each).raw) <= RAW_CHARACTERS
